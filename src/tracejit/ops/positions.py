"""Positions along a dimension: checked, and counted from its start.

Those out of range raise ``OutOfRangeError``, an ``IndexError`` and a ``RuntimeError``, because PyTorch raises either,
depending on the function.
"""

from __future__ import annotations

import math

import numpy as np

from ..errors import DimensionError, DtypeError
from ..types import Shape, TensorType
from .namespace import xp
from .table import Array

#: Elements whose places are worked out at a time, and fewest that this pays for.
_TOGETHER, _FEWEST = 1 << 14, 1 << 11
_PLACES = np.dtype(np.int64)


class OutOfRangeError(DimensionError, RuntimeError):
    """An index that is not within its dimension; ``index`` is the first of them that was found, if that is known."""

    index: int | None = None


def check_index(name: str, index: TensorType) -> None:
    """``DtypeError`` unless positions are integers."""
    if index.dtype.category != "int":
        raise DtypeError(f"{name}(): Expected dtype int32/int64 for index, got {index.dtype.name}")


def wrapped(index: Array, size: int, dim: int, negative: bool = True) -> Array:
    """Non-negative indices; raises for those out of range."""
    low = -size if negative else 0
    if index.size:
        n = xp(index)
        if n is np:
            if index.dtype is _PLACES and np.maximum.reduce(index.view(np.uint64), None) < size:
                return index  # negative ones would be very large
            smallest, largest = int(index.min()), int(index.max())
        else:  # one wait for both
            smallest, largest = n.stack((n.min(index), n.max(index))).tolist()
        if smallest < low or largest >= size:
            bad = smallest if smallest < low else largest
            error = OutOfRangeError(
                f"index {bad} is out of bounds for dimension {dim} with size {size}"
            )
            error.index = bad
            raise error
        if smallest < 0:
            return n.where(index < 0, index + size, index)
    return index


def aligned(index: Array, shape: Shape, dim: int) -> tuple[Array, ...]:
    """Open index arrays that address an array of ``shape`` with ``index`` along ``dim``; raises as `wrapped` does.

    >>> [x.tolist() for x in aligned(np.array([[1], [0]]), (2, 2), 1)]
    [[[0], [1]], [[1], [0]]]
    """
    n = xp(index)
    grid = [
        n.arange(extent).reshape((1,) * d + (-1,) + (1,) * (index.ndim - 1 - d))
        for d, extent in enumerate(index.shape)
    ]
    grid[dim] = wrapped(index, shape[dim], dim, negative=False)
    return tuple(grid)


def taken_along(x: Array, index: Array, dim: int) -> Array:
    """``x[i, index[i, j]]``-like: many on the host by their places in memory, which takes a fifth of the time.

    >>> taken_along(np.array([[3, 1], [5, 9]]), np.array([[1], [0]]), 1).tolist()
    [[1], [5]]
    """
    if xp(x, index) is not np or not x.flags.c_contiguous or index.size < _FEWEST:
        return x[aligned(index, x.shape, dim)]
    index = wrapped(index, x.shape[dim], dim, negative=False)
    steps = [math.prod(x.shape[d + 1 :]) for d in range(x.ndim)]
    others = [d for d, extent in enumerate(index.shape) if d != dim and extent > 1]
    flat, out = x.reshape(-1), np.empty(index.shape, x.dtype)
    few = max(1, _TOGETHER * len(index) // index.size)
    for start in range(0, len(index), few):  # temporaries that stay in the cache
        part = np.s_[start : start + few]
        places = np.multiply(index[part], steps[dim], dtype=np.int64)
        for d in others:
            first, count = (start, len(places)) if d == 0 else (0, index.shape[d])
            own = np.arange(first, first + count) * steps[d]
            places += own.reshape((-1,) + (1,) * (x.ndim - 1 - d))
        flat.take(places, out=out[part], mode="clip")  # checked already
    return out
