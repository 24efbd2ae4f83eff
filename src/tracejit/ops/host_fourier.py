"""Fourier transforms of arrays of the host: by kernels, and where there is none for a length, by SciPy.

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

__all__ = ["MODES", "fourier_of_host", "in_order", "scale_of", "set_fourier"]

#: What transforms rows along a dimension by a kernel, if there is one. Raises FloatingPointError where a result is not
#: finite.
Transform = Callable[[str, Array, int, bool, float, int], Array | None]
_kernel: list[Transform] = []
#: What rows are: complex before and after, real before, or real after.
MODES = {"fft": "complex", "ifft": "complex", "rfft": "of_real", "irfft": "to_real"}


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
    try:
        return _one_by_one(name, x, dims, norm, sizes)
    except FloatingPointError:  # what infinities become depends on the order of operations
        return _by_library(name, x, dims, norm, sizes)


def in_order(name: str, dims: Shape) -> list[tuple[str, int]]:
    """Which transforms one along several dimensions consists of: real numbers are on the outside.

    >>> in_order("rfft", (0, 1)), in_order("irfft", (0, 1))
    ([('rfft', 1), ('fft', 0)], [('ifft', 0), ('irfft', 1)])
    """
    others = [("ifft" if name[0] == "i" else "fft", d) for d in dims[:-1]]
    last = (name, dims[-1])
    return [last, *others] if name == "rfft" else [*others, last]


def _one_by_one(name: str, x: Array, dims: Shape, norm: str, sizes: Shape | None) -> Array:
    """The transforms along one dimension after the other. Raises FloatingPointError where a result is not finite."""
    given = [x.shape[d] for d in dims] if sizes is None else sizes
    own = dict(zip(dims, given, strict=True))
    for one, dim in in_order(name, dims):
        n, inverse, found = own[dim], one[0] == "i", None
        if _kernel and x.dtype.char in "fdFD" and x.dtype.isnative:
            found = _kernel[0](MODES[one], x, n, inverse, scale_of(n, norm, inverse), dim)
        x = _by_library(one, x, (dim,), norm, (n,)) if found is None else found
    return x


def scale_of(n: int, norm: str, inverse: bool) -> float:
    """What results are multiplied by.

    >>> scale_of(8, "backward", True)
    0.125
    """
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
