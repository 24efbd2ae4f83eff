"""Functions of ``scipy.special`` in eager code, with the limits and the zeros that PyTorch has.

Kernels compute them for large arrays, and need no corrections.
"""

from __future__ import annotations

import math

import numpy as np

from .namespace import by_kernel, special, special_of, wide, xp
from .table import Array

__all__ = ["digamma_of", "function_of", "inverse_error_of", "lgamma_of", "trigamma_of"]


def function_of(name: str, x: Array) -> Array:
    """The function ``name`` of ``scipy.special``.

    >>> function_of("erf", np.zeros(2)).tolist(), function_of("expit", np.array([0.0, 800.0])).tolist()
    ([0.0, 0.0], [0.5, 1.0])
    """
    x = wide(x)
    return _logistic(x) if name == "expit" else special_of(name, x)


def _logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)), zero where exp(-x) is infinite; NumPy's loops take a third of the time of SciPy's function."""
    found = by_kernel("expit", x)
    if found is not None:
        return found
    if not x.ndim:
        return special("expit", x)(x)
    n = xp(x)
    out = n.negative(x)
    n.exp(out, out=out)
    n.add(out, x.dtype.type(1), out=out)
    return n.reciprocal(out, out=out)


def inverse_error_of(x: Array) -> Array:
    """The inverse of the error function: SciPy's, which has no negative zero.

    >>> inverse_error_of(np.array([-0.0, 1.0])).tolist()
    [-0.0, inf]
    """
    x = wide(x)
    found = by_kernel("erfinv", x)
    return xp(x).copysign(special("erfinv", x)(x), x) if found is None else found


def lgamma_of(x: Array) -> Array:
    """lgamma: SciPy's, which has no limit at -inf, and divides and overflows where numbers are tiny.

    >>> lgamma_of(np.array([-math.inf, -1.0, 1.0, 2.0])).tolist()
    [inf, inf, 0.0, 0.0]
    """
    x = wide(x)
    found = by_kernel("gammaln", x)
    if found is not None:
        return found
    n = xp(x)
    found = n.where(n.isinf(x), x.dtype.type(math.inf), special("gammaln", x)(x))
    tiny = n.abs(x) < np.finfo(np.float32).tiny
    return n.where(tiny, -n.log(n.where(tiny, n.abs(x), 1)), found).astype(found.dtype)


def digamma_of(x: Array) -> Array:
    """digamma: SciPy's above zero, by reflection below, where SciPy's has few correct places beside a pole.

    >>> digamma_of(np.array([0.0, -0.0, -1.0])).tolist()
    [-inf, inf, nan]
    """
    x = wide(x)
    found = by_kernel("digamma", x)
    if found is not None:
        return found
    n, above = xp(x), special("digamma", x)
    at_zero = n.copysign(x.dtype.type(math.inf), -x)
    below = x < 0
    if not below.any():
        return n.where(x == 0, at_zero, above(x))
    fine = x.astype(np.float64)
    distance = fine - n.rint(fine)
    cotangent = math.pi / n.tan(math.pi * n.where(distance == 0, math.nan, distance))
    found = above(n.where(below, 1 - fine, fine)) - n.where(below, cotangent, 0)
    return n.where(x == 0, at_zero, found).astype(x.dtype)


def trigamma_of(x: Array) -> Array:
    """trigamma: SciPy's first derivative of digamma above zero, by reflection below.

    >>> trigamma_of(np.array([0.0, math.inf])).tolist()
    [inf, 0.0]
    """
    x = wide(x)
    found = by_kernel("trigamma", x)
    if found is not None:
        return found
    n, fine = xp(x), x.astype(np.float64)
    below = x < 0
    upper = special("polygamma", x)(n.asarray(1), n.where(below, 1 - fine, fine))
    if not below.any():
        return upper.astype(x.dtype)
    sine = n.sin(math.pi * (fine - n.rint(fine)))
    return n.where(below, (math.pi / sine) ** 2 - upper, upper).astype(x.dtype)
