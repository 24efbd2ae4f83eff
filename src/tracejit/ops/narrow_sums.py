"""Sums over or beside few elements: NumPy's sums of such arrays, bit for bit, with loops as long as can be.

NumPy walks an array along its shortest strides. Where an extent of two or three lies there, it does next to nothing but
begin loops: a sum of 65,536 rows of three elements takes a millisecond. Few elements of a row are added in order, so
whole columns can be; rows of few elements that are added to each other can be so side by side with others.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .long_sums import MOST

__all__ = ["narrow_sum"]

Array = Any
#: Rows of fewer elements are added in order (NumPy takes eight by pairs), and from how many rows on it pays.
FEW, ROWS = 8, 256
#: Most elements beside each other that are narrow, and from how many elements of an array on it pays.
NARROW, ELEMENTS = 16, 2048
#: Elements that are laid side by side at a time, and at least so many rows.
PIECE, BESIDE = 1 << 16, 32
#: What sums begin with: the sign of a zero is seen where all elements are negative zeros.
_EMPTY = float(np.add.reduce(np.full(1, -0.0)))


def narrow_sum(x: Array, dim: int) -> Array | None:
    """The sum of an array of floating point numbers along ``dim``; None where NumPy's own is as fast.

    >>> float(narrow_sum(np.full((300, 2), 0.5), 1).sum())
    300.0
    >>> narrow_sum(np.ones((3, 2)), 1) is None
    True
    """
    shape = x.shape
    if x.dtype != np.float32 and x.dtype != np.float64:
        return None
    if dim == len(shape) - 1:
        pays = 2 <= shape[dim] < FEW and x.size >= ROWS * shape[dim]
        return _columns(x) if pays else None
    inner, outer = math.prod(shape[dim + 1 :]), math.prod(shape[:dim])
    if not (2 <= inner <= NARROW and 1 < shape[dim] <= MOST and outer > 1 and x.size >= ELEMENTS):
        return None
    if not x.flags.c_contiguous:
        return None
    result = np.empty((outer, inner), x.dtype)
    _beside(x.reshape(outer, shape[dim], inner), result)
    return result.reshape(*shape[:dim], *shape[dim + 1 :])


def _columns(x: Array) -> Array:
    """The sum along the last dimension: one column after the other."""
    result = x[..., 0] + x[..., 1]
    for place in range(2, x.shape[-1]):
        result += x[..., place]
    result += _EMPTY
    return result


def _beside(x: Array, out: Array) -> None:
    """The sum along the middle of three dimensions, for many of the first at a time."""
    outer, count, inner = x.shape
    step = max(BESIDE, PIECE // (count * inner))
    for start in range(0, outer, step):
        piece = np.ascontiguousarray(x[start : start + step].transpose(1, 0, 2))
        np.add.reduce(piece, axis=0, out=out[start : start + step])
