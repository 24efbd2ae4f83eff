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

from itertools import accumulate

from ...extents import hint
from ...ir.graph import Value
from ..products.joins import is_plain_sum
from ..rewrite import Rewriter, Rule, Rules
from ..windows.strips import (
    Segment,
    Strip,
    constant,
    equal,
    joined,
    same_number,
    strip_of,
    uniform,
    united,
)
from .regions import bounds, is_slice, lies_in, made_by, misses, region, sliced
from .scatters import scatter_into_strip, scatter_of_itself, slice_of_scatter


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


def _slice_of_cat(rewriter: Rewriter, value: Value) -> Value | None:
    """A slice of one operand only."""
    inner = made_by(value, "cat")
    if inner is None:
        return None
    dim = inner.attributes["dim"]
    extents = [x.spec.shape[dim] for x in inner.value_operands]
    first = hint(bounds(value, dim)[0])
    ends = accumulate(map(hint, extents))
    position = next(i for i, end in enumerate(ends) if first < end)
    x, start = inner.value_operands[position], sum(extents[:position])
    shifts = tuple(start if d == dim else 0 for d in range(value.spec.ndim))
    return sliced(rewriter, value, x, shifts) if lies_in(value, shifts, x.spec.shape) else None


def _slice_of_pad(rewriter: Rewriter, value: Value) -> Value | None:
    """A slice of what was padded, or of the padding."""
    inner = made_by(value, "pad")
    if inner is None:
        return None
    x = inner.value_operands[0]
    starts = tuple(before for before, _ in inner.attributes["widths"])
    if x.spec.numel != 0 and lies_in(value, starts, x.spec.shape):
        return sliced(rewriter, value, x, starts)
    if misses(value, starts, x.spec.shape):
        return constant(rewriter, value, value.spec.shape, inner.attributes["value"])
    return None


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
    if not is_slice(a) or not is_slice(b) or a.value_operands[0] is not b.value_operands[0]:
        return None
    (starts, counts, steps), (others, _, by) = region(a), region(b)
    following = tuple(
        s + c * step if d == dim else s
        for d, (s, c, step) in enumerate(zip(starts, counts, steps, strict=True))
    )
    if not equal(others, following) or not equal(steps, by):
        return None
    whole = a.value_operands
    return rewriter.write("slice", whole, a.line, starts=starts, counts=shape, steps=steps)


def _no_padding(rewriter: Rewriter, value: Value) -> Value | None:
    """Nothing around, or more of the same around a constant."""
    x = value.value_operands[0]
    if all(width == 0 for pair in value.attributes["widths"] for width in pair):
        return x
    number = uniform(x)
    if number is None or not same_number(number, value.attributes["value"]):
        return None
    return constant(rewriter, value, value.spec.shape, number)


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


MOVE_RULES: Rules = {
    "slice": (_slice_of_cat, _slice_of_pad, slice_of_scatter),
    "cat": (_short_cat,),
    "pad": (_no_padding,),
    "slice_scatter": (scatter_of_itself, scatter_into_strip),
    "add": (_zero_added_before, _sum_of_strips),
}
