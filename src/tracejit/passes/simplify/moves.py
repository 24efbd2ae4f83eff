"""Simplification of ops that move elements: slices of what was joined, and sums of slices that lie side by side.

Before (the gradient of ``chunk``)::

    graph f(a: f32[2, 3], b: f32[2, 3]) {
        %0: f32[2, 6] = full(shape=(2, 6), value=0, dtype=f32)
        %1: f32[2, 6] = slice_scatter(%0, a, starts=(0, 0), counts=(2, 3), steps=(1, 1))
        %2: f32[2, 6] = slice_scatter(%0, b, starts=(0, 3), counts=(2, 3), steps=(1, 1))
        %3: f32[2, 6] = add(%1, %2)
        return %3
    }

After::

    graph f(a: f32[2, 3], b: f32[2, 3]) {
        %0: f32[2, 3] = add(a, 0.0)
        %1: f32[2, 3] = add(b, 0.0)
        %2: f32[2, 6] = cat(%0, %1, dim=1)
        return %2
    }

Adding zeros turns -0.0 into 0.0, so ``a + 0.0`` stays. Sizes may be symbols: a rule looks at the present values first
and decides only what it then relies on. Part of :mod:`.simplify`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from ...extents import hint
from ...ir.graph import Graph, Value
from ...ops.movement import slice, slice_scatter
from ...types import Shape
from ..products.joins import is_plain_sum
from ..rewrite import Rewriter, Rule, Rules
from ..windows.strips import (
    Segment,
    Strip,
    at_most,
    constant,
    equal,
    in_order,
    is_whole,
    joined,
    same_number,
    strip_of,
    uniform,
    united,
)


#: How many writes a slice is looked for behind.
MOST_LOOKED_THROUGH = 16


def together(*tables: Rules) -> Rules:
    """One table with the rules of several, those of the first one first.

    >>> sorted(together({"slice": ()}, {"cat": ()}))
    ['cat', 'slice']
    """
    found: dict[str, tuple[Rule, ...]] = {}
    for table in tables:
        for name, rules in table.items():
            found[name] = (*found.get(name, ()), *rules)
    return found


# --- slices --------------------------------------------------------------------------------------------------------


def _region(value: Value) -> tuple[Shape, Shape, Shape]:
    """Starts, counts and steps of a slice."""
    starts, counts, steps = (value.attributes[name] for name in ("starts", "counts", "steps"))
    return starts, counts, steps


def _bounds(value: Value, dim: int) -> tuple[int, int]:
    """The first and last position that a slice takes along a dimension."""
    starts, counts, steps = _region(value)
    start, way = starts[dim], (counts[dim] - 1) * steps[dim]
    return (start, start + way) if steps[dim] > 0 else (start + way, start)


def _source(value: Value, name: str) -> Value | None:
    """The operand of a slice that takes something, if it is made by the op ``name``."""
    x = value.value_operands[0]
    return x if x.op is not None and x.op.name == name and value.spec.numel != 0 else None


def _sliced(rewriter: Rewriter, value: Value, x: Value, shifts: Sequence[int]) -> Value:
    """The slice ``value`` of ``x``, whose positions are ``shifts`` less."""
    starts, counts, steps = _region(value)
    new = tuple(a - b for a, b in zip(starts, shifts, strict=True))
    return rewriter.write("slice", (x,), value.line, starts=new, counts=counts, steps=steps)


def _lies_in(value: Value, starts: Sequence[int], counts: Sequence[int]) -> bool:
    """Does a slice take positions of a box only?"""
    for dim, (start, count) in enumerate(zip(starts, counts, strict=True)):
        low, high = _bounds(value, dim)
        if not at_most(start, low) or not at_most(high + 1, start + count):
            return False
    return True


def _misses(value: Value, starts: Sequence[int], counts: Sequence[int]) -> bool:
    """Does a slice take no position of a box?"""
    for dim, (start, count) in enumerate(zip(starts, counts, strict=True)):
        low, high = _bounds(value, dim)
        if at_most(high + 1, start) or at_most(start + count, low):
            return True
    return False


def _slice_of_cat(rewriter: Rewriter, value: Value) -> Value | None:
    """A slice of one operand only."""
    inner = _source(value, "cat")
    if inner is None:
        return None
    dim = inner.attributes["dim"]
    extents = [x.spec.shape[dim] for x in inner.value_operands]
    first = hint(_bounds(value, dim)[0])
    ends = accumulate(map(hint, extents))
    position = next(i for i, end in enumerate(ends) if first < end)
    x, start = inner.value_operands[position], sum(extents[:position])
    shifts = tuple(start if d == dim else 0 for d in range(value.spec.ndim))
    return _sliced(rewriter, value, x, shifts) if _lies_in(value, shifts, x.spec.shape) else None


def _slice_of_pad(rewriter: Rewriter, value: Value) -> Value | None:
    """A slice of what was padded, or of the padding."""
    inner = _source(value, "pad")
    if inner is None:
        return None
    x = inner.value_operands[0]
    starts = tuple(before for before, _ in inner.attributes["widths"])
    if x.spec.numel != 0 and _lies_in(value, starts, x.spec.shape):
        return _sliced(rewriter, value, x, starts)
    if _misses(value, starts, x.spec.shape):
        return constant(rewriter, value, value.spec.shape, inner.attributes["value"])
    return None


def _slice_of_scatter(rewriter: Rewriter, value: Value) -> Value | None:
    """A slice of what was written, or of what was there before: of many writes, looked through one by one."""
    inner = _source(value, "slice_scatter")
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
        if _same_region(value, source):
            return new
        starts, counts, steps = _region(source)
        if all(step == 1 for step in steps) and _lies_in(value, starts, counts):
            return _sliced(rewriter, value, new, starts)
        rewriter.writes.shown.add(source)
    return _sliced(rewriter, value, source, (0,) * value.spec.ndim) if source is not inner else None


def _misses_written(value: Value, written: Value) -> bool:
    """Does a slice show nothing of what a scatter writes?"""
    box = [_bounds(written, d) for d in range(value.spec.ndim)]
    low, size = [a for a, _ in box], [b - a + 1 for a, b in box]
    return written.value_operands[1].spec.numel == 0 or _misses(value, low, size)


def _same_region(a: Value, b: Value) -> bool:
    return all(map(equal, _region(a), _region(b)))


# --- joining and writing -------------------------------------------------------------------------------------------


def _short_cat(rewriter: Rewriter, value: Value) -> Value | None:
    """Without empty operands, and with neighbours of one value as one."""
    dim = value.attributes["dim"]
    parts: list[Value] = []
    for x in value.value_operands:
        if x.spec.shape[dim] == 0:
            continue
        both = _neighbours(rewriter, parts[-1], x, dim) if parts else None
        if both is None:
            parts.append(x)
        else:
            parts[-1] = both
    if len(parts) == len(value.value_operands) > 1:
        return None
    if not parts:
        return value.value_operands[0]
    return rewriter.write("cat", parts, value.line, dim=dim) if len(parts) > 1 else parts[0]


def _neighbours(rewriter: Rewriter, a: Value, b: Value, dim: int) -> Value | None:
    """Two values as one, where they are parts of one value that lie side by side, or the same constant."""
    total = a.spec.shape[dim] + b.spec.shape[dim]
    shape = (*a.spec.shape[:dim], total, *a.spec.shape[dim + 1 :])
    first, second = uniform(a), uniform(b)
    if first is not None and second is not None:
        return constant(rewriter, a, shape, first) if same_number(first, second) else None
    if not _is_slice(a) or not _is_slice(b) or a.value_operands[0] is not b.value_operands[0]:
        return None
    (starts, counts, steps), (others, _, by) = _region(a), _region(b)
    following = tuple(
        s + c * step if d == dim else s
        for d, (s, c, step) in enumerate(zip(starts, counts, steps, strict=True))
    )
    if not equal(others, following) or not equal(steps, by):
        return None
    whole = a.value_operands
    return rewriter.write("slice", whole, a.line, starts=starts, counts=shape, steps=steps)


def _is_slice(value: Value) -> bool:
    return value.op is not None and value.op.name == "slice"


def _no_padding(rewriter: Rewriter, value: Value) -> Value | None:
    """Nothing around, or more of the same around a constant."""
    x = value.value_operands[0]
    if all(width == 0 for pair in value.attributes["widths"] for width in pair):
        return x
    number = uniform(x)
    if number is None or not same_number(number, value.attributes["value"]):
        return None
    return constant(rewriter, value, value.spec.shape, number)


def _scatter_of_itself(rewriter: Rewriter, value: Value) -> Value | None:
    """Writing everything, nothing, what is there already, or over what was written last."""
    base, new = value.value_operands
    starts, counts, steps = _region(value)
    if new.spec.numel == 0:
        return base
    if all(step == 1 for step in steps) and all(map(is_whole, starts, counts, value.spec.shape)):
        return new
    if _is_slice(new) and new.value_operands[0] is base and _same_region(new, value):
        return base
    numbers = uniform(base), uniform(new)
    if numbers[0] is not None and numbers[1] is not None and same_number(*numbers):  # type: ignore[arg-type]
        return base
    if base.op is value.op and _same_region(base, value):
        operands = (base.value_operands[0], new)
        return rewriter.write(
            "slice_scatter", operands, value.line, starts=starts, counts=counts, steps=steps
        )
    return None


def _scatter_into_strip(rewriter: Rewriter, value: Value) -> Value | None:
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
    while strip is None and written:  # what is written first may be a strip by itself, in its own way
        base, _ = written.pop()
        strip = None if base in rewriter.writes.shown else strip_of(rewriter, base)
    if strip is None or not written or strip.dim != dim:
        return None
    latest = [found for _, found in reversed(written)]
    segments = in_order((*strip.segments, *latest), strip.dim, lambda _, new: new)
    return None if segments is None else joined(rewriter, replace(strip, like=value), segments)


def _whole_but_along(value: Value, dim: int) -> tuple[int, Segment] | None:
    """What a scatter writes as a segment, and along which dimension; None where it is none (along ``dim``)."""
    starts, counts, steps = _region(value)
    if any(step != 1 for step in steps):
        return None
    shape = value.spec.shape
    parts = [d for d in range(len(shape)) if not is_whole(starts[d], counts[d], shape[d])]
    if len(parts) != 1 or dim not in (-1, parts[0]):
        return None
    return parts[0], Segment(starts[parts[0]], value.value_operands[1])


# --- sums ----------------------------------------------------------------------------------------------------------


def _sum_of_strips(rewriter: Rewriter, value: Value) -> Value | None:
    """Zeros but for some segments, plus zeros but for others."""
    if not _adds_alike(value):
        return None
    x, y = value.value_operands
    a, b = _zero_strip(rewriter, x), _zero_strip(rewriter, y)
    if a is not None and b is not None:
        return _united(rewriter, a, b, value)
    for strip, rest in ((a, y), (b, x)):
        if strip is not None and rest.op is value.op:
            return _gathered(rewriter, value, strip, rest)
    return None


def _adds_alike(value: Value) -> bool:
    """Is this a sum of two values of its own type?"""
    return is_plain_sum(value) and value.spec.dtype.is_floating_point


def _zero_strip(rewriter: Rewriter, x: Value) -> Strip | None:
    strip = strip_of(rewriter, x)
    return strip if strip is not None and same_number(float(strip.number), 0.0) else None


def _united(
    rewriter: Rewriter, a: Strip, b: Strip, value: Value, overlap: bool = True
) -> Value | None:
    """The sum of two strips."""
    if a.dim != b.dim:
        return None
    summed: set[Value] = set()

    def both(x: Value, y: Value) -> Value | None:
        if not overlap:
            return None
        found = rewriter.write("add", (x, y), value.line)
        summed.add(found)
        return found

    segments = united(a, b, both)
    if segments is None:
        return None
    plus_zero = [
        s if s.value in summed else Segment(s.start, _plus_zero(rewriter, s.value, value))
        for s in segments
    ]
    return joined(rewriter, a, plus_zero)


def _plus_zero(rewriter: Rewriter, x: Value, value: Value) -> Value:
    return x if has_no_negative_zero(x) else rewriter.write("add", (x, 0.0), value.line)


def _gathered(rewriter: Rewriter, value: Value, strip: Strip, rest: Value) -> Value | None:
    """``(x + a) + b`` is ``x + (a + b)`` where one of a and b is zero everywhere: no rounding depends on the order."""
    if not _adds_alike(rest):
        return None
    for x, other in (rest.value_operands, rest.value_operands[::-1]):
        found = _zero_strip(rewriter, x)
        if found is None:
            continue
        both = _united(rewriter, found, strip, value, overlap=False)
        if both is not None:
            return rewriter.write("add", (other, both), value.line)
    return None


def _zero_added_before(_: Rewriter, value: Value) -> Value | None:
    """``x + 0.0`` is x when x has no -0.0."""
    for x, y in (value.operands, value.operands[::-1]):
        if isinstance(x, Value) and isinstance(y, float) and y == 0 and x.spec == value.spec:
            return x if has_no_negative_zero(x) else None
    return None


def has_no_negative_zero(value: Value, depth: int = 4) -> bool:
    """Is -0.0 surely none of the elements? A sum is -0.0 only if both terms are."""
    if value.op is None or not depth:
        return False
    number = uniform(value)
    if number is not None:
        return not same_number(float(number), -0.0)
    if value.op.name == "add" and value.spec.dtype.is_floating_point:
        return any(
            has_no_negative_zero(x, depth - 1)
            if isinstance(x, Value)
            else not same_number(float(x), -0.0)
            for x in value.operands
        )
    names = ("reshape", "permute", "expand", "squeeze", "unsqueeze", "slice", "cat")
    return value.op.name in names and all(
        has_no_negative_zero(x, depth - 1) for x in value.value_operands
    )


class PartByPart(Rewriter):
    """Rewrites a graph in which values are changed by scatters, one over the other."""

    def run(self, graph: Graph) -> Graph:
        users, outputs = graph.users(), {*graph.outputs}
        for value in graph.values:
            readers = users.get(value, []) if value.op is slice_scatter else []
            over = [x for x in readers if x.op is slice_scatter and x.operands[0] is value]
            if over:
                self.writes.goes_on.add(value)
                if value in outputs or len(over) > 1:
                    self.writes.shown.add(value)
                elif any(x.op is not slice and x is not over[0] for x in readers):
                    self.writes.shown.add(value)
        return super().run(graph)

    def statement(self, statement: Value, mapping: Mapping[Value, Value]) -> Value:
        self.writes.present = statement
        found = super().statement(statement, mapping)
        if statement in self.writes.shown:
            self.writes.shown.add(found)
        return found


MOVE_RULES: Rules = {
    "slice": (_slice_of_cat, _slice_of_pad, _slice_of_scatter),
    "cat": (_short_cat,),
    "pad": (_no_padding,),
    "slice_scatter": (_scatter_of_itself, _scatter_into_strip),
    "add": (_zero_added_before, _sum_of_strips),
}
