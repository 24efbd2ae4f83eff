"""One step of the recurrent layers, and how a sequence is walked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..modes import MODES
from ..ops.functions.joining import cat, stack
from ..ops.functions.slicing import slice_along
from . import functional as F

__all__: list[str] = []

State = tuple[Any, ...]


class StepWeights(NamedTuple):
    """What a step multiplies the state by; ``w_hr`` projects the LSTM's output."""

    w_hh: Any
    b_hh: Any
    w_hr: Any = None

    def present(self) -> list[Any]:
        """Those that the layer has."""
        return [w for w in self if w is not None]

    def with_present(self, given: Sequence[Any]) -> StepWeights:
        """The same with others in the places of those that the layer has."""
        rest = iter(given)
        return StepWeights(*[None if w is None else next(rest) for w in self])


Step = Callable[[Any, State, StepWeights], State]


def _tanh(x: Any, state: State, weights: StepWeights) -> State:
    """tanh(W x + b + V h + c)."""
    return ((x + F.linear(state[0], weights.w_hh, weights.b_hh)).tanh(),)


def _relu(x: Any, state: State, weights: StepWeights) -> State:
    """relu(W x + b + V h + c)."""
    return (F.relu(x + F.linear(state[0], weights.w_hh, weights.b_hh)),)


def _lstm(x: Any, state: State, weights: StepWeights) -> State:
    """Gates in the order input, forget, cell, output (Hochreiter and Schmidhuber, 1997; Gers et al., 2000)."""
    hidden, cell = state
    gates = x + F.linear(hidden, weights.w_hh, weights.b_hh)
    enter, keep, new, leave = gates.chunk(4, -1)
    cell = keep.sigmoid() * cell + enter.sigmoid() * new.tanh()
    hidden = leave.sigmoid() * cell.tanh()
    if weights.w_hr is not None:
        hidden = F.linear(hidden, weights.w_hr)
    return hidden, cell


def _gru(x: Any, state: State, weights: StepWeights) -> State:
    """Gates in the order reset, update, new (Cho et al., 2014; the reset gate applies after the product)."""
    (hidden,) = state
    x_reset, x_update, x_new = x.chunk(3, -1)
    h_reset, h_update, h_new = F.linear(hidden, weights.w_hh, weights.b_hh).chunk(3, -1)
    reset, update = (x_reset + h_reset).sigmoid(), (x_update + h_update).sigmoid()
    new = (x_new + reset * h_new).tanh()
    return (new + update * (hidden - new),)


#: Gates and step of each kind of layer.
KINDS: dict[str, tuple[int, Step]] = {
    "RNN_TANH": (1, _tanh),
    "RNN_RELU": (1, _relu),
    "LSTM": (4, _lstm),
    "GRU": (3, _gru),
}


def pieces(x: Any, sizes: Sequence[int] | None) -> list[Any]:
    """The steps of (T, N, G), or of rows (sum of ``sizes``, G), one after the other."""
    if sizes is None:
        return [step.squeeze(0) for step in cut(x, 0, [1] * x.shape[0])]
    return cut(x, 0, list(sizes))


def cut(x: Any, dim: int, sizes: list[int]) -> list[Any]:
    """``x`` cut along ``dim`` by halves, so that gradients are joined in pairs and not step by step."""
    if len(sizes) == 1:
        return [x]
    if not sizes:
        return []
    middle = len(sizes) // 2
    count = sum(sizes[:middle])
    first = slice_along(x, dim, 0, count)
    second = slice_along(x, dim, count, x.shape[dim] - count)
    return [*cut(first, dim, sizes[:middle]), *cut(second, dim, sizes[middle:])]


def walk(
    step: Step,
    steps: list[Any],
    state: State,
    weights: StepWeights,
    masks: list[Any] | None = None,
) -> tuple[list[Any], State]:
    """The outputs and the last state of a batch of equally long sequences, or of those that ``masks`` say.

    Where the mask of a step is False, the state stays what it is, and the output is zero.
    """
    outputs = []
    for i, x in enumerate(steps):
        new = step(x, state, weights)
        if masks is None:
            state, output = new, new[0]
        else:
            state = tuple(n.where(masks[i], s) for n, s in zip(new, state, strict=True))
            output = new[0].where(masks[i], 0)
        outputs.append(output)
    return outputs, state


def walk_batch(
    step: Step, gates: Any, state: State, weights: StepWeights, mask: Any = None, back: bool = False
) -> tuple[Any, State]:
    """The stacked outputs (T, N, H) and the last state of a batch (T, N, G), from its end with ``back``.

    Where ``mask`` (T, N, 1) is False, sequences have ended.
    """
    if MODES.recorder is not None and MODES.recorder.walks_at_any_size(gates):
        stacks = [gates] if mask is None else [gates, mask]
        if back:
            stacks = [x.flip(0) for x in stacks]
        found, end = _walk_recorded(step, stacks, state, weights)
        return (found.flip(0) if back else found), end
    steps, masks = pieces(gates, None), None if mask is None else pieces(mask, None)
    if back:
        steps, masks = steps[::-1], masks and masks[::-1]
    outputs, end = walk(step, steps, state, weights, masks)
    return stack(outputs[::-1] if back else outputs, 0), end


def _walk_recorded(
    step: Step, stacks: list[Any], state: State, weights: StepWeights
) -> tuple[Any, State]:
    """The same from the beginning, recorded as a loop over the steps, where that can be."""

    def run() -> tuple[Any, State]:
        steps, *masks = [pieces(x, None) for x in stacks]
        outputs, end = walk(step, steps, state, weights, *masks)
        return stack(outputs, 0), end

    def one(items: Sequence[Any], now: State, given: Sequence[Any]) -> tuple[Any, State]:
        same = weights.with_present(given)
        (output,), after = walk(step, [items[0]], now, same, list(items[1:]) or None)
        return output, after

    found: tuple[Any, State] | None
    found = MODES.recorder.walk(run, one, stacks, state, weights.present())
    return run() if found is None else found


def walk_packed(
    step: Step, steps: list[Any], sizes: Sequence[int], state: State, weights: StepWeights
) -> tuple[list[Any], State]:
    """The same for sequences sorted by falling length: those that ended leave the batch."""
    outputs: list[Any] = []
    ended: list[State] = []
    for x, size in zip(steps, sizes, strict=True):
        state, gone = _first(state, size)
        if gone is not None:
            ended.append(gone)
        state = step(x, state, weights)
        outputs.append(state[0])
    parts = [state, *reversed(ended)]
    return outputs, tuple(cat(list(some), 0) for some in zip(*parts, strict=True))


def walk_packed_back(
    step: Step, steps: list[Any], sizes: Sequence[int], state: State, weights: StepWeights
) -> tuple[list[Any], State]:
    """From the end: sequences join the batch where they end."""
    outputs: list[Any] = []
    initial = state
    state = _first(initial, sizes[-1])[0]
    for x, size in zip(reversed(steps), reversed(sizes), strict=True):
        here = state[0].shape[0]
        if size > here:
            joining = [slice_along(s, 0, here, size - here) for s in initial]
            state = tuple(cat([s, new], 0) for s, new in zip(state, joining, strict=True))
        state = step(x, state, weights)
        outputs.append(state[0])
    return outputs[::-1], state


def _first(state: State, size: int) -> tuple[State, State | None]:
    """The first ``size`` samples, and the others if there are any."""
    rest = state[0].shape[0] - size
    if not rest:
        return state, None
    kept = tuple(slice_along(s, 0, 0, size) for s in state)
    return kept, tuple(slice_along(s, 0, size, rest) for s in state)
