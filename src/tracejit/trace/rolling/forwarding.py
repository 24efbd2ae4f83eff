"""Reads of what was just written, as what was written: rounds that go on from each other by way of a tensor.

``y[:, t] = a * x[:, t] + b * y[:, t - 1]`` is recorded as a slice of a tensor that the round before wrote to, so every
round reads another tensor, and another part of it. Here such a slice becomes the very value that was written there,
found by looking through the writes one by one. Then a round reads what the one before computed, and the tensor is
filled by the rounds, which no one reads before they are over.

Sizes are those of this recording, like those by which loops are found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..sizes.found_sizes import has_extents
from ...ir.builder import mapped
from ...ir.graph import Value
from ...ops.movement import slice as slice_op
from ...ops.movement import slice_scatter
from ...passes.fusion.groups import is_view

#: How many writes are looked through for a read, and for all reads together per statement.
MOST_WRITES, MOST_LOOKS = 1024, 8

#: First and last place along each dimension that a slice shows, or a scatter writes; None where that is not known.
Box = tuple[tuple[int, int], ...] | None


def forwarded(
    statements: Sequence[Value], kept: Sequence[Value]
) -> tuple[Sequence[Value], dict[Value, Value]]:
    """The statements with reads of written parts forwarded, and what stands for those that changed.

    ``kept`` are the values needed afterwards: views among them stay views.
    """
    if not any(v.op is slice_scatter for v in statements):
        return statements, {}
    found = _Forwarding(kept)
    found.run(statements)
    return found.statements, found.mapping


class _Forwarding:
    """Writes statements anew."""

    def __init__(self, kept: Sequence[Value]) -> None:
        self.statements: list[Value] = []
        self.mapping: dict[Value, Value] = {}
        self.there: set[Value] = set()
        self.boxes: dict[Value, Box] = {}
        self.looks = 0
        self.shown: set[Value] = set()
        for value in kept:
            while is_view(value):
                self.shown.add(value)
                value = value.value_operands[0]

    def run(self, statements: Sequence[Value]) -> None:
        """Go through the statements in order."""
        self.looks = MOST_LOOKS * len(statements)
        mapping = self.mapping
        for value in statements:
            new = value
            if not mapping.keys().isdisjoint(value.value_operands):
                new = mapped(value, {x: mapping.get(x, x) for x in value.value_operands})
            if new.op is slice_op and value not in self.shown:
                new = self.read(new)
            elif new.op is slice_scatter:
                new = self.written(new)
            if new is not value:
                mapping[value] = new
            if new.op is not None and new not in self.there:
                self.there.add(new)
                self.statements.append(new)

    def read(self, value: Value) -> Value:
        """What a slice shows: what was written there, or a part of it, or of what no write changed."""
        source, box = value.value_operands[0], self.box(value)
        for _ in range(MOST_WRITES):
            written = self.box(source) if source.op is slice_scatter else None
            if written is None or box is None or self.looks < 0 or not _misses(box, written):
                break
            self.looks -= 1
            source = source.value_operands[0]
        if source.op is not slice_scatter:  # nothing that was written
            return value if source is value.value_operands[0] else _cut(value, source, None)
        if _same_place(value, source):
            return source.value_operands[1]
        written = self.box(source)
        plain = all(step == 1 for step in source.attributes["steps"])
        if box is not None and written is not None and plain and _within(box, written):
            return _cut(value, source.value_operands[1], source.attributes["starts"])
        return value

    def written(self, value: Value) -> Value:
        """A scatter that says something new, and is not written over what the next one writes over again."""
        base, new = value.value_operands
        if base.op is not slice_scatter or not _same_place(value, base):
            return value
        if base.value_operands[1] is new:
            return base
        return Value(value.spec, value.op, (base.operands[0], new), value.attributes, line=value.line)

    def box(self, value: Value) -> Box:
        """The box of a slice or scatter."""
        if value not in self.boxes:
            self.boxes[value] = _box(value.attributes)
        return self.boxes[value]


def _box(attributes: dict[str, Any]) -> Box:
    starts, counts, steps = (attributes[name] for name in ("starts", "counts", "steps"))
    if has_extents((starts, counts, steps)) or 0 in counts:
        return None
    ends = [a + (n - 1) * step for a, n, step in zip(starts, counts, steps, strict=True)]
    return tuple([(a, b) if a <= b else (b, a) for a, b in zip(starts, ends, strict=True)])


def _misses(box: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> bool:
    """Have two boxes no place in common?"""
    for (low, high), (first, last) in zip(box, other, strict=True):
        if high < first or last < low:
            return True
    return False


def _within(box: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> bool:
    """Is the first box part of the second?"""
    return all(
        first <= low and high <= last
        for (low, high), (first, last) in zip(box, other, strict=True)
    )


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
