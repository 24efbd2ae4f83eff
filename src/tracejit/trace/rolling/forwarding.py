"""Reads of what was just written, as what was written: rounds that go on from each other by way of a tensor.

``y[:, t] = a * x[:, t] + b * y[:, t - 1]`` is recorded as a slice of a tensor that the round before wrote to, so every
round reads another tensor, and another part of it. Here such a slice becomes the very value that was written there,
found behind the writes that came later. Then a round reads what the one before computed, and the tensor is
filled by the rounds, which no one reads before they are over. Tensors that are written to at the same places again and
again stay as they are: rounds hand on all of them.

Sizes are those of this recording, like those by which loops are found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.builder import mapped
from ...ir.graph import Value
from ...ops.movement import slice as slice_op
from ...ops.movement import slice_scatter
from ...passes.fusion.groups import is_view
from ..sizes.found_sizes import has_extents

#: How many writes are looked at one by one before the rest are looked at together.
FEW_WRITES = 4

#: First places along each dimension that a slice shows or a scatter writes, and last ones; None where nobody knows.
Box = tuple[tuple[int, ...], tuple[int, ...]] | None


def forwarded(
    statements: Sequence[Value], kept: Sequence[Value]
) -> tuple[Sequence[Value], dict[Value, Value]]:
    """The statements with reads of written parts forwarded, and what stands for those that changed.

    ``kept`` are the values needed afterwards: views among them stay views.
    """
    filled = _filled(statements)
    if not filled:
        return statements, {}
    found = _Forwarding(kept, filled)
    found.run(statements)
    return found.statements, found.mapping


def _filled(statements: Sequence[Value]) -> set[Value]:
    """The scatters into tensors to which a line of code writes here and there."""
    whole: dict[Value, Value] = {}  # what each scatter is, in the end, a change of
    places: dict[Any, Any] = {}
    moving: set[Value] = set()
    for value in statements:
        if value.op is slice_scatter:
            base = value.value_operands[0]
            tensor = whole[value] = whole.get(base, base)
            attributes = value.attributes
            key = value.line, tensor, attributes["counts"], attributes["steps"]
            if places.setdefault(key, attributes["starts"]) != attributes["starts"]:
                moving.add(tensor)
    return {value for value, tensor in whole.items() if tensor in moving}


class _Writes:
    """Scatters each of which changes the result of the one before, and the boxes that they write."""

    def __init__(self, tensor: Value) -> None:
        self.tensor = tensor
        self.scatters: list[Value] = []
        self.boxes = np.empty((16, 2, tensor.spec.ndim), np.int64)

    def up_to(self, number: int) -> _Writes:
        """Those up to a number, to go on from there in another way."""
        found = _Writes(self.tensor)
        found.scatters = self.scatters[: number + 1]
        found.boxes = self.boxes[: max(number + 1, 16)].copy()
        return found

    def add(self, scatter: Value, box: Box) -> int:
        """Note one more; its number. Of one that is not known where it writes, it might be everywhere."""
        number = len(self.scatters)
        if number == len(self.boxes):
            self.boxes = np.concatenate((self.boxes, np.empty_like(self.boxes)))
        self.boxes[number] = box or ((0,) * scatter.spec.ndim, scatter.spec.shape)
        self.scatters.append(scatter)
        return number

    def latest(self, number: int, box: tuple[tuple[int, ...], tuple[int, ...]]) -> int:
        """The last scatter up to ``number`` that writes in a box, or -1."""
        low, high = box
        for _ in range(min(FEW_WRITES, number + 1)):
            first, last = self.boxes[number].tolist()
            if all(a <= d and c <= b for a, b, c, d in zip(low, high, first, last, strict=True)):
                return number
            number -= 1
        boxes = self.boxes[: number + 1]
        meets = ((boxes[:, 0] <= high) & (boxes[:, 1] >= low)).all(1)
        found = np.flatnonzero(meets)
        return int(found[-1]) if len(found) else -1


class _Forwarding:
    """Writes statements anew; ``filled`` are the scatters that reads are looked for behind."""

    def __init__(self, kept: Sequence[Value], filled: set[Value]) -> None:
        self.filled = filled
        self.statements: list[Value] = []
        self.mapping: dict[Value, Value] = {}
        self.there: set[Value] = set()
        self.places: dict[Value, tuple[_Writes, int]] = {}
        self.shown: set[Value] = set()
        for value in kept:
            while is_view(value):
                self.shown.add(value)
                value = value.value_operands[0]

    def run(self, statements: Sequence[Value]) -> None:
        """Go through the statements in order."""
        mapping = self.mapping
        for value in statements:
            new = value
            if not mapping.keys().isdisjoint(value.value_operands):
                new = mapped(value, {x: mapping.get(x, x) for x in value.value_operands})
            if new.op is slice_op and value not in self.shown:
                new = self.read(new)
            elif value in self.filled:
                new = self.written(new)
            if new is not value:
                mapping[value] = new
            if new.op is not None and new not in self.there:
                self.there.add(new)
                self.statements.append(new)

    def read(self, value: Value) -> Value:
        """What a slice shows: what was written there, or a part of it, or of what no write changed."""
        place = self.places.get(value.value_operands[0])
        box = _box(value.attributes) if place is not None else None
        if place is None or box is None:
            return value
        writes, number = place
        number = writes.latest(number, box)
        if number < 0:
            return _cut(value, writes.tensor, None)
        scatter = writes.scatters[number]
        if _same_place(value, scatter):
            return scatter.value_operands[1]
        plain = all(step == 1 for step in scatter.attributes["steps"])
        if plain and _within(box, _box(scatter.attributes)):
            return _cut(value, scatter.value_operands[1], scatter.attributes["starts"])
        return value

    def written(self, value: Value) -> Value:
        """A scatter that says something new, and is not written over what the next one writes over again."""
        base, new = value.value_operands
        if base in self.places and _same_place(value, base):
            if base.value_operands[1] is new:
                return base
            over = (base.operands[0], new)
            value = Value(value.spec, value.op, over, value.attributes, line=value.line)
            base = value.value_operands[0]
        writes, number = self.places.get(base) or (_Writes(base), -1)
        if number != len(writes.scatters) - 1:  # there are others after it
            writes = writes.up_to(number)
        self.places[value] = writes, writes.add(value, _box(value.attributes))
        return value


def _box(attributes: Mapping[str, Any]) -> Box:
    starts, counts, steps = (attributes[name] for name in ("starts", "counts", "steps"))
    if has_extents((starts, counts, steps)) or 0 in counts:
        return None
    ends = [a + (n - 1) * step for a, n, step in zip(starts, counts, steps, strict=True)]
    return tuple(map(min, starts, ends)), tuple(map(max, starts, ends))


def _within(box: Box, other: Box) -> bool:
    """Is the first box part of the second?"""
    if box is None or other is None:
        return False
    return all(map(int.__ge__, box[0], other[0])) and all(map(int.__le__, box[1], other[1]))


def _same_place(value: Value, written: Value) -> bool:
    mine, other = value.attributes, written.attributes
    return all(mine[name] == other[name] for name in ("starts", "counts", "steps"))


def _cut(value: Value, source: Value, shifts: Sequence[int] | None) -> Value:
    """The slice ``value`` of another tensor, whose places are ``shifts`` less."""
    starts = value.attributes["starts"]
    if shifts is not None:
        starts = tuple([a - b for a, b in zip(starts, shifts, strict=True)])
    attributes = {**value.attributes, "starts": starts}
    return Value(value.spec, slice_op, (source,), attributes, line=value.line)
