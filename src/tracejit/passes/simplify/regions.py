"""Regions that slices show and scatters write: starts, counts and steps, of sizes that may be symbols."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.graph import Value
from ...types import Shape
from ..rewrite import Rewriter
from ..windows.strips import at_most, equal


def region(value: Value) -> tuple[Shape, Shape, Shape]:
    """Starts, counts and steps of a slice."""
    starts, counts, steps = (value.attributes[name] for name in ("starts", "counts", "steps"))
    return starts, counts, steps


def bounds(value: Value, dim: int) -> tuple[int, int]:
    """The first and last position that a slice takes along a dimension."""
    starts, counts, steps = region(value)
    start, way = starts[dim], (counts[dim] - 1) * steps[dim]
    return (start, start + way) if steps[dim] > 0 else (start + way, start)


def made_by(value: Value, name: str) -> Value | None:
    """The operand of a slice that takes something, if it is made by the op ``name``."""
    x = value.value_operands[0]
    return x if x.op is not None and x.op.name == name and value.spec.numel != 0 else None


def sliced(rewriter: Rewriter, value: Value, x: Value, shifts: Sequence[int]) -> Value:
    """The slice ``value`` of ``x``, whose positions are ``shifts`` less."""
    starts, counts, steps = region(value)
    new = tuple(a - b for a, b in zip(starts, shifts, strict=True))
    return rewriter.write("slice", (x,), value.line, starts=new, counts=counts, steps=steps)


def lies_in(value: Value, starts: Sequence[int], counts: Sequence[int]) -> bool:
    """Does a slice take positions of a box only?"""
    for dim, (start, count) in enumerate(zip(starts, counts, strict=True)):
        low, high = bounds(value, dim)
        if not at_most(start, low) or not at_most(high + 1, start + count):
            return False
    return True


def misses(value: Value, starts: Sequence[int], counts: Sequence[int]) -> bool:
    """Does a slice take no position of a box?"""
    for dim, (start, count) in enumerate(zip(starts, counts, strict=True)):
        low, high = bounds(value, dim)
        if at_most(high + 1, start) or at_most(start + count, low):
            return True
    return False


def same_region(a: Value, b: Value) -> bool:
    """Do two slices or scatters concern the same places?"""
    return all(map(equal, region(a), region(b)))


def is_slice(value: Value) -> bool:
    """Is this a slice?"""
    return value.op is not None and value.op.name == "slice"
