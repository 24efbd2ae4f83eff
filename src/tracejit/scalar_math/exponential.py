"""exp, exp2, expm1 and sigmoid, in single and double precision.

All reduce x = n log(2) + r, |r| <= log(2)/2, with log(2) split in two so that n times the high part is exact, and
evaluate (exp(r) - 1 - r) / r^2 by a polynomial fitted for this package (Remez, weighted for relative error). Powers of
two are applied in two steps, so that a subnormal result is rounded once.
"""

from __future__ import annotations

from tracejit.scalar_math.primitives import (
    f32,
    f32_from_bits,
    f64,
    f64_from_bits,
    fabs_f32,
    fabs_f64,
    float32,
    float64,
    fma_f32,
    fma_f64,
    i32,
    i64,
    inf,
    int32,
    int64,
    round_f32,
    round_f64,
    select,
    uint32,
    uint64,
)


def power_of_two_f32(n: i32) -> f32:
    """2^n for -126 <= n <= 127."""
    return f32_from_bits(uint32((n + int32(127)) << int32(23)))


def power_of_two_f64(n: i64) -> f64:
    """2^n for -1022 <= n <= 1023."""
    return f64_from_bits(uint64((n + int64(1023)) << int64(52)))


def scale_f32(x: f32, n: i32) -> f32:
    """x 2^n for |n| <= 252, rounded once even when the result is subnormal."""
    half = n >> int32(1)
    return x * power_of_two_f32(half) * power_of_two_f32(n - half)


def scale_f64(x: f64, n: i64) -> f64:
    """x 2^n for |n| <= 2044, rounded once even when the result is subnormal."""
    half = n >> int64(1)
    return x * power_of_two_f64(half) * power_of_two_f64(n - half)


def exp_reduced_f32(r: f32) -> f32:
    """exp(r) - 1 for |r| <= 0.35, accurate relative to exp(r)."""
    q = float32(0.0013813026)
    q = fma_f32(r, q, float32(0.008369416))
    q = fma_f32(r, q, float32(0.04166846))
    q = fma_f32(r, q, float32(0.16666515))
    q = fma_f32(r, q, float32(0.49999994))
    return fma_f32(r * r, q, r)


def exp_reduced_f64(r: f64) -> f64:
    """exp(r) - 1 for |r| <= 0.35, accurate relative to exp(r)."""
    q = float64(2.0825423275926136e-09)
    q = fma_f64(r, q, float64(2.5113219246464116e-08))
    q = fma_f64(r, q, float64(2.7557593133450823e-07))
    q = fma_f64(r, q, float64(2.7557231504395064e-06))
    q = fma_f64(r, q, float64(2.480158690285648e-05))
    q = fma_f64(r, q, float64(0.00019841269899702275))
    q = fma_f64(r, q, float64(0.001388888888913476))
    q = fma_f64(r, q, float64(0.008333333333315715))
    q = fma_f64(r, q, float64(0.04166666666666603))
    q = fma_f64(r, q, float64(0.16666666666666685))
    q = fma_f64(r, q, float64(0.5))
    return fma_f64(r * r, q, r)


def exp_f32(x: f32) -> f32:
    """The exponential of x."""
    x = select(x > float32(89.0), float32(89.0), x)
    x = select(x < float32(-104.0), float32(-104.0), x)
    n = round_f32(x * float32(1.442695))
    r = fma_f32(n, float32(1.9046542e-09), fma_f32(n, float32(-0.6931472), x))
    return scale_f32(float32(1.0) + exp_reduced_f32(r), int32(n))


def exp_f64(x: f64) -> f64:
    """The exponential of x."""
    x = select(x > float64(710.0), float64(710.0), x)
    x = select(x < float64(-746.0), float64(-746.0), x)
    n = round_f64(x * float64(1.4426950408889634))
    r = fma_f64(n, float64(-2.3190468138462996e-17), fma_f64(n, float64(-0.6931471805599453), x))
    return scale_f64(float64(1.0) + exp_reduced_f64(r), int64(int32(n)))


def exp_sum_f32(h: f32, tail: f32) -> f32:
    """exp(h + tail) for |tail| far below |h|."""
    h = select(h > float32(89.0), float32(89.0), h)
    h = select(h < float32(-104.0), float32(-104.0), h)
    # Only where h is clamped is the tail not small.
    tail = select((h < float32(89.0)) & (h > float32(-104.0)), tail, float32(0.0))
    n = round_f32(h * float32(1.442695))
    r = ((h - n * float32(0.693145751953125)) - n * float32(1.4286068e-06)) + tail
    return scale_f32(float32(1.0) + exp_reduced_f32(r), int32(n))


def exp_sum_f64(h: f64, tail: f64) -> f64:
    """exp(h + tail) for |tail| far below |h|."""
    h = select(h > float64(720.0), float64(720.0), h)
    h = select(h < float64(-760.0), float64(-760.0), h)
    # Only where h is clamped is the tail not small.
    tail = select((h < float64(720.0)) & (h > float64(-760.0)), tail, float64(0.0))
    n = round_f64(h * float64(1.4426950408889634))
    r = ((h - n * float64(0.6931471805592082)) - n * float64(7.371002565167799e-13)) + tail
    return scale_f64(float64(1.0) + exp_reduced_f64(r), int64(int32(n)))


