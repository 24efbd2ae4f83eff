"""Sequences walked in blocks of steps by compiled code, in eager programs that walk many.

A step is a dozen small operations, each of which costs more than its arithmetic. A block of steps is one compiled
function, whose length hardly depends on the sequence's: texts of any length share a few blocks. Which calls are served
depends on how many steps were walked before, not on a clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from .. import config
from ..modes import MODES
from ..ops.functions.joining import cat, stack
from ..tensor import Tensor
from .recurrent_steps import KINDS, State, StepWeights, cut, pieces, walk

__all__: list[str] = []

#: Steps of each kind that are walked one by one before blocks are compiled, which takes about as long.
PATIENCE = 256
#: How many steps a block has; the last one of a sequence may have fewer.
LENGTH = 16
_walked: dict[str, int] = {}
_lock = threading.Lock()


def in_blocks(
    mode: str, gates: Any, state: State, weights: StepWeights, back: bool
) -> tuple[Any, State] | None:
    """The outputs (T, N, H) and the last state of equally long sequences, or None where steps are to be walked.

    ``gates`` are the input's part, (T, N, gates * H).
    """
    if not _serves(gates, *state, *weights):
        return None
    with _lock:
        walked = _walked[mode] = _walked.get(mode, 0) + gates.shape[0]
    if walked <= PATIENCE:
        return None
    parts = cut(gates, 0, _lengths(gates.shape[0]))
    given = [w for w in weights if w is not None]
    block = _block(mode, back, *[w is not None for w in weights])
    outputs = []
    for part in reversed(parts) if back else parts:
        found, *after = block(part, *state, *given)
        state = tuple(after)
        outputs.append(found)
    outputs = outputs[::-1] if back else outputs
    return outputs[0] if len(outputs) == 1 else cat(outputs, 0), state


def _serves(*tensors: Any) -> bool:
    """Do these run eagerly, on the host, and are they nothing but tensors?"""
    if MODES.recorder is not None or MODES.builder is not None or MODES.saved_hooks:
        return False
    if config.disabled or MODES.autocast is not None or not tensors[0].shape[0]:
        return False
    return all(x is None or (isinstance(x, Tensor) and x.device.type == "cpu") for x in tensors)


def _lengths(steps: int) -> list[int]:
    """How many steps each block has.

    >>> _lengths(38)
    [16, 16, 6]
    """
    count, rest = divmod(steps, LENGTH)
    return [LENGTH] * count + [rest] * (rest > 0)


@cache
def _block(mode: str, back: bool, *there: bool) -> Callable[..., tuple[Any, ...]]:
    """The compiled function of the steps of a block, of tensors alone; ``there`` tells which weights are."""
    from ..jit import compile

    step = KINDS[mode][1]
    count = sum(there)

    def block(gates: Any, *tensors: Any) -> tuple[Any, ...]:
        given = iter(tensors[len(tensors) - count :])
        weights = StepWeights(*[next(given) if one else None for one in there])
        steps = pieces(gates, None)
        steps = steps[::-1] if back else steps
        outputs, end = walk(step, steps, tensors[: len(tensors) - count], weights)
        return stack(outputs[::-1] if back else outputs, 0), *end

    compiled: Callable[..., tuple[Any, ...]] = compile(block)
    return compiled
