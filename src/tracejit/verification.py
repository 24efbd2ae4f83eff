"""``compile(verify=True)``: run eagerly beside the compiled call, and compare values, side effects and gradients.

Both runs start from the same inputs, captured tensors and random state; what the function writes is compared too. The
compiled result is returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .cuda.arrays import fetched, is_writeable, placed, write_into
from .errors import VerificationError, describe_line
from .modes import MODES
from .tensor import Tensor
from .trace.arrays.unread import given_arguments
from .trace.numbers.drawn import put_back_later
from .trace.numbers.left import handed_in
from .trace.recording.outside import seen_outside
from .trace.recording.results import flatten_result
from .trace.recording.sent_logs import Record, muted
from .trace.signature import Static, flatten, is_number, statics_of
from .trace.state.lists import Appended

if TYPE_CHECKING:
    from .jit import CompiledFunction
    from .trace.entry import Entry

#: Relative and absolute tolerance by dtype: what fused transcendental functions and re-ordered sums may differ by.
TOLERANCES = {"f64": (1e-9, 1e-11), "f32": (1e-4, 1e-5), "f16": (1e-2, 1e-3), "bf16": (3e-2, 1e-2)}


class _State:
    """The values of tensors and the random state, to go back to and to compare; ``others`` are Python's generators."""

    def __init__(
        self, tensors: Sequence[Tensor], generators: Sequence[Any], others: Iterable[Any] = ()
    ) -> None:
        self.tensors = list({id(t): t for t in tensors}.values())
        self.generators = generators
        self.values = [t.array.copy() for t in self.tensors]
        self.versions = [t._writes.value for t in self.tensors]
        self.flags = [t.requires_grad for t in self.tensors]
        self.draws = [g.get_state() for g in generators]
        self.others = [put_back_later(g) for g in others]

    def restore(self) -> None:
        """Values, flags, version counters and generators as they were."""
        for tensor, flag in zip(self.tensors, self.flags, strict=True):
            if tensor._requires_grad is not flag and tensor._grad_fn is None:
                tensor._requires_grad = flag
        for tensor, value, version in zip(self.tensors, self.values, self.versions, strict=True):
            if tensor._writes.value != version or is_writeable(tensor.array):
                write_into(tensor.array, value)
                tensor._writes.value = version
        for generator, draws in zip(self.generators, self.draws, strict=True):
            generator.set_state(draws)
        for put_back in self.others:
            put_back()

    def compare_draws(self, name: str) -> None:
        """As many random numbers were drawn."""
        if [g.get_state().tolist() for g in self.generators] != [d.tolist() for d in self.draws]:
            raise VerificationError(
                f"{name}: compiled and eager runs drew different counts of numbers"
            )

    def compare_flags(self, name: str) -> None:
        """The same tensors require grad now."""
        if [t.requires_grad for t in self.tensors] != self.flags:
            raise VerificationError(f"{name}: other tensors require grad compiled and eager")


def replay_beside_eager(
    function: CompiledFunction,
    entry: Entry,
    tensors: list[Tensor],
    args: Any,
    kwargs: Any,
    numbers: Sequence[Any] = (),
) -> Any:
    """The result of the compiled call; :class:`VerificationError` names the first difference from an eager run."""
    from .random import default_generator

    sources = entry.signature.sources
    captured = [s.tensor for s in sources if s.kind == "captured"]
    outside = [*tensors, *(t for t in captured if t is not None)]
    effects = [r.effects for r in (leaf.recording for leaf in entry.root.leaves()) if r.effects]
    slots = _Gradients(sources, effects, tensors)
    outside += [g for g in slots.before if g is not None]
    restores = [call.saved() for found in effects for call in found.calls]
    generators = list({id(g): g for g in _generators(sources, default_generator)}.values())
    places = _Places(entry)
    before = _State(outside, generators, entry.signature.numbers.generators.values())
    calls = [leaf.calls for leaf in entry.root.leaves()]
    with muted(), handed_in(args, kwargs):
        result = entry.replay(tensors, numbers)
    lines = _Lines(entry, calls)
    after = _State(outside, generators)
    ours, theirs = list[Any](), list[Any]()
    assert entry.guard is not None
    known = partial(seen_outside, entry.guard, statics_of(flatten((args, kwargs), [])))
    structure = flatten_result(result, ours, known)
    compiled = [t.array.copy() for t in ours]
    gradients = slots.taken_back()
    places.take_back()
    before.restore()
    for restore in restores:
        restore()
    name = function.name
    try:
        args, kwargs = given_arguments(args, kwargs)
        expected = function.function(*args, **kwargs)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise VerificationError(
            f"{name}: the compiled call returns, eager raises {reason}"
        ) from error
    if not _alike(structure, flatten_result(expected, theirs, known)):
        raise VerificationError(f"{name}: compiled and eager results have different structure")
    for position, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        what = f"{name}: output {position}{lines.output(position)}"
        _compare_output(what, a, compiled[position], b)
    for tensor, value in zip(after.tensors, after.values, strict=True):
        what = f"{name}: a tensor changed in place{lines.written(tensor, tensors)}"
        _compare(what, tensor.dtype.short, value, tensor.array)
    after.compare_flags(name)
    after.compare_draws(name)
    places.compare(name)
    for value, owner in zip(gradients, slots.owners, strict=True):
        _compare_slot(name, value, owner)
    _compare_gradients(name, ours, theirs, after.tensors)
    return result


