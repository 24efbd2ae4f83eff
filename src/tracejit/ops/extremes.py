"""The larger and the smaller of two, with one rule for equal operands in all types."""

from __future__ import annotations

import numpy as np

from .slabs import shared
from .table import Array

__all__ = ["larger", "smaller"]


def larger(x: Array, y: Array) -> Array:
    """The larger of two, NaN if either is; of equal operands (zeros of both signs) the second.

    That is what vector units give, and NumPy in all types but half precision, where it gives the first.

    >>> zeros = np.array([0.0, -0.0], np.float16)
    >>> larger(zeros, -zeros).tolist()
    [-0.0, 0.0]
    """
    n = shared(x, y)
    return n.maximum(y, x) if x.dtype == np.float16 else n.maximum(x, y)


def smaller(x: Array, y: Array) -> Array:
    """The smaller of two; as :func:`larger` otherwise.

    >>> smaller(np.array([1.0, np.nan]), np.array([2.0, 0.0])).tolist()
    [1.0, nan]
    """
    n = shared(x, y)
    return n.minimum(y, x) if x.dtype == np.float16 else n.minimum(x, y)
