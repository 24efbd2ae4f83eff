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

#: What transforms rows along the last dimension by a kernel, and says which rows are not finite.
Transform = Callable[[str, Array, int, bool, float], tuple[Array, Array] | None]
_kernel: list[Transform] = []
#: Elements of an array, and rows, from which on a kernel serves, and most elements of a row.
_MANY, _ROWS, _SHORT = 1 << 11, 8, 1 << 10
_MODES = {"fft": "complex", "ifft": "complex", "rfft": "of_real", "irfft": "to_real"}


def set_fourier(transform: Transform) -> None:
    """Install what transforms rows by a kernel, or gives None.

    >>> before = list(_kernel)
    >>> set_fourier(lambda mode, x, n, inverse, scale: None)
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
    last = x.ndim - 1
    if not _kernel or last not in dims or x.size < _MANY or x.dtype.char not in "fdFD":
        return _by_library(name, x, dims, norm, sizes)
    if _MODES[name] != "complex" and dims[-1] != last:  # real is what lies along another one
        return _by_library(name, x, dims, norm, sizes)
    n = sizes[dims.index(last)] if sizes else x.shape[last]
    if n > _SHORT or x.size < _ROWS * x.shape[last] or not x.dtype.isnative:
        return _by_library(name, x, dims, norm, sizes)
    if len(dims) > 1:
        return _one_after_the_other(name, x, dims, norm, sizes)
    inverse = name[0] == "i"
    found = _kernel[0](_MODES[name], x, n, inverse, _scale(n, norm, inverse))
    if found is None:
        return _by_library(name, x, dims, norm, sizes)
    result, odd = found
    if len(odd):  # what infinities become depends on the order of operations
        again = _by_library(name, x.reshape(-1, x.shape[-1])[odd], (1,), norm, sizes)
        result.reshape(-1, result.shape[-1])[odd] = again
    return result


def _one_after_the_other(name: str, x: Array, dims: Shape, norm: str, sizes: Shape | None) -> Array:
    """The last dimension by itself: before the others where the array is real, after them where the result is."""
    last = x.ndim - 1
    others = tuple(d for d in dims if d != last)
    own = (x.shape[last] if sizes is None else sizes[dims.index(last)],)
    whole = "ifft" if name[0] == "i" else "fft"
    if name == "irfft":
        return fourier_of_host(name, _by_library(whole, x, others, norm), (last,), norm, own)
    return _by_library(whole, fourier_of_host(name, x, (last,), norm, own), others, norm)


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
