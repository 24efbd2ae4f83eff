"""maximum, minimum."""

from __future__ import annotations

from tracejit.scalar_math.primitives import f32, select


def maximum_f32(x: f32, y: f32) -> f32:
    """The larger of x and y; nan if either is nan; of two zeros y, as NumPy."""
    return select(x != x, x, select(x > y, x, y))


def minimum_f32(x: f32, y: f32) -> f32:
    """The smaller of x and y; nan if either is nan; of two zeros y, as NumPy."""
    return select(x != x, x, select(x < y, x, y))
