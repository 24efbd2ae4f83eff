"""pow and rsqrt. The logarithm is carried to more than the result's precision, since the power magnifies its error.

Single precision computes exp(y log(x)) in double precision. Double precision carries log(x) as an unevaluated sum of
two doubles (about 2^-64 relative): the quotient s = (m - 1) / (m + 1) and the two leading terms of the series in s are
formed with exact products: a fused multiply-add gives what a product's rounding lost.
"""

from __future__ import annotations

from tracejit.scalar_math.exponential import exp_sum_f64
from tracejit.scalar_math.logarithm import exponent_f64, mantissa_f64
from tracejit.scalar_math.primitives import (
    copysign_f64,
    f32,
    f64,
    f64_from_bits,
    fabs_f64,
    float32,
    float64,
    floor_f64,
    fma_f64,
    inf,
    int32,
    int64,
    nan,
    round_f64,
    select,
    sqrt_f32,
    sqrt_f64,
    uint64,
)


def rsqrt_f32(x: f32) -> f32:
    """1 / sqrt(x)."""
    return float32(1.0) / sqrt_f32(x)


def rsqrt_f64(x: f64) -> f64:
    """1 / sqrt(x)."""
    return float64(1.0) / sqrt_f64(x)


def product_error_f64(a: f64, b: f64, p: f64) -> f64:
    """a b - p where p = a * b rounded."""
    return fma_f64(a, b, -p)


def power_magnitude_f64(x: f64, y: f64) -> f64:
    """x^y for x > 0 (finite or not), through log(x) as a sum of two doubles."""
    m = mantissa_f64(x)
    e = exponent_f64(x)
    # s = (m - 1) / (m + 1) = sh + sl
    u = m - float64(1.0)
    v = m + float64(1.0)
    v_tail = m - (v - float64(1.0))
    sh = u / v
    sl = fma_f64(-sh, v_tail, fma_f64(-sh, v, u)) / v
    # z = s^2 = zh + zl, and r = z (2/3 + z (2/5 + ...)) = rh + rl
    zh = sh * sh
    zl = fma_f64(sh + sh, sl, fma_f64(sh, sh, -zh))
    q = float64(0.1319759304192768)
    q = fma_f64(zh, q, float64(0.13256687924096636))
    q = fma_f64(zh, q, float64(0.15386762602981635))
    q = fma_f64(zh, q, float64(0.18181784260027722))
    q = fma_f64(zh, q, float64(0.2222222252105213))
    q = fma_f64(zh, q, float64(0.28571428570093854))
    q = fma_f64(zh, q, float64(0.40000000000002267))
    t = zh * q
    ch = float64(0.6666666666666666) + t
    cl = (float64(0.6666666666666666) - ch) + t + float64(3.700743415417188e-17)
    rh = zh * ch
    rl = fma_f64(zh, ch, -rh) + fma_f64(zh, cl, zl * ch)
    # log(m) = s (2 + r), and log(x) = e log(2) + log(m) = lh + ll
    wh = float64(2.0) + rh
    wl = (float64(2.0) - wh) + rh + rl
    mh = sh * wh
    ml = fma_f64(sh, wh, -mh) + fma_f64(sh, wl, sl * wh)
    a = e * float64(0.6931471805592082)
    b = a + mh
    low = ((a - b) + mh) + fma_f64(e, float64(7.371002565167799e-13), ml)
    lh = b + low
    ll = (b - lh) + low
    lh = select(x == float64(0.0), float64(-inf), select(x == float64(inf), float64(inf), lh))
    h = y * lh
    return exp_sum_f64(h, product_error_f64(y, lh, h) + y * ll)


def power_limits_f64(x: f64, y: f64, magnitude: f64) -> f64:
    """The sign and the exceptional values of C's pow, given |x|^|y| for the ordinary ones."""
    whole = floor_f64(y) == y
    half = y * float64(0.5)
    odd = whole & (floor_f64(half) != half)
    negative = copysign_f64(float64(1.0), x) < float64(0.0)
    value = select(fabs_f64(x) == float64(1.0), select(y == y, float64(1.0), y), magnitude)
    value = select(negative & odd, -value, value)
    value = select((x < float64(0.0)) & (x > float64(-inf)) & ~whole, float64(nan), value)
    value = select((x != x) | (y != y), x + y, value)
    return select((x == float64(1.0)) | (y == float64(0.0)), float64(1.0), value)


def pow_f64(x: f64, y: f64) -> f64:
    """x to the power y, with the special cases of C."""
    return power_limits_f64(x, y, power_magnitude_f64(fabs_f64(x), y))


def pow_f32(x: f32, y: f32) -> f32:
    """x to the power y, with the special cases of C, through a double-precision logarithm and exponential."""
    a = float64(x)
    b = float64(y)
    base = fabs_f64(a)
    m = mantissa_f64(base)
    s = (m - float64(1.0)) / (m + float64(1.0))
    z = s * s
    r = float64(0.23583464484726632)
    r = fma_f64(z, r, float64(0.28537245889202495))
    r = fma_f64(z, r, float64(0.40000336061298936))
    r = fma_f64(z, r, float64(0.6666666564205034))
    log = s * fma_f64(z, r, float64(2.0))
    log = fma_f64(exponent_f64(base), float64(0.6931471805599453), log)
    log = select(base == float64(0.0), float64(-inf), log)
    h = b * select(base == float64(inf), float64(inf), log)
    h = select(h > float64(120.0), float64(120.0), h)
    h = select(h < float64(-120.0), float64(-120.0), h)
    n = round_f64(h * float64(1.4426950408889634))
    d = fma_f64(n, float64(-0.6931471805599453), h)
    q = float64(0.0001978931820212307)
    q = fma_f64(d, q, float64(0.0013945747624859053))
    q = fma_f64(d, q, float64(0.00833350366879351))
    q = fma_f64(d, q, float64(0.04166628041649018))
    q = fma_f64(d, q, float64(0.1666666582027748))
    q = fma_f64(d, q, float64(0.5000000071624352))
    y_m = fma_f64(d, fma_f64(d, q, float64(1.0)), float64(1.0))
    # 2^n as a double: the one rounding to single precision then also rounds a subnormal result correctly.
    scaled = y_m * f64_from_bits(uint64((int64(int32(n)) + int64(1023)) << int64(52)))
    return float32(power_limits_f64(a, b, scaled))
