"""Sequences walked by compiled code, in eager programs that walk many.

A step is a dozen small operations, each of which costs more than its arithmetic. The walk is a function compiled by
this package itself, recorded once for sequences of any length. Which calls it serves depends on how many steps were
walked before, not on a clock.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from .. import config
from ..determinism import are_deterministic_algorithms_enabled
from ..modes import MODES
from ..tensor import Tensor
from .recurrent_steps import KINDS, State, StepWeights, walk_batch

__all__: list[str] = []

#: Steps of each kind that are walked one by one before the walk is compiled, which takes about as long.
PATIENCE = 256
_walked: dict[str, int] = {}


def walk_compiled(
    mode: str, gates: Any, state: State, weights: StepWeights, back: bool
) -> tuple[Any, State] | None:
    """The outputs (T, N, H) and the last state of equally long sequences, or None where steps are to be walked.

    ``gates`` are the input's part, (T, N, gates * H).
    """
    if not _serves(gates, *state, *weights):
        return None
    walked = _walked[mode] = _walked.get(mode, 0) + gates.shape[0]
    if walked <= PATIENCE:
        return None
    walk = _walk(mode, back, *[w is not None for w in weights])
    outputs, *end = walk(gates, *state, *weights.present())
    return outputs, tuple(end)


def _serves(*tensors: Any) -> bool:
    """Do these run eagerly, on the host, and are they nothing but tensors?"""
    if MODES.recorder is not None or MODES.builder is not None or MODES.saved_hooks:
        return False
    if config.disabled or MODES.autocast is not None or not tensors[0].shape[0]:
        return False
    if are_deterministic_algorithms_enabled():  # equal calls have equal bits, early and late
        return False
    return all(x is None or (isinstance(x, Tensor) and x.device.type == "cpu") for x in tensors)


@cache
def _walk(mode: str, back: bool, *there: bool) -> Callable[..., tuple[Any, ...]]:
    """The compiled function of tensors alone that walks a sequence; ``there`` tells which weights are."""
    from ..jit import compile

    step, count = KINDS[mode][1], sum(there)
    places = StepWeights(*[one or None for one in there])

    def walk(gates: Any, *tensors: Any) -> tuple[Any, ...]:
        first = len(tensors) - count
        weights = places.with_present(tensors[first:])
        outputs, end = walk_batch(step, gates, tensors[:first], weights, None, back)
        return outputs, *end

    compiled: Callable[..., tuple[Any, ...]] = compile(walk, dynamic=True)
    return compiled
