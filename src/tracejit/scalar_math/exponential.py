"""exp, exp2, expm1 and sigmoid, in single and double precision.

All reduce x = n log(2) + r, |r| <= log(2)/2, with log(2) as a sum of two numbers, and evaluate (exp(r) - 1 - r) / r^2
by a polynomial fitted for this package (minimax, weighted for relative error). Powers of two are applied with one
rounding, also where the result is subnormal. Where it is zero nothing is scaled: Intel CPUs take more than a hundred
cycles to scale a vector one of whose numbers becomes subnormal or zero, and masked scores are full of such numbers.
"""

from __future__ import annotations

from tracejit.scalar_math.primitives import (
    bits_f32,
    f32,
    f64,
    fabs_f32,
    fabs_f64,
    float32,
    float64,
    fma_f32,
    fma_f64,
    i32,
    inf,
    int32,
    ldexp_f32,
    ldexp_f64,
    round_f32,
    round_f64,
    select,
    uint32,
)
from tracejit.scalar_math.unfused import power_of_two_f32, power_of_two_f64


def shifted_f32(x: f32) -> f32:
    """x + 3 2^22 for |x| < 2^21, whose lowest bits are the integer nearest to x.

    For powers of two made of bits this takes less than to round and to convert; scaling by 2^n takes n as it is.
    """
    return x + float32(12582912.0)


def whole_f32(shifted: f32) -> f32:
    """The integer in the lowest bits of a shifted number."""
    return shifted - float32(12582912.0)


def integer_f32(shifted: f32) -> i32:
    """The same as an integer; any for nan."""
    return int32(uint32(bits_f32(shifted) - uint32(0x4B400000)))


def exp_reduced_f32(r: f32) -> f32:
    """exp(r) for |r| <= 0.35."""
    q = float32(0.0013820734)
    q = fma_f32(r, q, float32(0.008368677))
    q = fma_f32(r, q, float32(0.041668266))
    q = fma_f32(r, q, float32(0.16666521))
    q = fma_f32(r, q, float32(0.49999994))
    return fma_f32(r, fma_f32(r, q, float32(1.0)), float32(1.0))


def exp_reduced_f64(r: f64) -> f64:
    """exp(r) for |r| <= 0.35."""
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
    return fma_f64(r, fma_f64(r, q, float64(1.0)), float64(1.0))


def exp2_reduced_f32(r: f32) -> f32:
    """Two to the power r for |r| <= 1/2."""
    q = float32(0.00015326463)
    q = fma_f32(r, q, float32(0.0013390806))
    q = fma_f32(r, q, float32(0.009618506))
    q = fma_f32(r, q, float32(0.0555036))
    q = fma_f32(r, q, float32(0.24022648))
    q = fma_f32(r, q, float32(0.6931472))
    return fma_f32(r, q, float32(1.0))


def exp_above_f32(x: f32, least: f32) -> f32:
    """The exponential of x for x <= 89, zero for x below `least` >= -103.98; nan stays nan."""
    gone = (
        x < least
    )  # what is computed of these is any number, but for the power: nothing is scaled down
    shifted = fma_f32(x, float32(1.442695), float32(12582912.0))
    n = whole_f32(shifted)
    r = fma_f32(n, float32(1.9046542e-09), fma_f32(n, float32(-0.6931472), x))
    power = select(gone, int32(0), integer_f32(shifted))
    return select(gone, float32(0.0), ldexp_f32(exp_reduced_f32(r), power))


def exp_above_f64(x: f64, least: f64) -> f64:
    """The exponential of x for x <= 710, zero for x below `least` >= -745.14; nan stays nan."""
    gone = x < least
    x = select(gone, float64(0.0), x)
    n = round_f64(x * float64(1.4426950408889634))
    r = fma_f64(n, float64(-0.6931471805599453), x)
    r = fma_f64(n, float64(-2.3190468138462996e-17), r)
    return select(gone, float64(0.0), ldexp_f64(exp_reduced_f64(r), int32(n)))


def exp_bounded_f32(x: f32) -> f32:
    """The exponential of x for x <= 89; nan stays nan."""
    return exp_above_f32(x, float32(-103.98))


def exp_bounded_f64(x: f64) -> f64:
    """The exponential of x for x <= 710; nan stays nan."""
    return exp_above_f64(x, float64(-745.14))


def exp_f32(x: f32) -> f32:
    """The exponential of x."""
    return exp_bounded_f32(select(x > float32(89.0), float32(89.0), x))


def exp_f64(x: f64) -> f64:
    """The exponential of x."""
    return exp_bounded_f64(select(x > float64(710.0), float64(710.0), x))


