"""trigamma, in single and double precision.

trigamma(b) = 1 / b^2 + 1 / (b + 1)^2 + ... + trigamma(b + n), of which the last is an asymptotic series (Abramowitz and
Stegun, 6.4.6 and 6.4.12). Below zero, trigamma(x) = (pi / sin(pi x))^2 - trigamma(1 - x), of which the first is six
times as large at least.
"""

from __future__ import annotations

from tracejit.scalar_math.gamma import sine_of_half_turns_f32, sine_of_half_turns_f64
from tracejit.scalar_math.primitives import (
    f32,
    f64,
    fabs_f32,
    fabs_f64,
    float32,
    float64,
    floor_f32,
    floor_f64,
    fma_f32,
    fma_f64,
    round_f32,
    round_f64,
    select,
)


def trigamma_tail_f32(r: f32) -> f32:
    """trigamma(1 / r) for 0 <= r <= 1/6: r + r^2 / 2 + B2 r^3 + B4 r^5 + ..."""
    z = r * r
    p = float32(-0.033333335)
    p = fma_f32(z, p, float32(0.023809524))
    p = fma_f32(z, p, float32(-0.033333335))
    p = fma_f32(z, p, float32(0.16666667))
    return fma_f32(r * z, p, fma_f32(float32(0.5), z, r))


def trigamma_f32(x: f32) -> f32:
    """The derivative of digamma at x; inf at zero and at negative integers, nan at -inf."""
    a = fabs_f32(x)
    b = select(x < float32(0.0), float32(1.0) + a, a)
    # As few terms as lead to 6: every one has an error of its own.
    ahead = float32(6.0)
    terms = ahead - floor_f32(b)
    found = trigamma_tail_f32(float32(1.0) / select(b < ahead, b + terms, b))
    for _ in range(6):
        ahead = ahead - float32(1.0)
        r = float32(1.0) / (b + ahead)
        found = select(ahead < terms, fma_f32(r, r, found), found)
    s = float32(1.0) / sine_of_half_turns_f32(a - round_f32(a))
    return select(x < float32(0.0), fma_f32(s, s, -found), found)


def trigamma_tail_f64(r: f64) -> f64:
    """trigamma(1 / r) for 0 <= r <= 1/10: r + r^2 / 2 + B2 r^3 + B4 r^5 + ..."""
    z = r * r
    p = float64(-7.092156862745098)
    p = fma_f64(z, p, float64(1.1666666666666667))
    p = fma_f64(z, p, float64(-0.2531135531135531))
    p = fma_f64(z, p, float64(0.07575757575757576))
    p = fma_f64(z, p, float64(-0.03333333333333333))
    p = fma_f64(z, p, float64(0.023809523809523808))
    p = fma_f64(z, p, float64(-0.03333333333333333))
    p = fma_f64(z, p, float64(0.16666666666666666))
    return fma_f64(r * z, p, fma_f64(float64(0.5), z, r))


def trigamma_f64(x: f64) -> f64:
    """The derivative of digamma at x; inf at zero and at negative integers, nan at -inf."""
    a = fabs_f64(x)
    b = select(x < float64(0.0), float64(1.0) + a, a)
    # As few terms as lead to 10: every one has an error of its own.
    ahead = float64(10.0)
    terms = ahead - floor_f64(b)
    found = trigamma_tail_f64(float64(1.0) / select(b < ahead, b + terms, b))
    for _ in range(10):
        ahead = ahead - float64(1.0)
        r = float64(1.0) / (b + ahead)
        found = select(ahead < terms, fma_f64(r, r, found), found)
    s = float64(1.0) / sine_of_half_turns_f64(a - round_f64(a))
    return select(x < float64(0.0), fma_f64(s, s, -found), found)