def _alike(ours: Any, theirs: Any) -> bool:
    """Have two results the same structure, with numbers in it that differ by rounding at most?"""
    if isinstance(ours, tuple) and isinstance(theirs, tuple):
        return len(ours) == len(theirs) and all(map(_alike, ours, theirs))
    if isinstance(ours, Static) and isinstance(theirs, Static):
        pair = ours.value, theirs.value
        if all(type(x) is float for x in pair):
            rtol, atol = TOLERANCES["f32"]
            return bool(np.isclose(*pair, rtol=rtol, atol=atol, equal_nan=True))
        if all(type(x) is np.ndarray and x.dtype != object for x in pair):
            return _are_close(*pair)
    return bool(ours == theirs)


def _are_close(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Do arrays differ by rounding at most?"""
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return False
    if ours.dtype.kind not in "fc":
        return bool((ours == theirs).all())
    double = ours.dtype.itemsize == (16 if ours.dtype.kind == "c" else 8)
    rtol, atol = TOLERANCES["f64" if double else "f32" if ours.dtype.itemsize > 2 else "f16"]
    return bool(np.allclose(ours, theirs, rtol=rtol, atol=atol, equal_nan=True))


class _Places:
    """What is in places of the Python state that a recording puts something in."""

    def __init__(self, entry: Entry) -> None:
        known = [leaf.recording for leaf in entry.root.leaves()]
        numbers = [place for r in known for place, _ in r.stores]
        held = [place for r in known for place in r.held if not isinstance(place, Record)]
        self.places = list({place.key: place for place in (*numbers, *held)}.values())
        for place in self.places:
            if isinstance(place, Appended):
                place.begin()
        self.before = [place.read() for place in self.places]
        self.after: list[Any] = []

    def take_back(self) -> None:
        """Note what the compiled call left; then everything is as it was."""
        self.after = [place.read() for place in self.places]
        for place, value in zip(self.places, self.before, strict=True):
            put = place.put if isinstance(place, Appended) else place.store
            put(value)

    def compare(self, name: str) -> None:
        """The eager run left the same there."""
        for place, ours in zip(self.places, self.after, strict=True):
            theirs = place.read()
            what = f"{name}: {place.name}"
            if is_number(ours) and is_number(theirs):
                if type(ours) is not type(theirs) or not np.isclose(ours, theirs, equal_nan=True):
                    raise VerificationError(f"{what} is {ours} compiled, {theirs} eager")
                continue
            left: tuple[list[Any], list[Any]] = ([], [])
            if not _alike(flatten(ours, left[0]), flatten(theirs, left[1])):
                raise VerificationError(f"{what} has different structure compiled and eager")
            for a, b in zip(*left, strict=True):
                _compare_output(what, a, a.array, b)


class _Lines:
    """The user's lines that computed what the last call returned and wrote."""

    def __init__(self, entry: Entry, calls: Sequence[int]) -> None:
        leaves = entry.root.leaves()
        taken = [leaf for leaf, before in zip(leaves, calls, strict=False) if leaf.calls > before]
        self.recording = taken[0].recording if taken else None
        self.sources = {s.value: s for s in entry.signature.sources}

    def output(self, position: int) -> str:
        """Where an output was computed, in words."""
        if self.recording is None or position >= len(self.recording.outputs):
            return ""
        return _computed_at(self.recording.outputs[position].value)

    def written(self, tensor: Tensor, tensors: Sequence[Tensor]) -> str:
        """Where the new value of a tensor from outside was computed, in words."""
        for target, new, _ in () if self.recording is None else self.recording.writes:
            source = self.sources.get(target)
            if source is None:
                continue
            known = tensors[source.position] if source.position >= 0 else source.tensor
            if known is tensor:
                return f" ({target.name}){_computed_at(new)}"
        return ""


def _computed_at(value: Any) -> str:
    return f", computed at {describe_line(*value.line)}," if value.line else ""


class _Gradients:
    """What is in the ``.grad`` of every tensor whose gradient a recording reads or replaces."""

    def __init__(
        self, sources: Sequence[Any], effects: Sequence[Any], tensors: list[Tensor]
    ) -> None:
        owners = [s.owner for s in sources if s.kind == "gradient"]
        for found in effects:
            owners += [s.tensor if s.position < 0 else s.position for s in found.slots]
        known = [tensors[owner] if isinstance(owner, int) else owner for owner in owners]
        self.owners: list[Tensor] = list({id(t): t for t in known}.values())
        self.before = [t._grad for t in self.owners]

    def taken_back(self) -> list[Any]:
        """The values now; then everything is as it was."""
        values = [None if t._grad is None else t._grad.array.copy() for t in self.owners]
        for owner, gradient in zip(self.owners, self.before, strict=True):
            owner._grad = gradient
        return values


def _compare_slot(name: str, value: Any, owner: Tensor) -> None:
    """The gradient that the compiled call left, and the one that eager execution left."""
    what = f"{name}: the .grad of a tensor of type {owner.spec}"
    if (value is None) != (owner._grad is None):
        there = "there" if value is not None else "missing"
        raise VerificationError(
            f"{what} is {there} after the compiled call, but not after an eager one"
        )
    if owner._grad is not None:
        _compare(what, owner.dtype.short, value, owner._grad.array)


def _generators(sources: Sequence[Any], default: Any) -> Iterator[Any]:
    yield default
    for source in sources:
        if source.generator is not None:
            yield source.generator


def _compare_gradients(
    name: str, ours: list[Tensor], theirs: list[Tensor], tensors: list[Tensor]
) -> None:
    """Gradients of all outputs with respect to all inputs, unless hooks of the user's would see it."""
    from .autograd import grad

    wrt = [t for t in tensors if t.requires_grad]
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if _has_history(a)]
    if not pairs or not wrt or not MODES.grad or any(t._hooks for t in wrt):
        return
    weights = [_weights(a) for a, _ in pairs]
    found = grad([a for a, _ in pairs], wrt, weights, retain_graph=True, allow_unused=True)
    expected = grad([b for _, b in pairs], wrt, weights, retain_graph=True, allow_unused=True)
    for tensor, a, b in zip(wrt, found, expected, strict=True):
        what = f"{name}: the gradient of an input of type {tensor.spec}"
        if (a is None) != (b is None):
            raise VerificationError(f"{what} is {a} compiled and {b} eager")
        if a is not None and b is not None:
            _compare(what, a.dtype.short, a.array, b.array)


