"""What a processor without the instruction does instead: the fused multiply-add and the exact scaling by 2^n.

The lowering calls these where the target lacks the instruction, with the same result bit for bit.
"""

from __future__ import annotations

from tracejit.scalar_math.primitives import (
    bits_f64,
    f32,
    f32_from_bits,
    f64,
    f64_from_bits,
    fabs_f64,
    float32,
    float64,
    i32,
    inf,
    int32,
    int64,
    select,
    uint32,
    uint64,
)


def unfused_fma_f32(a: f32, b: f32, c: f32) -> f32:
    """a * b + c rounded once: the sum is rounded to odd in double precision, where the product is exact."""
    product = float64(a) * float64(b)
    wide = float64(c)
    total = product + wide
    part = total - product
    lost = (product - (total - part)) + (wide - part)
    inexact = (lost != float64(0.0)) & (fabs_f64(lost) < float64(inf))
    inwards = (lost < float64(0.0)) ^ (total < float64(0.0))
    bits = bits_f64(total)
    odd = select(inwards, bits - uint64(1), bits + uint64(1))
    even = (bits & uint64(1)) == uint64(0)
    return float32(f64_from_bits(select(inexact & even, odd, bits)))


def power_of_two_f32(n: i32) -> f32:
    """2^n for -126 <= n <= 127."""
    return f32_from_bits(uint32((n + int32(127)) << int32(23)))


def power_of_two_f64(n: i32) -> f64:
    """2^n for -1022 <= n <= 1023."""
    return f64_from_bits(uint64(int64(n + int32(1023)) << int64(52)))


def scale_f32(x: f32, n: i32) -> f32:
    """x 2^n for |n| <= 252, rounded once even when the result is subnormal."""
    half = n >> int32(1)
    return x * power_of_two_f32(half) * power_of_two_f32(n - half)


def scale_f64(x: f64, n: i32) -> f64:
    """x 2^n for |n| <= 2044, rounded once even when the result is subnormal."""
    half = n >> int32(1)
    return x * power_of_two_f64(half) * power_of_two_f64(n - half)
