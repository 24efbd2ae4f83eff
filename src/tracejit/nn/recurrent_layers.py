"""Layers of recurrences one on the other, in one or both directions, from their weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

from ..modes import MODES
from ..ops.functions.joining import cat, stack
from ..ops.precision import lower_precision
from . import functional as F
from .recurrent_compiled import walk_compiled
from .recurrent_steps import (
    KINDS,
    State,
    StepWeights,
    pieces,
    walk_batch,
    walk_packed,
    walk_packed_back,
)

__all__: list[str] = []


class LayerWeights(NamedTuple):
    """The parameters of one layer in one direction; ``weight_hr`` projects the LSTM's output."""

    weight_ih: Any
    weight_hh: Any
    bias_ih: Any = None
    bias_hh: Any = None
    weight_hr: Any = None


def layers(
    mode: str,
    weights: Sequence[LayerWeights],
    x: Any,
    states: State,
    directions: int,
    dropout: float,
    sizes: list[int] | None,
    mask: Any = None,
) -> tuple[Any, State]:
    """Outputs and last states over packed rows (``sizes``) or a batch, where a ``mask`` may end sequences.

    ``weights`` are those of each layer and direction; ``dropout`` is what is dropped between layers.
    """
    if MODES.autocast is not None and mode == "LSTM" and sizes is mask is weights[0].weight_hr:
        return _lowered(weights, x, states, directions, dropout)
    return _one_on_the_other(mode, weights, x, states, directions, dropout, sizes, mask)


def _lowered(
    weights: Sequence[LayerWeights], x: Any, states: State, directions: int, dropout: float
) -> tuple[Any, State]:
    """An LSTM in the dtype of autocast, as PyTorch's library for it computes; not for packed or projected rows."""
    count = len(states)

    def run(x: Any, *given: Any) -> tuple[Any, State]:
        parts = zip(*[iter(given[count:])] * len(LayerWeights._fields), strict=True)
        made = [LayerWeights(*part) for part in parts]
        return _one_on_the_other("LSTM", made, x, given[:count], directions, dropout, None)

    found: tuple[Any, State] = lower_precision(run)(x, *states, *chain(*weights))
    return found


def _one_on_the_other(
    mode: str,
    weights: Sequence[LayerWeights],
    x: Any,
    states: State,
    directions: int,
    dropout: float,
    sizes: list[int] | None,
    mask: Any = None,
) -> tuple[Any, State]:
    last: list[State] = []
    for first in range(0, len(weights), directions):
        found = [
            _direction(mode, weights[at], x, tuple(s[at] for s in states), at > first, sizes, mask)
            for at in range(first, first + directions)
        ]
        outputs = [out for out, _ in found]
        last += [state for _, state in found]
        x = outputs[0] if directions == 1 else cat(outputs, -1)
        if dropout and first + directions < len(weights):
            x = F.dropout(x, dropout, True)
    return x, tuple(stack(list(part), 0) for part in zip(*last, strict=True))


def _direction(
    mode: str,
    weights: LayerWeights,
    x: Any,
    start: State,
    back: bool,
    sizes: list[int] | None,
    mask: Any,
) -> tuple[Any, State]:
    """One layer in one direction: the input's part of all steps at once, then step by step."""
    gates = F.linear(x, weights.weight_ih, weights.bias_ih)
    inner = StepWeights(weights.weight_hh, weights.bias_hh, weights.weight_hr)
    step = KINDS[mode][1]
    if sizes is None:
        found = walk_compiled(mode, gates, start, inner, back) if mask is None else None
        return found or walk_batch(step, gates, start, inner, mask, back)
    packed = walk_packed_back if back else walk_packed
    outputs, end = packed(step, pieces(gates, sizes), sizes, start, inner)
    return cat(outputs, 0), end
