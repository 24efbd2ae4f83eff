"""Fourier transforms of arrays of the host: many short rows by a kernel, a lane of a vector for each, others by SciPy.

SciPy transforms several rows at once in vectors and in several threads, too, which NumPy does not do (complex single
precision takes a sixth of the time). Its threads are Python's, and begin late.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import config
from ..types import Shape
from .op import Array

__all__ = ["fourier_of_host", "set_fourier"]

#: What transforms rows along a dimension by a kernel, and says which of them are not finite.
Transform = Callable[[str, Array, int, bool, float, int], tuple[Array, Array] | None]
_kernel: list[Transform] = []
#: Elements of an array, and rows, from which on a kernel serves, and most elements of a row.
_MANY, _ROWS, _SHORT = 1 << 11, 8, 1 << 10
_MODES = {"fft": "complex", "ifft": "complex", "rfft": "of_real", "irfft": "to_real"}


def set_fourier(transform: Transform) -> None:
    """Install what transforms rows by a kernel, or gives None.

    >>> before = list(_kernel)
    >>> set_fourier(lambda mode, x, n, inverse, scale, dim: None)
    >>> _kernel[:] = before
    """
    _kernel[:] = [transform]


def fourier_of_host(
    name: str, x: Array, dims: Shape, norm: str, sizes: Shape | None = None
) -> Array:
    """``name`` ("fft", "ifft", "rfft", "irfft") along ``dims``, of ``sizes`` if those are not the array's.

    >>> fourier_of_host("rfft", np.ones((1, 4)), (1,), "backward").real.tolist()
    [[4.0, 0.0, 0.0]]
    """
    own = [x.shape[d] for d in dims] if sizes is None else list(sizes)
    if not all(_serves(x, d, n) for d, n in zip(dims, own, strict=True)):
        return _by_library(name, x, dims, norm, sizes)
    whole = "ifft" if name[0] == "i" else "fft"
    if name != "rfft":  # the last one is what becomes real
        for d, n in zip(dims[:-1], own, strict=False):
            x = _along(whole, x, d, n, norm)
    x = _along(name, x, dims[-1], own[-1], norm)
    if name == "rfft":
        for d, n in zip(dims[:-1], own, strict=False):
            x = _along(whole, x, d, n, norm)
    return x


def _serves(x: Array, dim: int, n: int) -> bool:
    """Is a kernel worth it along a dimension, of so many elements?"""
    if not _kernel or x.size < _MANY or x.dtype.char not in "fdFD" or not x.dtype.isnative:
        return False
    inner = math.prod(x.shape[dim + 1 :])
    beside = inner if dim < x.ndim - 1 else x.size // x.shape[dim]
    return 1 < n <= _SHORT and beside >= _ROWS


def _along(name: str, x: Array, dim: int, n: int, norm: str) -> Array:
    """A transform along one dimension, of n elements."""
    inverse = name[0] == "i"
    found = _kernel[0](_MODES[name], x, n, inverse, _scale(n, norm, inverse), dim)
    if found is None:
        return _by_library(name, x, (dim,), norm, (n,))
    result, odd = found
    if len(odd):  # what infinities become depends on the order of operations
        if dim < x.ndim - 1:
            return _by_library(name, x, (dim,), norm, (n,))
        again = _by_library(name, x.reshape(-1, x.shape[-1])[odd], (1,), norm, (n,))
        result.reshape(-1, result.shape[-1])[odd] = again
    return result


def _scale(n: int, norm: str, inverse: bool) -> float:
    """What results are multiplied by."""
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if inverse == (norm == "backward") else 1.0


def _by_library(name: str, x: Array, dims: Shape, norm: str, sizes: Shape | None = None) -> Array:
    import scipy.fft

    along: dict[str, Any] = {"axes": dims, "s": sizes, "norm": norm}
    if len(dims) == 1:  # costs less
        along = {"axis": dims[0], "n": sizes[0] if sizes else None, "norm": norm}
    function = getattr(scipy.fft, name if len(dims) == 1 else name + "n")
    return function(x, workers=max(config.threads, 1), **along)
