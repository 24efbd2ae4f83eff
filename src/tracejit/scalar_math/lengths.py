"""The length of a vector of two numbers, without overflow of their squares."""

from __future__ import annotations

from tracejit.scalar_math.primitives import (
    f32,
    f64,
    fabs_f32,
    fabs_f64,
    float32,
    float64,
    fma_f32,
    fma_f64,
    inf,
    select,
    sqrt_f32,
    sqrt_f64,
)
from tracejit.scalar_math.usual import usually_f32, usually_f64


def hypot_anywhere_f32(x: f32, y: f32) -> f32:
    """sqrt(x^2 + y^2) for x and y of any size: infinite where one of them is, whatever the other."""
    a = float64(x)
    b = float64(y)
    r = float32(sqrt_f64(fma_f64(a, a, b * b)))
    infinite = (fabs_f32(x) == float32(inf)) | (fabs_f32(y) == float32(inf))
    return select(infinite, float32(inf), r)


def hypot_f32(x: f32, y: f32) -> f32:
    """sqrt(x^2 + y^2)."""
    s = fma_f32(x, x, y * y)
    fits = (s > float32(1e-28)) & (s < float32(inf))
    return usually_f32(fits, sqrt_f32(s), hypot_anywhere_f32(x, y))


def hypot_anywhere_f64(x: f64, y: f64) -> f64:
    """sqrt(x^2 + y^2) for x and y of any size: infinite where one of them is, whatever the other."""
    large = (fabs_f64(x) > float64(1e140)) | (fabs_f64(y) > float64(1e140))
    scale = select(large, float64(2.409919865102884e-181), float64(4.149515568880993e180))
    back = select(large, float64(4.149515568880993e180), float64(2.409919865102884e-181))
    a = x * scale
    b = y * scale
    r = sqrt_f64(fma_f64(a, a, b * b)) * back
    infinite = (fabs_f64(x) == float64(inf)) | (fabs_f64(y) == float64(inf))
    return select(infinite, float64(inf), r)


def hypot_f64(x: f64, y: f64) -> f64:
    """sqrt(x^2 + y^2)."""
    s = fma_f64(x, x, y * y)
    fits = (s > float64(1e-280)) & (s < float64(inf))
    return usually_f64(fits, sqrt_f64(s), hypot_anywhere_f64(x, y))
