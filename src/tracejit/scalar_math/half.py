"""Half-precision storage types: bfloat16 conversions by bit arithmetic, and rounding of single precision values."""

from __future__ import annotations

from tracejit.scalar_math.primitives import (
    bits_f32,
    f16_from_f32,
    f32,
    f32_from_bits,
    f32_from_f16,
    select,
    u16,
    uint16,
    uint32,
)


def f32_from_bf16(bits: u16) -> f32:
    """The value of a bfloat16 given by its bit pattern."""
    return f32_from_bits(uint32(uint32(bits) << uint32(16)))


def bf16_from_f32(x: f32) -> u16:
    """The bit pattern of x rounded to bfloat16, to nearest, ties to even; a nan stays a quiet nan."""
    bits = bits_f32(x)
    odd = (bits >> uint32(16)) & uint32(1)
    rounded = uint32(bits + uint32(0x7FFF) + odd) >> uint32(16)
    quiet = (bits >> uint32(16)) | uint32(0x40)
    return uint16(select(x != x, quiet, rounded))


def round_bf16(x: f32) -> f32:
    """x rounded to bfloat16 precision."""
    return f32_from_bf16(bf16_from_f32(x))


def round_f16(x: f32) -> f32:
    """x rounded to half precision."""
    return f32_from_f16(f16_from_f32(x))
