"""log, sin and cos without fused operations, for the random normal deviates that eager code draws through NumPy.

A fused multiply-add costs NumPy some twenty operations, and drawing is the one place where eager code evaluates these
functions. Compiled kernels use the same ones there, so that both draw the same bits.
"""

from __future__ import annotations

from tracejit.scalar_math.logarithm import exponent_f64, mantissa_f64
from tracejit.scalar_math.primitives import (
    bits_f32,
    f32,
    f32_from_bits,
    f64,
    float32,
    float64,
    int32,
    uint32,
)


def plain_log_f32(x: f32) -> f32:
    """The natural logarithm of a normal x > 0."""
    bits = int32(uint32(bits_f32(x) - uint32(0x3F3504F3)))
    e = float32(bits >> int32(23))
    m = f32_from_bits(uint32(uint32(bits & int32(0x7FFFFF)) + uint32(0x3F3504F3)))
    return plain_log_sum_f32(m, e)


def plain_log_f64(x: f64) -> f64:
    """The natural logarithm of a normal x > 0."""
    return plain_log_sum_f64(mantissa_f64(x), exponent_f64(x))


def plain_log_sum_f32(m: f32, e: f32) -> f32:
    """log(m 2^e) for sqrt(1/2) <= m < sqrt(2) and integral e."""
    f = m - float32(1.0)
    p = float32(0.06747533)
    p = float32(-0.116761304) + f * p
    p = float32(0.118879765) + f * p
    p = float32(-0.124054804) + f * p
    p = float32(0.14219566) + f * p
    p = float32(-0.16668004) + f * p
    p = float32(0.20002118) + f * p
    p = float32(-0.2500001) + f * p
    p = float32(0.33333313) + f * p
    z = f * f
    tail = z * (f * p) + e * float32(1.4286068e-06)
    return e * float32(0.693145751953125) + (f - (float32(0.5) * z - tail))


def plain_log_series_f64(f: f64, s: f64) -> f64:
    """s (f^2/2 + R): what log(1 + f) is above f - f^2/2, where s = f / (2 + f)."""
    z = s * s
    r = float64(0.13252655539630645)
    r = float64(0.13249973110053928) + z * r
    r = float64(0.15387097154380167) + z * r
    r = float64(0.18181775519919602) + z * r
    r = float64(0.2222222264860881) + z * r
    r = float64(0.28571428569073887) + z * r
    r = float64(0.40000000000006286) + z * r
    r = float64(0.6666666666666666) + z * r
    return s * (float64(0.5) * f * f + z * r)


def plain_log_sum_f64(m: f64, e: f64) -> f64:
    """log(m 2^e) for sqrt(1/2) <= m < sqrt(2) and integral e."""
    f = m - float64(1.0)
    tail = plain_log_series_f64(f, f / (float64(2.0) + f)) + e * float64(7.371002565167799e-13)
    return e * float64(0.6931471805592082) - ((float64(0.5) * f * f - tail) - f)


def plain_sin_reduced_f32(r: f32) -> f32:
    """sin(r) for |r| <= pi/4."""
    z = r * r
    p = float32(-0.00019516973)
    p = float32(0.008332176) + z * p
    p = float32(-0.16666655) + z * p
    return r + r * (z * p)


def plain_sin_reduced_f64(r: f64, tail: f64) -> f64:
    """sin(r + tail) for |r| <= pi/4 and a tail below r's last place."""
    z = r * r
    p = float64(1.5896681251573867e-10)
    p = float64(-2.5050756259727743e-08) + z * p
    p = float64(2.7557313680926464e-06) + z * p
    p = float64(-0.00019841269829778922) + z * p
    p = float64(0.008333333333322382) + z * p
    p = float64(-0.16666666666666632) + z * p
    return r + (r * (z * p) + tail * (float64(1.0) - float64(0.5) * z))


def plain_cos_reduced_f32(r: f32) -> f32:
    """cos(r) for |r| <= pi/4."""
    z = r * r
    p = float32(2.443803e-05)
    p = float32(-0.0013887364) + z * p
    p = float32(0.041666646) + z * p
    return float32(1.0) - (float32(0.5) * z - z * (z * p))


def plain_cos_reduced_f64(r: f64, tail: f64) -> f64:
    """cos(r + tail) for |r| <= pi/4 and a tail below r's last place."""
    z = r * r
    p = float64(-1.1359557573548717e-11)
    p = float64(2.0875721596797642e-09) + z * p
    p = float64(-2.755731434052955e-07) + z * p
    p = float64(2.480158728944338e-05) + z * p
    p = float64(-0.0013888888888874066) + z * p
    p = float64(0.0416666666666666) + z * p
    half = float64(0.5) * z
    w = float64(1.0) - half
    return w + (((float64(1.0) - w) - half) + (z * (z * p) - r * tail))
