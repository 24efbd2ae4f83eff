"""Half-precision storage types: conversions by bit arithmetic, and rounding of single precision values.

Not every processor converts IEEE halves in hardware, and the software routine LLVM would call for the others is not
part of a process, so both formats are converted here. Half a dozen integer operations vectorise and cost little.
"""

from __future__ import annotations

from tracejit.scalar_math.primitives import (
    bits_f32,
    f32,
    f32_from_bits,
    float32,
    select,
    u16,
    uint16,
    uint32,
)


def f32_from_f16(bits: u16) -> f32:
    """The value of an IEEE half given by its bit pattern."""
    wide = uint32(bits)
    magnitude = uint32((wide & uint32(0x7FFF)) << uint32(13))
    # The exponent's bias differs by 112; a product corrects it for subnormal halves too, exactly.
    finite = bits_f32(f32_from_bits(magnitude) * float32(5.192296858534828e33))
    limit = magnitude >= uint32(0x0F800000)
    sign = uint32((wide & uint32(0x8000)) << uint32(16))
    return f32_from_bits(select(limit, magnitude | uint32(0x7F800000), finite) | sign)


def f16_from_f32(x: f32) -> u16:
    """The bit pattern of x rounded to IEEE half, to nearest, ties to even; a nan stays a quiet nan."""
    bits = bits_f32(x)
    magnitude = bits & uint32(0x7FFFFFFF)
    odd = (magnitude >> uint32(13)) & uint32(1)
    # The exponent's bias differs by 112.
    normal = uint32(magnitude + uint32(0xC8000FFF) + odd) >> uint32(13)
    # The last place of 1/2 is that of a subnormal half, so this sum rounds as it should.
    shifted = f32_from_bits(magnitude) + float32(0.5)
    subnormal = uint32(bits_f32(shifted) - uint32(0x3F000000))
    value = select(magnitude < uint32(0x38800000), subnormal, normal)
    value = select(magnitude >= uint32(0x47800000), uint32(0x7C00), value)
    value = select(x != x, uint32(0x7E00), value)
    return uint16(value | ((bits >> uint32(16)) & uint32(0x8000)))


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