def exp_sum_f32(h: f32, tail: f32) -> f32:
    """exp(h + tail) for h <= 0 and |tail| far below |h|."""
    gone = h < float32(-103.98)
    h = select(gone, float32(0.0), h)
    n = round_f32(h * float32(1.442695))
    r = fma_f32(n, float32(1.9046542e-09), fma_f32(n, float32(-0.6931472), h))
    r = r + select(gone, float32(0.0), tail)
    return select(gone, float32(0.0), ldexp_f32(exp_reduced_f32(r), int32(n)))


def exp_sum_f64(h: f64, tail: f64) -> f64:
    """exp(h + tail) for |tail| far below |h|."""
    gone = h < float64(-745.14)
    large = h > float64(720.0)
    h = select(large, float64(720.0), select(gone, float64(0.0), h))
    # Only where h is replaced is the tail not small.
    tail = select(gone | large, float64(0.0), tail)
    n = round_f64(h * float64(1.4426950408889634))
    r = fma_f64(n, float64(-0.6931471805599453), h)
    r = fma_f64(n, float64(-2.3190468138462996e-17), r) + tail
    return select(gone, float64(0.0), ldexp_f64(exp_reduced_f64(r), int32(n)))


def exp2_f32(x: f32) -> f32:
    """Two to the power x."""
    gone = x < float32(-150.5)
    x = select(x > float32(129.0), float32(129.0), select(gone, float32(0.0), x))
    n = round_f32(x)
    return select(gone, float32(0.0), ldexp_f32(exp2_reduced_f32(x - n), int32(n)))


def exp2_f64(x: f64) -> f64:
    """Two to the power x."""
    gone = x < float64(-1075.5)
    x = select(x > float64(1025.0), float64(1025.0), select(gone, float64(0.0), x))
    n = round_f64(x)
    y = ldexp_f64(exp_reduced_f64((x - n) * float64(0.6931471805599453)), int32(n))
    return select(gone, float64(0.0), y)


def expm1_reduced_f32(r: f32) -> f32:
    """exp(r) - 1 for |r| <= 0.35."""
    q = float32(0.00019964391)
    q = fma_f32(r, q, float32(0.0013944306))
    q = fma_f32(r, q, float32(0.0083332155))
    q = fma_f32(r, q, float32(0.041666314))
    q = fma_f32(r, q, float32(0.16666667))
    q = fma_f32(r, q, float32(0.5))
    return fma_f32(r * r, q, r)


def expm1_f32(x: f32) -> f32:
    """exp(x) - 1 without cancellation near zero."""
    v = select(x > float32(89.0), float32(89.0), x)
    v = select(v < float32(-20.0), float32(-20.0), v)
    t = shifted_f32(v * float32(1.442695))
    n = whole_f32(t)
    r = fma_f32(n, float32(1.9046542e-09), fma_f32(n, float32(-0.6931472), v))
    # Half the result first: 2^128 is not a float, and the sum must be formed before the last doubling.
    s = power_of_two_f32(integer_f32(t) - int32(1))
    y = fma_f32(s, expm1_reduced_f32(r), s - float32(0.5))
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
    s = power_of_two_f64(int32(n) - int32(1))
    y = fma_f64(s, fma_f64(r * r, q, r), s - float64(0.5))
    y = select(v > float64(709.782712893384), float64(inf), y + y)
    return select(fabs_f64(x) < float64(1e-17), x, y)


def sigmoid_f32(x: f32) -> f32:
    """1 / (1 + exp(-x)): zero where exp(-x) overflows."""
    e = exp_above_f32(-fabs_f32(x), float32(-88.72283))
    d = float32(1.0) + e
    negative = x < float32(0.0)
    y = select(negative, e, float32(1.0)) / d
    # Undo the rounding of the sum: y changes by -y / d times what the sum lost, and 1 / d is y or 1 - y.
    lost = e - (d - float32(1.0))
    return fma_f32(-y * select(negative, float32(1.0) - y, y), lost, y)


def sigmoid_f64(x: f64) -> f64:
    """1 / (1 + exp(-x)): zero where exp(-x) overflows."""
    e = exp_above_f64(-fabs_f64(x), float64(-709.782712893384))
    d = float64(1.0) + e
    negative = x < float64(0.0)
    y = select(negative, e, float64(1.0)) / d
    # Undo the rounding of the sum: y changes by -y / d times what the sum lost, and 1 / d is y or 1 - y.
    lost = e - (d - float64(1.0))
    return fma_f64(-y * select(negative, float64(1.0) - y, y), lost, y)
