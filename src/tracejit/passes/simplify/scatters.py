"""Simplification of values that are changed part by part, one scatter over the other.

Before::

    graph f(x: f32[3, 2], a: f32[1, 2], b: f32[1, 2]) {
        %0: f32[3, 2] = slice_scatter(x, a, starts=(0, 0), counts=(1, 2), steps=(1, 1))
        %1: f32[3, 2] = slice_scatter(%0, b, starts=(1, 0), counts=(1, 2), steps=(1, 1))
        %2: f32[1, 2] = slice(%1, starts=(0, 0), counts=(1, 2), steps=(1, 1))
        %3: f32[1, 2] = exp(%2)
        return %1, %3
    }

After::

    graph f(x: f32[3, 2], a: f32[1, 2], b: f32[1, 2]) {
        %0: f32[3, 2] = slice_scatter(x, a, starts=(0, 0), counts=(1, 2), steps=(1, 1))
        %1: f32[3, 2] = slice_scatter(%0, b, starts=(1, 0), counts=(1, 2), steps=(1, 1))
        %2: f32[1, 2] = exp(a)
        return %1, %2
    }

A slice is looked for behind the writes that miss it, but not behind many: then memory is read that has been written
part by part. Where the first write is into a constant, the last one joins what all have written, unless something reads
more of what is there in between. Part of :mod:`.moves`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...ir.graph import Graph, Value
from ...ops import movement
from ...ops.movement import slice_scatter
from ..rewrite import Rewriter
from ..windows.strips import (
    Segment,
    in_order,
    is_whole,
    joined,
    same_number,
    strip_of,
    uniform,
)
from .regions import bounds, is_slice, lies_in, made_by, misses, region, same_region, sliced

#: How many writes a slice is looked for behind.
MOST_LOOKED_THROUGH = 6


def slice_of_scatter(rewriter: Rewriter, value: Value) -> Value | None:
    """A slice of what was written, or of what was there before: of many writes, looked through one by one."""
    inner = made_by(value, "slice_scatter")
    if inner is None:
        return None
    source: Value = inner
    for _ in range(MOST_LOOKED_THROUGH):
        if source.op is not inner.op or not _misses_written(value, source):
            break
        source = source.value_operands[0]
    else:  # all of it lies in memory then, where each write changes a part
        rewriter.writes.shown.add(inner)
        return None
    if source.op is inner.op:
        new = source.value_operands[1]
        if same_region(value, source):
            return new
        starts, counts, steps = region(source)
        if all(step == 1 for step in steps) and lies_in(value, starts, counts):
            return sliced(rewriter, value, new, starts)
        rewriter.writes.shown.add(source)
    return sliced(rewriter, value, source, (0,) * value.spec.ndim) if source is not inner else None


def _misses_written(value: Value, written: Value) -> bool:
    """Does a slice show nothing of what a scatter writes?"""
    box = [bounds(written, d) for d in range(value.spec.ndim)]
    low, size = [a for a, _ in box], [b - a + 1 for a, b in box]
    return written.value_operands[1].spec.numel == 0 or misses(value, low, size)


def scatter_of_itself(rewriter: Rewriter, value: Value) -> Value | None:
    """Writing everything, nothing, what is there already, or over what was written last."""
    base, new = value.value_operands
    starts, counts, steps = region(value)
    if new.spec.numel == 0:
        return base
    if all(step == 1 for step in steps) and all(map(is_whole, starts, counts, value.spec.shape)):
        return new
    if is_slice(new) and new.value_operands[0] is base and same_region(new, value):
        return base
    numbers = uniform(base), uniform(new)
    if numbers[0] is not None and numbers[1] is not None and same_number(*numbers):  # type: ignore[arg-type]
        return base
    if base.op is value.op and same_region(base, value):
        operands = (base.value_operands[0], new)
        return rewriter.write(
            "slice_scatter", operands, value.line, starts=starts, counts=counts, steps=steps
        )
    return None


def scatter_into_strip(rewriter: Rewriter, value: Value) -> Value | None:
    """Writing between, or over, the segments of a strip; of writes one over the other, the last one does it for all."""
    if rewriter.writes.present in rewriter.writes.goes_on:
        return None
    written: list[tuple[Value, Segment]] = []
    base, dim = value, -1
    while base.op is value.op:
        segment = _whole_but_along(base, dim)
        if segment is None or (written and base in rewriter.writes.shown):
            break
        dim, found = segment
        written.append((base, found))
        base = base.value_operands[0]
    strip = strip_of(rewriter, base) if written else None
    while (
        strip is None and written
    ):  # what is written first may be a strip by itself, in its own way
        base, _ = written.pop()
        strip = None if base in rewriter.writes.shown else strip_of(rewriter, base)
    if strip is None or not written or strip.dim != dim:
        return None
    latest = [found for _, found in reversed(written)]
    segments = in_order((*strip.segments, *latest), strip.dim, lambda _, new: new)
    return None if segments is None else joined(rewriter, replace(strip, like=value), segments)


def _whole_but_along(value: Value, dim: int) -> tuple[int, Segment] | None:
    """What a scatter writes as a segment, and along which dimension; None where it is none (along ``dim``)."""
    starts, counts, steps = region(value)
    if any(step != 1 for step in steps):
        return None
    shape = value.spec.shape
    parts = [d for d in range(len(shape)) if not is_whole(starts[d], counts[d], shape[d])]
    if len(parts) != 1 or dim not in (-1, parts[0]):
        return None
    return parts[0], Segment(starts[parts[0]], value.value_operands[1])


class PartByPart(Rewriter):
    """Rewrites a graph in which values are changed by scatters, one over the other."""

    def run(self, graph: Graph) -> Graph:
        """``graph`` with every statement written again, once it is known which results are changed further."""
        users, outputs = graph.users(), {*graph.outputs}
        for value in graph.values:
            readers = users.get(value, []) if value.op is slice_scatter else []
            over = [x for x in readers if x.op is slice_scatter and x.operands[0] is value]
            if over:
                self.writes.goes_on.add(value)
                others = [x for x in readers if x.op is not movement.slice]
                if value in outputs or len(others) > 1:
                    self.writes.shown.add(value)
        return super().run(graph)

    def statement(self, statement: Value, mapping: Mapping[Value, Value]) -> Value:
        """What a statement of the old graph becomes."""
        self.writes.present = statement
        found = super().statement(statement, mapping)
        if statement in self.writes.shown:
            self.writes.shown.add(found)
        return found
