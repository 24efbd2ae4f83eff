"""The larger and the smaller of two, with one rule for equal operands in all types."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .slabs import shared
from .table import Array

__all__ = ["larger", "smaller", "zero_of"]

#: Elements from which on there is no array of zeros, but one number.
_MOST = 1 << 16


def larger(x: Array, y: Array) -> Array:
    """The larger of two, NaN if either is; of equal operands (zeros of both signs) the second.

    That is what vector units give, and NumPy in all types but half precision, where it gives the first.

    >>> zeros = np.array([0.0, -0.0], np.float16)
    >>> larger(zeros, -zeros).tolist()
    [-0.0, 0.0]
    """
    n = shared(x, y)
    return n.maximum(y, x) if x.dtype == np.float16 else n.maximum(x, y)


def zero_of(x: Array) -> Array:
    """What is compared with ``x`` to compare it with zero: zeros for all of it where they are soon at hand.

    NumPy's loops take five times as long for one number as for an array of it.

    >>> zero_of(np.ones((2, 3))).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    if type(x) is np.ndarray and x.size < _MOST and x.flags.c_contiguous:
        return _zeros(x.dtype)[: x.size].reshape(x.shape)
    return x.dtype.type(0)


@cache
def _zeros(dtype: np.dtype[Any]) -> Array:
    zeros = np.zeros(_MOST, dtype)
    zeros.flags.writeable = False
    return zeros


def smaller(x: Array, y: Array) -> Array:
    """The smaller of two; as :func:`larger` otherwise.

    >>> smaller(np.array([1.0, np.nan]), np.array([2.0, 0.0])).tolist()
    [1.0, nan]
    """
    n = shared(x, y)
    return n.minimum(y, x) if x.dtype == np.float16 else n.minimum(x, y)
