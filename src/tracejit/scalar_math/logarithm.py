"""log, log2, log10, log1p and logaddexp, in single and double precision.

x = m 2^e with 2/3 <= m < 4/3 in single and sqrt(1/2) <= m < sqrt(2) in double precision; subnormal x is scaled up
first. In single precision log(1 + f), f = m - 1, is f - f^2/2 + f^3 P(f); in double precision it follows from the
series in s = f / (2 + f), whose leading terms are combined so that the rounding of f^2/2 is the only one that counts.
"""

from __future__ import annotations

from tracejit.scalar_math.exponential import exp_f32, exp_f64
from tracejit.scalar_math.primitives import (
    bits_f32,
    bits_f64,
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
    nan,
    select,
    uint32,
    uint64,
)


def normal_bits_f32(x: f32) -> i32:
    """Bits of x (of 2^24 x if x is subnormal) less those of 2/3: the exponent of x is in the top nine."""
    small = x < float32(1.1754944e-38)
    bits = bits_f32(select(small, x * float32(16777216.0), x))
    return int32(uint32(bits - uint32(0x3F2AAAAB)))


def normal_bits_f64(x: f64) -> i64:
    """Bits of x (of 2^54 x if x is subnormal) less those of sqrt(1/2): the exponent of x is in the top twelve."""
    small = x < float64(2.2250738585072014e-308)
    bits = bits_f64(select(small, x * float64(18014398509481984.0), x))
    return int64(uint64(bits - uint64(0x3FE6A09E667F3BCD)))


def mantissa_f32(x: f32) -> f32:
    """m of x = m 2^e with 2/3 <= m < 4/3, for x > 0."""
    bits = uint32(normal_bits_f32(x) & int32(0x7FFFFF))
    return f32_from_bits(uint32(bits + uint32(0x3F2AAAAB)))


def mantissa_f64(x: f64) -> f64:
    """m of x = m 2^e with sqrt(1/2) <= m < sqrt(2), for x > 0."""
    bits = uint64(normal_bits_f64(x) & int64(0xFFFFFFFFFFFFF))
    return f64_from_bits(uint64(bits + uint64(0x3FE6A09E667F3BCD)))


def exponent_f32(x: f32) -> f32:
    """e of x = m 2^e with 2/3 <= m < 4/3, for x > 0."""
    e = float32(normal_bits_f32(x) >> int32(23))
    return select(x < float32(1.1754944e-38), e - float32(24.0), e)


def exponent_f64(x: f64) -> f64:
    """e of x = m 2^e with sqrt(1/2) <= m < sqrt(2), for x > 0."""
    e = float64(int32(normal_bits_f64(x) >> int64(52)))
    return select(x < float64(2.2250738585072014e-308), e - float64(54.0), e)


def log_limits_f32(x: f32, finite: f32) -> f32:
    """`finite` for finite x > 0, and a logarithm's values elsewhere."""
    y = select(x == float32(0.0), float32(-inf), select(x < float32(0.0), float32(nan), finite))
    return select(x < float32(inf), y, x)


def log_limits_f64(x: f64, finite: f64) -> f64:
    """`finite` for finite x > 0, and a logarithm's values elsewhere."""
    y = select(x == float64(0.0), float64(-inf), select(x < float64(0.0), float64(nan), finite))
    return select(x < float64(inf), y, x)


def log_sum_f32(m: f32, e: f32) -> f32:
    """log(m 2^e) for 2/3 <= m < 4/3 and integral e."""
    f = m - float32(1.0)
    p = float32(-0.12880033)
    p = fma_f32(f, p, float32(0.13984594))
    p = fma_f32(f, p, float32(-0.1218748))
    p = fma_f32(f, p, float32(0.14005734))
    p = fma_f32(f, p, float32(-0.16680196))
    p = fma_f32(f, p, float32(0.20010427))
    p = fma_f32(f, p, float32(-0.24999806))
    p = fma_f32(f, p, float32(0.33333215))
    p = fma_f32(f, p, float32(-0.5))
    return fma_f32(e, float32(0.6931472), fma_f32(f * f, p, f))


def log_series_f64(f: f64, s: f64) -> f64:
    """s (f^2/2 + R): what log(1 + f) is above f - f^2/2, where s = f / (2 + f)."""
    z = s * s
    r = float64(0.13252655539630645)
    r = fma_f64(z, r, float64(0.13249973110053928))
    r = fma_f64(z, r, float64(0.15387097154380167))
    r = fma_f64(z, r, float64(0.18181775519919602))
    r = fma_f64(z, r, float64(0.2222222264860881))
    r = fma_f64(z, r, float64(0.28571428569073887))
    r = fma_f64(z, r, float64(0.40000000000006286))
    r = fma_f64(z, r, float64(0.6666666666666666))
    return s * fma_f64(z, r, float64(0.5) * f * f)


def log_sum_f64(m: f64, e: f64) -> f64:
    """log(m 2^e) for sqrt(1/2) <= m < sqrt(2) and integral e."""
    f = m - float64(1.0)
    series = log_series_f64(f, f / (float64(2.0) + f))
    tail = fma_f64(e, float64(7.371002565167799e-13), series)
    return fma_f64(e, float64(0.6931471805592082), f - (float64(0.5) * f * f - tail))


