"""Strips: values that are one number except for segments along one dimension.

A slice written into a constant is a strip, and so is ``cat`` of constants and other values. Two strips along the same
dimension can be united when their segments do not overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...extents import Extent, hint
from ...ir.fields import ByFields
from ...ir.graph import Value
from ...ops.source import full
from ...types import Scalar, Shape
from ..rewrite import Rewriter, root


@dataclass(frozen=True, eq=False)
class Segment(ByFields):
    """``value`` from position ``start`` on."""

    start: int
    value: Value


@dataclass(frozen=True, eq=False)
class Strip(ByFields):
    """A value of the type of ``like``, which is ``number`` but for its segments, in order, along ``dim``."""

    like: Value
    dim: int
    number: Scalar
    segments: tuple[Segment, ...]

    def end(self, position: int) -> int:
        """Where a segment ends."""
        segment = self.segments[position]
        return segment.start + segment.value.spec.shape[self.dim]


def equal(a: Any, b: Any) -> bool:
    """Are two sizes, or tuples of them, equal? Decides only where it seems so."""
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return bool(hint(a) == hint(b) and a == b)


def at_most(a: Any, b: Any) -> bool:
    """Is one size at most the other? Decides only where it seems so."""
    return bool(hint(a) <= hint(b) and a <= b)


def uniform(value: Value) -> Scalar | None:
    """The number that every element of a constant is, None for other values."""
    source = root(value)
    if source.op is not full:
        return None
    number: Scalar = source.attributes["value"]
    return number


def strip_of(rewriter: Rewriter, value: Value) -> Strip | None:
    """``value`` as a strip, if it is one."""
    name = value.op.name if value.op is not None else ""
    if name == "cat":
        return _of_cat(value)
    return _of_scatter(rewriter, value) if name == "slice_scatter" else None


def _of_cat(value: Value) -> Strip | None:
    dim, start = value.attributes["dim"], 0
    number: Scalar | None = None
    segments: list[Segment] = []
    for x in value.value_operands:
        found = uniform(x)
        if found is None:
            segments.append(Segment(start, x))
        elif number is None or same_number(number, found):
            number = found
        else:
            return None
        start = start + x.spec.shape[dim]
    return None if number is None else Strip(value, dim, number, tuple(segments))


def _of_scatter(rewriter: Rewriter, value: Value) -> Strip | None:
    """Along the first dimension that the new values fill in part only.

    Where they fill others in part too, what is written is a strip itself.
    """
    number = uniform(value.value_operands[0])
    starts, counts, steps = (value.attributes[name] for name in ("starts", "counts", "steps"))
    if number is None or any(step != 1 for step in steps) or value.spec.numel == 0:
        return None
    shape = value.spec.shape
    parts = [d for d in range(len(shape)) if not is_whole(starts[d], counts[d], shape[d])]
    if not parts or any(count == 0 for count in counts):
        return None
    dim, inner = parts[0], value.value_operands[1]
    if len(parts) > 1:
        rest = (*shape[:dim], counts[dim], *shape[dim + 1 :])
        zeros = constant(rewriter, value, rest, number)
        starts_there = (*starts[:dim], 0, *starts[dim + 1 :])
        inner = rewriter.write(
            "slice_scatter",
            (zeros, inner),
            value.line,
            starts=starts_there,
            counts=counts,
            steps=steps,
        )
    return Strip(value, dim, number, (Segment(starts[dim], inner),))


def is_whole(start: int, count: int, extent: int) -> bool:
    """Do ``count`` positions from ``start`` on cover a dimension?"""
    return equal(count, extent) and equal(start, 0)  # the count first: it is known more often


def same_number(a: Scalar, b: Scalar) -> bool:
    """Are two Python numbers the same, sign of zero included?"""
    return a == b and str(a)[0] == str(b)[0]


def constant(rewriter: Rewriter, like: Value, shape: Shape, number: Scalar) -> Value:
    """A constant of the dtype of ``like``."""
    attributes = {"shape": shape, "value": number, "dtype": like.spec.dtype}
    return rewriter.builder.emit(full, (), attributes, like.line)


def united(
    a: Strip, b: Strip, both: Callable[[Value, Value], Value | None]
) -> tuple[Segment, ...] | None:
    """The segments of two strips along one dimension in order, None where they overlap.

    Segments at the same place become what ``both`` makes of them (None where it cannot).
    """
    return in_order((*a.segments, *b.segments), a.dim, both)


def in_order(
    segments: Sequence[Segment], dim: int, both: Callable[[Value, Value], Value | None]
) -> tuple[Segment, ...] | None:
    """Segments along a dimension in order, None where they overlap; those at the same place as `united` has them."""
    found: list[Segment] = []
    for segment in sorted(segments, key=lambda s: hint(s.start)):
        if found and _told_apart(found[-1], segment, dim):
            return None
        if not found or at_most(_end(found[-1], dim), segment.start):
            found.append(segment)
            continue
        last = found[-1]
        if not equal(last.start, segment.start) or last.value.spec != segment.value.spec:
            return None
        value = both(last.value, segment.value)
        if value is None:
            return None
        found[-1] = Segment(last.start, value)
    return tuple(found)


def _told_apart(a: Segment, b: Segment, dim: int) -> bool:
    """Does only each call tell which of two segments comes first? A plan for one order would not do for the next."""
    gap: Any = b.start - _end(a, dim)
    if type(gap) is not Extent or a.start is b.start:
        return False
    return gap.may_be_few and (gap.low is None or gap.low < 0)


def _end(segment: Segment, dim: int) -> int:
    return segment.start + segment.value.spec.shape[dim]


def joined(rewriter: Rewriter, strip: Strip, segments: Sequence[Segment]) -> Value:
    """The value of a strip with these segments."""
    dim, shape = strip.dim, strip.like.spec.shape
    operands: list[Value] = []
    at = 0

    def fill(end: int) -> None:
        if not equal(at, end):
            part = (*shape[:dim], end - at, *shape[dim + 1 :])
            operands.append(constant(rewriter, strip.like, part, strip.number))

    for segment in segments:
        fill(segment.start)
        operands.append(segment.value)
        at = _end(segment, dim)
    fill(shape[dim])
    return rewriter.write("cat", operands, strip.like.line, dim=dim)
