"""Numbers of at most 32 bits as integers that stand in the same order, with room for a position below them.

Their upper half is the number's place in the order: equal numbers have equal ones, and no number is above a nan. The
lowest bit of the lower half, whose bits are all set otherwise, is the sign, by which the two zeros are told apart.
"""

from __future__ import annotations

from tracejit.scalar_math.primitives import (
    bits_f32,
    f32,
    f32_from_bits,
    i64,
    int32,
    int64,
    select,
    uint32,
)


def rank_f32(x: f32) -> i64:
    """The rank of x."""
    bits = bits_f32(x)
    sign = int32(bits) >> int32(31)
    magnitude = int32(bits & uint32(0x7FFFFFFF))
    place = select(x != x, int32(0x7FFFFFFF), (magnitude ^ sign) - sign)
    return (int64(place) << int64(32)) + (int64(0xFFFFFFFE) - int64(sign))


def rank_i64(x: i64) -> i64:
    """The rank of x, which 32 bits hold."""
    return (x << int64(32)) + int64(0xFFFFFFFE)


def ranked_place_i64(rank: i64) -> i64:
    """The position that was taken twice from a rank."""
    return int64(0x7FFFFFFF) - ((rank & int64(0xFFFFFFFF)) >> int64(1))


def ranked_whole_i64(rank: i64) -> i64:
    """The integer of a rank."""
    return rank >> int64(32)


def ranked_real_i64(rank: i64) -> f32:
    """The number of a rank, with its sign."""
    place = int32(rank >> int64(32))
    turned = place >> int32(31)
    magnitude = uint32((place ^ turned) - turned)
    return f32_from_bits(magnitude | uint32(uint32(rank & int64(1)) << uint32(31)))
