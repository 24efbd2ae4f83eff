"""Values that belong together, one per round, as one tensor whose first dimension is the round.

What a loop takes per round, and what ``cat`` joins after it, are often items of a stack that exists already, or that a
view shows: slices of one tensor at evenly spaced places, results of the rounds of an earlier loop, and views of such
items. :func:`leading` recognises them. Nothing is copied, except where slices overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.fields import ByFields
from ...ir.graph import Value
from ...ops import movement
from ...types import Shape
from .record import Record
from .views import Step, batched, can_batch, overlapping, windows

if TYPE_CHECKING:
    from .loop import Loop

#: Slices that overlap are put together element by element, unless they have more elements than this.
MAX_OVERLAPPING = 8


@dataclass(frozen=True, eq=False)
class SliceStack(ByFields):
    """Slices of ``base``: a chain of views shows all; or, where they overlap, several side by side along ``dim``."""

    base: Value
    chains: tuple[tuple[Step, ...], ...]
    dim: int
    count: int
    line: Any


@dataclass(frozen=True)
class PartStack:
    """Results of an earlier loop at one ``position`` of its body, from round ``first`` on in steps."""

    loop: Loop
    position: int
    first: int
    step: int
    count: int


@dataclass(frozen=True, eq=False)
class ViewStack(ByFields):
    """The view ``item``, the first of all, of every item of another stack."""

    item: Value
    inner: Stack

    @property
    def count(self) -> int:
        """Number of items."""
        return self.inner.count

    @property
    def steps(self) -> tuple[Step, ...]:
        """The view of the whole stack."""
        return batched(self.item, self.count)


@dataclass(frozen=True)
class Gathered:
    """Values that have nothing in common but their type: copied into one tensor."""

    values: tuple[Value, ...]

    @property
    def count(self) -> int:
        """Number of items."""
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """How much is copied."""
        return sum(v.spec.nbytes for v in self.values)


Stack = SliceStack | PartStack | ViewStack | Gathered


def leading(record: Record, values: Sequence[Value]) -> Stack | None:
    """The longest beginning of ``values`` (two at least) that is a stack, or None."""
    first = values[0]
    if len(values) > 1 and first.op is not None:
        if first.op is movement.slice and values[1].op is first.op:
            base = first.operands[0]
            if values[1].operands[0] is base:
                return _slices(base, _alike(values, lambda v: v.operands[0] is base))
        if can_batch(first) and not is_part(record, first):
            return _views(record, values)
        return _parts(record, values)
    return None


def gathered(record: Record, values: Sequence[Value]) -> Gathered | None:
    """A stack of values that no loop gives and that are no stack but for the first few either."""
    kind = values[0].spec
    if any(v.spec != kind or record.place(v) is not None for v in values):
        return None
    fewest = record.least.rounds
    for first in range(fewest):
        found = leading(record, values[first:])
        if found is not None and found.count >= fewest:
            return None
    return Gathered(tuple(values))


def is_part(record: Record, value: Value) -> bool:
    """Is it a slice of a larger result of a loop (which need not be kept for it)?"""
    source = value.value_operands[0]
    place = record.place(source)
    return (
        place is not None
        and not place[0].is_item(place[1])
        and (value.spec.numel < source.spec.numel)
    )


def _alike(values: Sequence[Value], same: Callable[[Value], bool]) -> list[Value]:
    """The beginning of ``values`` that is one op, of one type, and ``same``."""
    op, kind = values[0].op, values[0].spec
    found: list[Value] = []
    for value in values:
        if value.op is not op or value.spec != kind or not same(value):
            break
        found.append(value)
    return found


def even(numbers: Sequence[Any]) -> int:
    """How many of the first numbers (or tuples of them) are evenly spaced."""
    steps = np.diff(np.array(numbers), axis=0).reshape(len(numbers) - 1, -1)
    uneven = (steps != steps[0]).any(1)
    return int(uneven.argmax()) + 1 if uneven.any() else len(numbers)


def _slices(base: Any, values: Sequence[Value]) -> Stack | None:
    """Slices of one tensor whose starts move evenly along one dimension."""
    attributes = values[0].attributes
    counts, steps = attributes["counts"], attributes["steps"]
    places = [
        v.attributes["starts"]
        for v in _alike(
            values, lambda v: (v.attributes["counts"], v.attributes["steps"]) == (counts, steps)
        )
    ]
    if len(places) < 2:
        return None
    change = moving(places)
    if change is None:
        return None
    dim, delta = change
    shape, number, line = base.spec.shape, even(places), values[0].line
    for count in (number, number - 1):  # the last one may lack what follows the others
        found = windows(shape, attributes, dim, delta, count) if count > 1 else None
        if found is not None:
            return SliceStack(base, (found,), dim, count, line)
    if counts[dim] > MAX_OVERLAPPING:
        return None
    return SliceStack(base, overlapping(shape, attributes, dim, delta, number), dim, number, line)


def moving(places: Sequence[Shape]) -> tuple[int, int] | None:
    """The one dimension along which the second place differs from the first, and by how much."""
    changes = [
        (d, b - a) for d, (a, b) in enumerate(zip(places[0], places[1], strict=True)) if a != b
    ]
    return changes[0] if len(changes) == 1 else None


def _views(record: Record, values: Sequence[Value]) -> Stack | None:
    attributes: Mapping[str, Any] = values[0].attributes
    same = _alike(values, lambda v: v.attributes == attributes)
    sources = [v.value_operands[0] for v in same]
    kind = sources[0].spec
    number = next((i for i, x in enumerate(sources) if x.spec != kind), len(sources))
    inner = leading(record, sources[:number])
    return None if inner is None else ViewStack(values[0], inner)


def _parts(record: Record, values: Sequence[Value]) -> Stack | None:
    """Results of one loop at one position, in rounds that are evenly spaced."""
    start = record.place(values[0])
    if start is None:
        return None
    loop, position, first = start
    rounds = [first]
    for value in values[1:]:
        place = record.place(value)
        if place is None or place[0] is not loop or place[1] != position:
            break
        rounds.append(place[2])
    if len(rounds) < 2 or rounds[1] == first:
        return None
    return PartStack(loop, position, first, rounds[1] - first, even(rounds))