def exp_bounded_f32(x: f32) -> f32:
    """exp(x) for |x| <= 87, where one power of two suffices; nan stays nan."""
    n = round_f32(x * float32(1.442695))
    r = fma_f32(n, float32(1.9046542e-09), fma_f32(n, float32(-0.6931472), x))
    return (float32(1.0) + exp_reduced_f32(r)) * power_of_two_f32(int32(n))


def exp2_f32(x: f32) -> f32:
    """Two to the power x."""
    x = select(x > float32(129.0), float32(129.0), x)
    x = select(x < float32(-151.0), float32(-151.0), x)
    n = round_f32(x)
    r = (x - n) * float32(0.6931472)
    return scale_f32(float32(1.0) + exp_reduced_f32(r), int32(n))


def exp2_f64(x: f64) -> f64:
    """Two to the power x."""
    x = select(x > float64(1025.0), float64(1025.0), x)
    x = select(x < float64(-1076.0), float64(-1076.0), x)
    n = round_f64(x)
    r = (x - n) * float64(0.6931471805599453)
    return scale_f64(float64(1.0) + exp_reduced_f64(r), int64(int32(n)))


def expm1_f32(x: f32) -> f32:
    """exp(x) - 1 without cancellation near zero."""
    v = select(x > float32(89.0), float32(89.0), x)
    v = select(v < float32(-20.0), float32(-20.0), v)
    n = round_f32(v * float32(1.442695))
    r = fma_f32(n, float32(1.9046542e-09), fma_f32(n, float32(-0.6931472), v))
    q = float32(0.00019964391)
    q = fma_f32(r, q, float32(0.0013944306))
    q = fma_f32(r, q, float32(0.0083332155))
    q = fma_f32(r, q, float32(0.041666314))
    q = fma_f32(r, q, float32(0.16666667))
    q = fma_f32(r, q, float32(0.5))
    # Half the result first: 2^128 is not a float, and the sum must be formed before the last doubling.
    s = power_of_two_f32(int32(n) - int32(1))
    y = s * (r + r * r * q) + (s - float32(0.5))
    y = select(v > float32(88.72284), float32(inf), y + y)
    return select(fabs_f32(x) < float32(1e-8), x, y)


def expm1_f64(x: f64) -> f64:
    """exp(x) - 1 without cancellation near zero."""
    v = select(x > float64(710.0), float64(710.0), x)
    v = select(v < float64(-40.0), float64(-40.0), v)
    n = round_f64(v * float64(1.4426950408889634))
    r = fma_f64(n, float64(-2.3190468138462996e-17), fma_f64(n, float64(-0.6931471805599453), v))
    q = float64(1.612143759613238e-10)
    q = fma_f64(r, q, float64(2.092354783307186e-09))
    q = fma_f64(r, q, float64(2.505196167587932e-08))
    q = fma_f64(r, q, float64(2.7557245842370414e-07))
    q = fma_f64(r, q, float64(2.7557319371146784e-06))
    q = fma_f64(r, q, float64(2.4801587356830706e-05))
    q = fma_f64(r, q, float64(0.00019841269841202583))
    q = fma_f64(r, q, float64(0.0013888888888868671))
    q = fma_f64(r, q, float64(0.008333333333333345))
    q = fma_f64(r, q, float64(0.0416666666666667))
    q = fma_f64(r, q, float64(0.16666666666666666))
    q = fma_f64(r, q, float64(0.5))
    s = power_of_two_f64(int64(int32(n)) - int64(1))
    y = s * (r + r * r * q) + (s - float64(0.5))
    y = select(v > float64(709.782712893384), float64(inf), y + y)
    return select(fabs_f64(x) < float64(1e-17), x, y)


def sigmoid_f32(x: f32) -> f32:
    """1 / (1 + exp(-x)), also where exp(-x) overflows."""
    negative = x < float32(0.0)
    e = exp_f32(-fabs_f32(x))
    d = float32(1.0) + e
    y = select(negative, e, float32(1.0)) / d
    # Undo the rounding of the sum: y changes by -y / d times what the sum lost, and 1 / d is y or 1 - y.
    return y - y * select(negative, float32(1.0) - y, y) * (e - (d - float32(1.0)))


def sigmoid_f64(x: f64) -> f64:
    """1 / (1 + exp(-x)), also where exp(-x) overflows."""
    negative = x < float64(0.0)
    e = exp_f64(-fabs_f64(x))
    d = float64(1.0) + e
    y = select(negative, e, float64(1.0)) / d
    # Undo the rounding of the sum: y changes by -y / d times what the sum lost, and 1 / d is y or 1 - y.
    return y - y * select(negative, float64(1.0) - y, y) * (e - (d - float64(1.0)))