def _has_history(tensor: Tensor) -> bool:
    """Was it computed from something, and can a backward pass still go there?"""
    return tensor.grad_fn is not None and not tensor.grad_fn.freed


def _weights(output: Tensor) -> Tensor:
    """A gradient for an output that is not the same everywhere."""
    values = 1.0 + np.arange(output.array.size) % 7 / 8.0
    array = values.reshape(output.array.shape).astype(output.array.dtype)
    return Tensor._wrap(placed(array, output.get_device()))


def _compare_output(what: str, ours: Tensor, value: Any, theirs: Tensor) -> None:
    if ours.spec != theirs.spec or ours.requires_grad != theirs.requires_grad:
        raise VerificationError(
            f"{what} is {ours.spec} (requires_grad={ours.requires_grad}) compiled and "
            f"{theirs.spec} (requires_grad={theirs.requires_grad}) eager"
        )
    _compare(what, ours.dtype.short, value, theirs.array)


def _compare(what: str, dtype: str, ours: Any, theirs: Any) -> None:
    rtol, atol = TOLERANCES.get(dtype, (0.0, 0.0))
    ours, theirs = fetched(ours), fetched(theirs)
    with np.errstate(all="ignore"):
        if dtype in TOLERANCES:
            a, b = ours.astype(np.float64), theirs.astype(np.float64)
            same = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
        else:
            a, b = ours, theirs
            same = a == b
    if not np.all(same):
        index = tuple(int(i) for i in np.argwhere(~same)[0]) if np.ndim(same) else ()
        raise VerificationError(
            f"{what} differs first at {list(index)}: compiled {a[index]}, eager {b[index]}"
        )
