"""Ranks: numbers of at most 32 bits as integers of 64 that stand in the same order, and what they say.

The largest of several ranks, each less twice its position, tells the largest number and where it is first. So kernels
find both at once, as they find any other largest element.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import dtypes
from .namespace import xp
from .promotion import Infos, Promoted, UnsupportedDtypeError
from .table import Array, Sample, elementwise

#: The most positions that ranks have room for.
MOST_PLACES = 1 << 31


def has_rank(dtype: dtypes.DType) -> bool:
    """Do float32 or 32 bits hold all numbers of this type?

    >>> has_rank(dtypes.float16), has_rank(dtypes.int64)
    (True, False)
    """
    whole = dtype.category == "int" and dtype.itemsize <= 4
    return whole or dtype is dtypes.float32 or dtype.is_half


def _to_rank(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
    dtype = infos[0][0]
    if dtype.category not in ("int", "float"):
        raise UnsupportedDtypeError(f'"{op.name}" not implemented for {dtype.title!r}')
    return (dtypes.float32 if dtype.is_floating_point else dtypes.int64,), dtypes.int64


def _from_rank(result: dtypes.DType) -> Any:
    def promoted(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
        if infos[0][0] is not dtypes.int64:
            raise UnsupportedDtypeError(f'"{op.name}" not implemented for {infos[0][0].title!r}')
        return (dtypes.int64,), result

    return promoted


_NUMBERS = (
    Sample((np.array([0.0, -0.0, 1.5, -2.5, 1e-42], np.float32),)),
    Sample((np.array([3, -(1 << 31), (1 << 31) - 1], np.int32),)),
    Sample((np.array([200, 3], np.uint8),)),
    Sample((np.array([True]),), {}, UnsupportedDtypeError, "not implemented"),
)
_RANKS = (Sample((np.array([(5 << 32) - 2, -(7 << 32) + 3, (1 << 32) - 1, -1]),)),)


@elementwise("rank(x)", promotion=_to_rank, samples=_NUMBERS)
def rank(x: Array) -> Array:
    """The rank of x, a number that float32 holds or an integer that 32 bits hold."""
    if x.dtype.kind != "f":
        return (x << 32) + 0xFFFFFFFE
    bits = x.view(np.int32)
    sign = bits >> 31
    place = ((bits & 0x7FFFFFFF) ^ sign) - sign
    place = xp(x).where(x != x, np.int32(0x7FFFFFFF), place)
    return (place.astype(np.int64) << 32) + (0xFFFFFFFE - sign.astype(np.int64))


@elementwise("ranked_place(rank)", promotion=_from_rank(dtypes.int64), samples=_RANKS)
def ranked_place(rank: Array) -> Array:
    """The position that was taken twice from a rank."""
    return 0x7FFFFFFF - ((rank & 0xFFFFFFFF) >> 1)


@elementwise("ranked_whole(rank)", promotion=_from_rank(dtypes.int64), samples=_RANKS)
def ranked_whole(rank: Array) -> Array:
    """The integer of a rank."""
    return rank >> 32


@elementwise("ranked_real(rank)", promotion=_from_rank(dtypes.float32), samples=_RANKS)
def ranked_real(rank: Array) -> Array:
    """The float32 of a rank, with its sign."""
    place = (rank >> 32).astype(np.int32)
    turned = place >> 31
    return (((place ^ turned) - turned) | ((rank & 1) << 31).astype(np.int32)).view(np.float32)