def log_f32(x: f32) -> f32:
    """The natural logarithm of x."""
    return log_limits_f32(x, log_sum_f32(mantissa_f32(x), exponent_f32(x)))


def log_f64(x: f64) -> f64:
    """The natural logarithm of x."""
    return log_limits_f64(x, log_sum_f64(mantissa_f64(x), exponent_f64(x)))


def log2_f32(x: f32) -> f32:
    """The logarithm of x to base two, exact for powers of two."""
    y = log_sum_f32(mantissa_f32(x), float32(0.0))
    tail = fma_f32(y, float32(1.925963e-08), exponent_f32(x))
    return log_limits_f32(x, fma_f32(y, float32(1.442695), tail))


def log2_f64(x: f64) -> f64:
    """The logarithm of x to base two, exact for powers of two."""
    y = log_sum_f64(mantissa_f64(x), float64(0.0))
    y = fma_f64(y, float64(1.4426950408889634), y * float64(2.0355273740931033e-17))
    return log_limits_f64(x, exponent_f64(x) + y)


def log10_f32(x: f32) -> f32:
    """The logarithm of x to base ten."""
    y = log_sum_f32(mantissa_f32(x), float32(0.0))
    e = exponent_f32(x)
    tail = fma_f32(y, float32(0.4342945), y * float32(-1.010305e-08))
    tail = fma_f32(e, float32(4.605039e-06), tail)
    return log_limits_f32(x, fma_f32(e, float32(0.301025390625), tail))


def log10_f64(x: f64) -> f64:
    """The logarithm of x to base ten."""
    y = log_sum_f64(mantissa_f64(x), float64(0.0))
    e = exponent_f64(x)
    tail = fma_f64(y, float64(0.4342944819032518), y * float64(1.098319650216765e-17))
    tail = fma_f64(e, float64(3.694239077158931e-13), tail)
    return log_limits_f64(x, fma_f64(e, float64(0.30102999566361177), tail))


def log1p_f32(x: f32) -> f32:
    """log(1 + x) without cancellation near zero."""
    u = float32(1.0) + x
    # What the sum lost, to first order; the larger operand decides which difference is exact.
    lost = select(x < float32(1.0), x - (u - float32(1.0)), float32(1.0) - (u - x))
    y = log_sum_f32(mantissa_f32(u), exponent_f32(u)) + lost / u
    y = select(fabs_f32(x) < float32(2e-08), x, y)
    return select(x == float32(-1.0), float32(-inf), log_limits_f32(u, y))


def log1p_f64(x: f64) -> f64:
    """log(1 + x) without cancellation near zero."""
    u = float64(1.0) + x
    lost = select(x < float64(1.0), x - (u - float64(1.0)), float64(1.0) - (u - x))
    y = log_sum_f64(mantissa_f64(u), exponent_f64(u)) + lost / u
    y = select(fabs_f64(x) < float64(4e-17), x, y)
    return select(x == float64(-1.0), float64(-inf), log_limits_f64(u, y))


def logaddexp_f32(x: f32, y: f32) -> f32:
    """log(exp(x) + exp(y)) without overflow; equal infinities give that infinity."""
    high = select(x != x, x, select(x > y, x, y))
    distance = select(x == y, float32(0.0), -fabs_f32(x - y))
    return high + log1p_f32(exp_f32(distance))


def logaddexp_f64(x: f64, y: f64) -> f64:
    """log(exp(x) + exp(y)) without overflow; equal infinities give that infinity."""
    high = select(x != x, x, select(x > y, x, y))
    distance = select(x == y, float64(0.0), -fabs_f64(x - y))
    return high + log1p_f64(exp_f64(distance))


def xlogy_f32(x: f32, y: f32) -> f32:
    """x log(y); 0 for x = 0 unless y is nan."""
    return select((x == float32(0.0)) & (y == y), float32(0.0), x * log_f32(y))


def xlogy_f64(x: f64, y: f64) -> f64:
    """x log(y); 0 for x = 0 unless y is nan."""
    return select((x == float64(0.0)) & (y == y), float64(0.0), x * log_f64(y))


def xlog1py_f32(x: f32, y: f32) -> f32:
    """x log(1 + y); 0 for x = 0 unless y is nan."""
    return select((x == float32(0.0)) & (y == y), float32(0.0), x * log1p_f32(y))


def xlog1py_f64(x: f64, y: f64) -> f64:
    """x log(1 + y); 0 for x = 0 unless y is nan."""
    return select((x == float64(0.0)) & (y == y), float64(0.0), x * log1p_f64(y))


def entr_f32(x: f32) -> f32:
    """-x log(x); 0 at zero, -inf below."""
    below = select(x == float32(0.0), float32(0.0), -float32(inf))
    return select(x != x, x, select(x > float32(0.0), -(x * log_f32(x)), below))


def entr_f64(x: f64) -> f64:
    """-x log(x); 0 at zero, -inf below."""
    below = select(x == float64(0.0), float64(0.0), -float64(inf))
    return select(x != x, x, select(x > float64(0.0), -(x * log_f64(x)), below))
