"""sinh, cosh, tanh, asinh, acosh and atanh, in single and double precision."""

from __future__ import annotations

from tracejit.scalar_math.exponential import (
    exp2_reduced_f32,
    exp_f32,
    exp_f64,
    expm1_f32,
    expm1_f64,
    integer_f32,
    shifted_f32,
    whole_f32,
)
from tracejit.scalar_math.logarithm import log1p_f32, log1p_f64
from tracejit.scalar_math.primitives import (
    copysign_f32,
    copysign_f64,
    f32,
    f64,
    fabs_f32,
    fabs_f64,
    float32,
    float64,
    fma_f32,
    fma_f64,
    nan,
    select,
    sqrt_f32,
    sqrt_f64,
)
from tracejit.scalar_math.unfused import power_of_two_f32


def tanh_f32(x: f32) -> f32:
    """The hyperbolic tangent of x."""
    a = fabs_f32(x)
    z = a * a
    p = float32(0.016437879)
    p = fma_f32(z, p, float32(-0.05267201))
    p = fma_f32(z, p, float32(0.13320729))
    p = fma_f32(z, p, float32(-0.33332947))
    near = fma_f32(a * z, p, a)
    # Farther out 1 - 2 / (exp(2 a) + 1), where an error of the exponential counts for little.
    h = a * float32(2.88539)
    h = select(h > float32(29.0), float32(29.0), h)
    t = shifted_f32(h)
    power = power_of_two_f32(integer_f32(t))
    e = fma_f32(exp2_reduced_f32(h - whole_f32(t)), power, float32(1.0))
    far = float32(1.0) - float32(2.0) / e
    return copysign_f32(select(a < float32(0.55), near, far), x)


def tanh_f64(x: f64) -> f64:
    """The hyperbolic tangent of x."""
    a = fabs_f64(x)
    bounded = select(a > float64(20.0), float64(20.0), a)
    t = expm1_f64(bounded + bounded)
    d = t + float64(2.0)
    near = t / d
    # Undo the rounding of the sum, to first order: 1 / d is (1 - near) / 2.
    lost = t - (d - float64(2.0))
    near = fma_f64(-near * lost, fma_f64(near, float64(-0.5), float64(0.5)), near)
    far = float64(1.0) - float64(2.0) / d
    return copysign_f64(select(a < float64(0.55), near, far), x)


def sinh_f32(x: f32) -> f32:
    """The hyperbolic sine of x."""
    a = fabs_f32(x)
    small = a < float32(9.0)
    t = expm1_f32(select(small, a, float32(1.0)))
    e = exp_f32(float32(0.5) * a)
    y = select(small, float32(0.5) * (t + t / (t + float32(1.0))), (float32(0.5) * e) * e)
    return copysign_f32(y, x)


def sinh_f64(x: f64) -> f64:
    """The hyperbolic sine of x."""
    a = fabs_f64(x)
    small = a < float64(22.0)
    t = expm1_f64(select(small, a, float64(1.0)))
    e = exp_f64(float64(0.5) * a)
    y = select(small, float64(0.5) * (t + t / (t + float64(1.0))), (float64(0.5) * e) * e)
    return copysign_f64(y, x)


def cosh_f32(x: f32) -> f32:
    """The hyperbolic cosine of x."""
    a = fabs_f32(x)
    small = a < float32(9.0)
    e = exp_f32(select(small, a, float32(0.5) * a))
    return select(small, float32(0.5) * e + float32(0.5) / e, (float32(0.5) * e) * e)


def cosh_f64(x: f64) -> f64:
    """The hyperbolic cosine of x."""
    a = fabs_f64(x)
    small = a < float64(22.0)
    e = exp_f64(select(small, a, float64(0.5) * a))
    return select(small, float64(0.5) * e + float64(0.5) / e, (float64(0.5) * e) * e)


def asinh_f32(x: f32) -> f32:
    """The inverse hyperbolic sine of x."""
    a = fabs_f32(x)
    # Beyond, asinh(x) is log(2 x), and log1p(x) is log(x).
    large = a > float32(67108864.0)
    b = select(large, float32(1.0), a)
    z = b * b
    near = b + z / (float32(1.0) + sqrt_f32(fma_f32(b, b, float32(1.0))))
    y = log1p_f32(select(large, a, near))
    return copysign_f32(select(large, y + float32(0.6931472), y), x)


def asinh_f64(x: f64) -> f64:
    """The inverse hyperbolic sine of x."""
    a = fabs_f64(x)
    # Beyond, asinh(x) is log(2 x), and log1p(x) is log(x).
    large = a > float64(18014398509481984.0)
    b = select(large, float64(1.0), a)
    z = b * b
    near = b + z / (float64(1.0) + sqrt_f64(fma_f64(b, b, float64(1.0))))
    y = log1p_f64(select(large, a, near))
    return copysign_f64(select(large, y + float64(0.6931471805599453), y), x)


def acosh_f32(x: f32) -> f32:
    """The inverse hyperbolic cosine of x, nan below 1."""
    # Beyond, acosh(x) is log(2 x), and log1p(x) is log(x).
    large = x > float32(67108864.0)
    t = select(large, float32(1.0), x - float32(1.0))
    y = log1p_f32(select(large, x, t + sqrt_f32(fma_f32(t, t, t + t))))
    y = select(large, y + float32(0.6931472), y)
    return select(x < float32(1.0), float32(nan), y)


def acosh_f64(x: f64) -> f64:
    """The inverse hyperbolic cosine of x, nan below 1."""
    # Beyond, acosh(x) is log(2 x), and log1p(x) is log(x).
    large = x > float64(18014398509481984.0)
    t = select(large, float64(1.0), x - float64(1.0))
    y = log1p_f64(select(large, x, t + sqrt_f64(fma_f64(t, t, t + t))))
    y = select(large, y + float64(0.6931471805599453), y)
    return select(x < float64(1.0), float64(nan), y)


def atanh_f32(x: f32) -> f32:
    """The inverse hyperbolic tangent of x, nan outside [-1, 1]."""
    a = fabs_f32(x)
    y = float32(0.5) * log1p_f32((a + a) / (float32(1.0) - a))
    return copysign_f32(select(a < float32(1e-05), a, y), x)


def atanh_f64(x: f64) -> f64:
    """The inverse hyperbolic tangent of x, nan outside [-1, 1]."""
    a = fabs_f64(x)
    y = float64(0.5) * log1p_f64((a + a) / (float64(1.0) - a))
    return copysign_f64(select(a < float64(1e-09), a, y), x)
