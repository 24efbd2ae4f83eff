"""Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011), uniform and normal deviates.

A draw depends on (seed, offset, index) only: the key is the seed, the counter is the element's index and the offset of
the drawing operation. So any thread count, any fusion and eager code draw the same bits.
"""

from __future__ import annotations

from tracejit.scalar_math.plain import (
    plain_cos_reduced_f32,
    plain_cos_reduced_f64,
    plain_log_f32,
    plain_log_f64,
    plain_sin_reduced_f32,
    plain_sin_reduced_f64,
)
from tracejit.scalar_math.primitives import (
    bits_f32,
    bits_f64,
    f32,
    f32_from_bits,
    f64,
    f64_from_bits,
    float32,
    float64,
    int32,
    int64,
    select,
    sqrt_f32,
    sqrt_f64,
    u32,
    u64,
    uint32,
    uint64,
)


def mulhi_u32(a: u32, b: u32) -> u32:
    """The upper 32 bits of the product."""
    return uint32((uint64(a) * uint64(b)) >> uint64(32))


def philox_u32(seed: u64, offset: u64, index: u64, word: u32) -> u32:
    """Word 0..3 of the Philox4x32-10 block of counter (index, offset) and key seed."""
    a = uint32(index & uint64(0xFFFFFFFF))
    b = uint32(index >> uint64(32))
    c = uint32(offset & uint64(0xFFFFFFFF))
    d = uint32(offset >> uint64(32))
    k = uint32(seed & uint64(0xFFFFFFFF))
    m = uint32(seed >> uint64(32))
    for _ in range(10):
        p = uint64(0xD2511F53) * uint64(a)
        q = uint64(0xCD9E8D57) * uint64(c)
        a = uint32(uint32(q >> uint64(32)) ^ b ^ k)
        b = uint32(q & uint64(0xFFFFFFFF))
        c = uint32(uint32(p >> uint64(32)) ^ d ^ m)
        d = uint32(p & uint64(0xFFFFFFFF))
        k = uint32(k + uint32(0x9E3779B9))
        m = uint32(m + uint32(0xBB67AE85))
    low = select(word == uint32(0), a, b)
    return select(word < uint32(2), low, select(word == uint32(2), c, d))


def uniform_f32(bits: u32) -> f32:
    """A multiple of 2^-24 in [0, 1)."""
    return float32(int32(bits >> uint32(8))) * float32(5.9604645e-08)


def uniform_f64(high: u32, low: u32) -> f64:
    """A multiple of 2^-53 in [0, 1)."""
    bits = (uint64(high) << uint64(21)) | (uint64(low) >> uint64(11))
    return float64(int64(bits)) * float64(1.1102230246251565e-16)


def cos_turn_f32(bits: u32) -> f32:
    """cos(2 pi bits / 2^32)."""
    n = uint32(bits + uint32(0x20000000)) >> uint32(30)
    fraction = int32(uint32(bits - uint32(n << uint32(30))))
    # pi/2 2^-30
    r = float32(fraction) * float32(1.462918e-09)
    y = select((n & uint32(1)) == uint32(0), plain_cos_reduced_f32(r), plain_sin_reduced_f32(r))
    flip = uint32(((n + uint32(1)) >> uint32(1)) << uint32(31))
    return f32_from_bits(bits_f32(y) ^ flip)


def cos_turn_f64(bits: u64) -> f64:
    """cos(2 pi bits / 2^64)."""
    n = uint64(bits + uint64(0x2000000000000000)) >> uint64(62)
    fraction = int64(uint64(bits - uint64(n << uint64(62))))
    # pi/2 2^-62
    r = float64(fraction) * float64(3.4061215800865545e-19)
    zero = float64(0.0)
    even = (n & uint64(1)) == uint64(0)
    y = select(even, plain_cos_reduced_f64(r, zero), plain_sin_reduced_f64(r, zero))
    flip = uint64(((n + uint64(1)) >> uint64(1)) << uint64(63))
    return f64_from_bits(bits_f64(y) ^ flip)


def normal_f32(a: u32, b: u32) -> f32:
    """A standard normal deviate of two random words (Box and Muller)."""
    # In (0, 1], so the logarithm is finite.
    u = float32(int32(a >> uint32(8)) + int32(1)) * float32(5.9604645e-08)
    return sqrt_f32(float32(-2.0) * plain_log_f32(u)) * cos_turn_f32(b)


def normal_f64(a: u32, b: u32, c: u32, d: u32) -> f64:
    """A standard normal deviate of four random words (Box and Muller)."""
    bits = (uint64(a) << uint64(21)) | (uint64(b) >> uint64(11))
    u = float64(int64(bits) + int64(1)) * float64(1.1102230246251565e-16)
    turn = (uint64(c) << uint64(32)) | uint64(d)
    return sqrt_f64(float64(-2.0) * plain_log_f64(u)) * cos_turn_f64(turn)
