"""Powers of arrays where NumPy's are others."""

from __future__ import annotations

import numpy as np

from .namespace import xp
from .op import Array


def of_integers(x: Array, y: Array) -> Array:
    """``x`` to the power ``y``; a negative power is 0, or 1 and -1 for units.

    >>> of_integers(np.array([3, 3, -1]), np.array([2, -2, -3]))
    array([ 9,  0, -1])
    """
    n = xp(x, y)
    result = n.power(x, n.maximum(y, y.dtype.type(0)))
    if y.dtype.kind == "u" or not (y < 0).any():
        return result
    unit = n.where(x == -1, n.where(y % 2 == 0, 1, -1), (x == 1).astype(np.int64))
    return n.where(y < 0, unit.astype(x.dtype), result)


def of_floats(x: Array, y: Array) -> Array:
    """``x`` to the power ``y``; NumPy takes the square root for one half, which is another function of -0.0 and -inf.

    Of complex numbers it is that root, which NumPy does not take there, and the first power is the number itself.

    >>> of_floats(np.array([4.0, np.inf, -0.0]), np.array([0.5]))
    array([ 2., inf,  0.])
    """
    n = xp(x, y)
    if y.size == 1 and y.dtype.kind == "f" and (y == 0.5).all():
        return n.where(n.isneginf(x), -x, n.sqrt(x + (y - y)))
    if y.size == 1 and y.dtype.kind == "c" and (y == 0.5).all():
        return n.sqrt(n.broadcast_arrays(x, y)[0])
    if y.size == 1 and y.dtype.kind == "c" and (y == 1).all():
        return n.array(n.broadcast_arrays(x, y)[0])
    return n.power(x, y)
