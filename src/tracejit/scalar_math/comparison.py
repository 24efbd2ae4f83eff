"""Order, sign and division with NumPy's rules for nan, infinities and signed zeros."""

from __future__ import annotations

from tracejit.scalar_math.primitives import (
    b1,
    copysign_f32,
    copysign_f64,
    f32,
    f64,
    fabs_f32,
    fabs_f64,
    float32,
    float64,
    floor_f32,
    floor_f64,
    inf,
    select,
)
from tracejit.scalar_math.remainders import fmod_f32, fmod_f64


def maximum_f32(x: f32, y: f32) -> f32:
    """The larger of x and y; nan if either is nan; of two zeros the second."""
    return select(x != x, x, select(x > y, x, y))


def maximum_f64(x: f64, y: f64) -> f64:
    """The larger of x and y; nan if either is nan; of two zeros the second."""
    return select(x != x, x, select(x > y, x, y))


def minimum_f32(x: f32, y: f32) -> f32:
    """The smaller of x and y; nan if either is nan; of two zeros the second."""
    return select(x != x, x, select(x < y, x, y))


def minimum_f64(x: f64, y: f64) -> f64:
    """The smaller of x and y; nan if either is nan; of two zeros the second."""
    return select(x != x, x, select(x < y, x, y))


def larger_f32(x: f32, y: f32) -> f32:
    """The larger of x and y, neither of which is nan."""
    return select(x > y, x, y)


def larger_f64(x: f64, y: f64) -> f64:
    """The larger of x and y, neither of which is nan."""
    return select(x > y, x, y)


def smaller_f32(x: f32, y: f32) -> f32:
    """The smaller of x and y, neither of which is nan."""
    return select(x < y, x, y)


def smaller_f64(x: f64, y: f64) -> f64:
    """The smaller of x and y, neither of which is nan."""
    return select(x < y, x, y)


def clamp_f32(x: f32, low: f32, high: f32) -> f32:
    """``minimum(maximum(x, low), high)``, with one look for nan at each operand."""
    last = select(low != low, low, high)
    above = select(x > low, x, low)
    return select(x != x, x, select(above < last, above, last))


def clamp_f64(x: f64, low: f64, high: f64) -> f64:
    """``minimum(maximum(x, low), high)``, with one look for nan at each operand."""
    last = select(low != low, low, high)
    above = select(x > low, x, low)
    return select(x != x, x, select(above < last, above, last))


def fmax_f32(x: f32, y: f32) -> f32:
    """The larger of x and y; a nan only if both are nan."""
    return select(y != y, x, select(x > y, x, y))


def fmax_f64(x: f64, y: f64) -> f64:
    """The larger of x and y; a nan only if both are nan."""
    return select(y != y, x, select(x > y, x, y))


def fmin_f32(x: f32, y: f32) -> f32:
    """The smaller of x and y; a nan only if both are nan."""
    return select(y != y, x, select(x < y, x, y))


def fmin_f64(x: f64, y: f64) -> f64:
    """The smaller of x and y; a nan only if both are nan."""
    return select(y != y, x, select(x < y, x, y))


def sign_f32(x: f32) -> f32:
    """-1, 0 or 1 with the sign of x; 0 for nan."""
    negative = select(x < float32(0.0), float32(-1.0), float32(0.0))
    return select(x > float32(0.0), float32(1.0), negative)


def sign_f64(x: f64) -> f64:
    """-1, 0 or 1 with the sign of x; 0 for nan."""
    negative = select(x < float64(0.0), float64(-1.0), float64(0.0))
    return select(x > float64(0.0), float64(1.0), negative)


def isnan_f32(x: f32) -> b1:
    """Whether x is nan."""
    return x != x


def isnan_f64(x: f64) -> b1:
    """Whether x is nan."""
    return x != x


def isinf_f32(x: f32) -> b1:
    """Whether x is an infinity."""
    return fabs_f32(x) == float32(inf)


def isinf_f64(x: f64) -> b1:
    """Whether x is an infinity."""
    return fabs_f64(x) == float64(inf)


def isfinite_f32(x: f32) -> b1:
    """Whether x is neither nan nor an infinity."""
    return fabs_f32(x) < float32(inf)


def isfinite_f64(x: f64) -> b1:
    """Whether x is neither nan nor an infinity."""
    return fabs_f64(x) < float64(inf)


def remainder_f32(x: f32, y: f32) -> f32:
    """x modulo y, with the sign of y; zeros have the sign of x."""
    m = fmod_f32(x, y)
    moved = select((m < float32(0.0)) != (y < float32(0.0)), m + y, m)
    return select(m == float32(0.0), m, moved)


def remainder_f64(x: f64, y: f64) -> f64:
    """x modulo y, with the sign of y; zeros have the sign of x."""
    m = fmod_f64(x, y)
    moved = select((m < float64(0.0)) != (y < float64(0.0)), m + y, m)
    return select(m == float64(0.0), m, moved)


def floor_divide_f32(x: f32, y: f32) -> f32:
    """The floor of the exact quotient x / y, as NumPy and Python compute it; x / 0 is not floored."""
    m = fmod_f32(x, y)
    q = (x - m) / y
    wrong_side = (m != float32(0.0)) & ((m < float32(0.0)) != (y < float32(0.0)))
    q = select(wrong_side, q - float32(1.0), q)
    whole = floor_f32(q)
    whole = select(q - whole > float32(0.5), whole + float32(1.0), whole)
    whole = select(q == float32(0.0), copysign_f32(float32(0.0), x / y), whole)
    return select(y == float32(0.0), x / y, whole)


def floor_divide_f64(x: f64, y: f64) -> f64:
    """The floor of the exact quotient x / y, as NumPy and Python compute it; x / 0 is not floored."""
    m = fmod_f64(x, y)
    q = (x - m) / y
    wrong_side = (m != float64(0.0)) & ((m < float64(0.0)) != (y < float64(0.0)))
    q = select(wrong_side, q - float64(1.0), q)
    whole = floor_f64(q)
    whole = select(q - whole > float64(0.5), whole + float64(1.0), whole)
    whole = select(q == float64(0.0), copysign_f64(float64(0.0), x / y), whole)
    return select(y == float64(0.0), x / y, whole)
