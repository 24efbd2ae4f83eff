"""Operands in the dtype that is computed in; Python numbers as a cast would have them."""

from __future__ import annotations

import numpy as np

from .. import dtypes
from ..dtypes import DType
from ..number_limits import refuse_vast
from ..types import Scalar
from .op import Array
from .slabs import by_float32

__all__ = ["convert_scalar", "convert_whole", "converted"]

_LEAST = -(1 << 63)


def converted(operand: Array | Scalar, dtype: DType) -> Array:
    """The operand in ``dtype``; Python numbers wrap or round as a cast does.

    >>> converted(np.array([1.5, -2.5]), dtypes.int8).tolist()
    [1, -2]
    """
    if type(operand) is int:
        return convert_whole(operand, dtype)
    if isinstance(operand, (bool, int, float)):
        return convert_scalar(operand, dtype)
    return operand if operand.dtype == dtype.np else by_float32(operand, dtype.np).astype(dtype.np)


def convert_whole(value: int, dtype: DType, most: int = (1 << 64) - 1) -> Array:
    """A Python integer as :func:`convert_scalar` has it; ``OverflowError`` unless 64 bits hold it.

    Raises ``RuntimeError`` where it is larger than ``most``.

    >>> convert_whole(300, dtypes.uint8)
    array(44, dtype=uint8)
    """
    if not _LEAST <= value <= most:
        refuse_vast(value, most)
    if dtype is dtypes.float32 or dtype is dtypes.float64:
        return np.array(value, dtype.np)
    return convert_scalar(value, dtype)


def convert_scalar(value: Scalar, dtype: DType) -> Array:
    """A Python number as a 0-d array of ``dtype``; integers wrap around, floats truncate towards zero.

    >>> convert_scalar(300, dtypes.uint8), convert_scalar(-2.7, dtypes.int64)
    (array(44, dtype=uint8), array(-2))
    """
    if dtype is dtypes.bool_:
        return np.asarray(bool(value))
    if dtype.is_complex:
        return np.asarray(value, dtype.np)
    if dtype is dtypes.float32 or dtype is dtypes.float64:
        return np.array(float(value), dtype.np)
    if dtype.is_floating_point:
        with np.errstate(over="ignore"):
            return by_float32(np.asarray(float(value)), dtype.np).astype(dtype.np)
    if isinstance(value, float):
        with np.errstate(invalid="ignore"):
            return np.asarray(value).astype(dtype.np)
    bits = dtype.itemsize * 8
    wrapped = int(value) & ((1 << bits) - 1)
    if dtype.is_signed and wrapped >= 1 << (bits - 1):
        wrapped -= 1 << bits
    return np.asarray(wrapped, dtype.np)
