"""Arguments of any size modulo pi/2, in fixed point (Payne and Hanek 1983).

The mantissa, an integer, is multiplied by the window of bits of 2/pi that its exponent selects; bits above the window
only add multiples of four quarter turns and are never formed. |x| < pi/4 is its own reduction.
"""

from __future__ import annotations

from tracejit.scalar_math.primitives import (
    bits_f32,
    bits_f64,
    f32,
    f64,
    fabs_f32,
    fabs_f64,
    float32,
    float64,
    fma_f64,
    i64,
    int64,
    select,
    two_over_pi_word,
    u64,
    uint32,
    uint64,
)


def window_f32(exponent: i64, first: u64, second: u64, third: u64, fourth: u64) -> u64:
    """64 bits of 2/pi, `exponent - 88` bits into the given words (at most two words and 39 bits)."""
    start = exponent - int64(88)
    start = select(start < int64(0), int64(0), start)
    one = start >= int64(64)
    two = start >= int64(128)
    shift = uint64(start & int64(63))
    high = select(two, third, select(one, second, first)) << shift
    next_word = select(two, fourth, select(one, third, second))
    return high | ((next_word >> uint64(1)) >> (uint64(63) - shift))


def turn_bits_f32(x: f32) -> u64:
    """|x| in quarter turns modulo four, as fixed point with 62 fraction bits, for |x| >= 1/2."""
    bits = bits_f32(x) & uint32(0x7FFFFFFF)
    exponent = int64(bits >> uint32(23))
    mantissa = uint64((bits & uint32(0x7FFFFF)) | uint32(0x800000))
    # Words of 2/pi after one of zeros; selecting among constants is faster than gathering from a table.
    a = uint64(0xA2F9836E4E441529)
    b = uint64(0xFC2757D1F534DDC0)
    c = uint64(0xDB6295993C439041)
    d = uint64(0xFE5163ABDEBBC561)
    high = window_f32(exponent, uint64(0), a, b, c)
    low = window_f32(exponent, a, b, c, d) >> uint64(32)
    return mantissa * high + ((mantissa * low) >> uint64(32))


def quarter_turns_f32(x: f32) -> u64:
    """The number of quarter turns nearest to |x|, modulo four; 0 for |x| < pi/4."""
    n = uint64(turn_bits_f32(x) + uint64(0x2000000000000000)) >> uint64(62)
    return select(fabs_f32(x) < float32(0.7853982), uint64(0), n)


def within_quarter_f32(x: f32) -> f32:
    """|x| less its nearest number of quarter turns, in radians, at most pi/4 in magnitude."""
    turn = turn_bits_f32(x)
    n = uint64(turn + uint64(0x2000000000000000)) >> uint64(62)
    fraction = int64(uint64(turn - uint64(n << uint64(62))))
    # pi/2 2^-62
    r = float64(fraction) * float64(3.4061215800865545e-19)
    a = fabs_f32(x)
    return select(a < float32(0.7853982), a, float32(r))


def window_f64(exponent: i64, word: i64) -> u64:
    """64 bits of 2/pi from bit `exponent - 1077` after the binary point (64-bit word 0, 1 or 2 of the window)."""
    start = exponent - int64(1013)
    start = select(start < int64(0), int64(0), start)
    # Infinities and nans have the exponent 2047, one above the last that selects bits within the table.
    start = select(start > int64(1033), int64(1033), start)
    index = (start >> int64(6)) + word
    shift = uint64(start & int64(63))
    high = two_over_pi_word(index) << shift
    low = (two_over_pi_word(index + int64(1)) >> uint64(1)) >> (uint64(63) - shift)
    return high | low


def multiply_high_u64(a: u64, b: u64) -> u64:
    """The upper 64 bits of the product."""
    low = uint64(0xFFFFFFFF)
    half = uint64(32)
    middle = (a >> half) * (b & low) + (((a & low) * (b & low)) >> half)
    other = (a & low) * (b >> half) + (middle & low)
    return (a >> half) * (b >> half) + (middle >> half) + (other >> half)


def mantissa_bits_f64(x: f64) -> u64:
    """The mantissa of a normal x as an integer."""
    return (bits_f64(x) & uint64(0xFFFFFFFFFFFFF)) | uint64(0x10000000000000)


def turn_low_f64(x: f64) -> u64:
    """The lower word of `turn_high_f64`'s fraction."""
    exponent = int64((bits_f64(x) >> uint64(52)) & uint64(0x7FF))
    mantissa = mantissa_bits_f64(x)
    low = mantissa * window_f64(exponent, int64(1))
    return low + multiply_high_u64(mantissa, window_f64(exponent, int64(2)))


def turn_high_f64(x: f64) -> u64:
    """|x| in quarter turns modulo four, as fixed point with 62 fraction bits here and 64 below, for |x| >= 1/2."""
    exponent = int64((bits_f64(x) >> uint64(52)) & uint64(0x7FF))
    mantissa = mantissa_bits_f64(x)
    window = window_f64(exponent, int64(1))
    carry = uint64(turn_low_f64(x) < mantissa * window)
    return mantissa * window_f64(exponent, int64(0)) + multiply_high_u64(mantissa, window) + carry


def quarter_turns_f64(x: f64) -> u64:
    """The number of quarter turns nearest to |x|, modulo four; 0 for |x| < pi/4."""
    n = uint64(turn_high_f64(x) + uint64(0x2000000000000000)) >> uint64(62)
    return select(fabs_f64(x) < float64(0.7853981633974483), uint64(0), n)


def turn_fraction_high_f64(x: f64) -> f64:
    """|x| less its nearest number of quarter turns, in units of 2^-62 quarter turns, rounded."""
    turn = turn_high_f64(x)
    n = uint64(turn + uint64(0x2000000000000000)) >> uint64(62)
    return float64(int64(uint64(turn - uint64(n << uint64(62)))))


def turn_fraction_low_f64(x: f64) -> f64:
    """What `turn_fraction_high_f64` rounded away, in the same units."""
    turn = turn_high_f64(x)
    n = uint64(turn + uint64(0x2000000000000000)) >> uint64(62)
    whole = int64(uint64(turn - uint64(n << uint64(62))))
    rounded = int64(float64(whole))
    below = float64(int64(turn_low_f64(x) >> uint64(1))) * float64(1.0842021724855044e-19)
    return float64(whole - rounded) + below


def within_quarter_f64(x: f64) -> f64:
    """|x| less its nearest number of quarter turns, in radians, at most pi/4 in magnitude."""
    # pi/2 2^-62
    r = turn_fraction_high_f64(x) * float64(3.4061215800865545e-19)
    a = fabs_f64(x)
    return select(a < float64(0.7853981633974483), a, r)


def within_quarter_tail_f64(x: f64) -> f64:
    """What `within_quarter_f64` rounded away."""
    high = turn_fraction_high_f64(x)
    r = high * float64(3.4061215800865545e-19)
    quarter = float64(3.4061215800865545e-19)
    tail = fma_f64(high, quarter, -r)
    tail = fma_f64(high, float64(1.3277647201629795e-35), tail)
    tail = fma_f64(turn_fraction_low_f64(x), quarter, tail)
    return select(fabs_f64(x) < float64(0.7853981633974483), float64(0.0), tail)
