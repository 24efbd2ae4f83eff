"""Discrete Fourier transforms along several dimensions: complex to complex, real to half a spectrum, and back.

``norm`` says which direction divides by the number of points, as in NumPy: "backward", "ortho" (by its root, both) or
"forward". The matrix of a transform is symmetric: the transform of the gradient is the gradient of the transform.
"""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import DType
from ..errors import ShapeError
from ..types import Shape, TensorType
from . import promotion as p
from .complex_numbers import conjugate
from .elementwise import where
from .host_fourier import fourier_of_host
from .namespace import wide, xp
from .source import arange
from .table import Array, Sample, contraction

_OTHER = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
_WAVE = np.array([[1.0, 2.0j, -1.5], [0.5 - 1.0j, 2.0, 0.25]])
_ALONG = {"dims": (0, 1), "norm": "backward"}
_ONE = {"dims": (1,), "norm": "ortho"}


def _transform(name: str, x: Array, dims: Shape, norm: str, sizes: Shape | None = None) -> Array:
    """``name`` of the library's transforms along ``dims``, of ``sizes`` if those are not the array's."""
    if xp(x) is np:
        return fourier_of_host(name, x, dims, norm, sizes)
    n = xp(x)
    if len(dims) == 1:  # costs less
        return getattr(n.fft, name)(x, n=sizes[0] if sizes else None, axis=dims[0], norm=norm)
    return getattr(n.fft, name + "n")(x, s=sizes, axes=dims, norm=norm)


def _checked(x: TensorType, dims: Shape) -> None:
    if len(set(dims)) < len(dims):
        raise ShapeError("FFT dims must be unique")
    for dim in dims:
        if x.shape[dim] < 1:
            raise ShapeError(f"Invalid number of data points ({x.shape[dim]}) specified")


def _complex_type(x: TensorType, *, dims: Shape, norm: str, inverse: bool) -> TensorType:
    if not x.dtype.is_complex:
        raise p.UnsupportedDtypeError(f"fft of {x.dtype.title}: expected complex numbers")
    _checked(x, dims)
    return x


@contraction(
    _complex_type,
    grad=lambda g, dims, norm, inverse: fourier(g, dims=dims, norm=norm, inverse=inverse),
    samples=(
        Sample((_WAVE,), {**_ALONG, "inverse": False}),
        Sample((_WAVE,), {**_ONE, "inverse": True}),
        Sample((_WAVE[:0],), {**_ALONG, "inverse": True}, RuntimeError, "data points"),
    ),
)
def fourier(x: Array, *, dims: Shape, norm: str, inverse: bool) -> Array:
    """The transform of complex numbers along ``dims``, or its ``inverse``."""
    found = _transform("ifft" if inverse else "fft", x, dims, norm)
    return found.astype(x.dtype, copy=False)


def _half_type(x: TensorType, *, dims: Shape, norm: str) -> TensorType:
    if not x.dtype.is_floating_point:
        raise p.UnsupportedDtypeError(f"rfft of {x.dtype.title}: expected real numbers")
    _checked(x, dims)
    last = dims[-1]
    shape = (*x.shape[:last], x.shape[last] // 2 + 1, *x.shape[last + 1 :])
    return TensorType(shape, x.dtype.to_complex())


def _half_grad(g: Any, x_type: TensorType, dims: Shape, norm: str) -> Any:
    """What is missing of the spectrum gets no gradient, where an inverse transform takes most frequencies for two."""
    count = x_type.shape[dims[-1]]
    weights = _by_frequency(tuple(g.shape), g.dtype.to_real(), dims[-1], count, 0.5)
    return real_of_fourier(conjugate(g) * weights, dims=dims, norm=_OTHER[norm], count=count)


def _by_frequency(shape: Shape, dtype: DType, dim: int, count: int, other: float) -> Any:
    """Weights of half a spectrum: one for frequencies that are their own mirror images, ``other`` for the rest.

    Those are the first and the last of an even ``count``; the others stand for two frequencies each.
    """
    half = count // 2 + 1
    at = arange(start=0, step=1, count=half, dtype=dtype)
    once = (at == 0) | (at * 2 == count)
    along = tuple(half if d == dim else 1 for d in range(len(shape)))
    return where(once, 1.0, other).reshape(along)


@contraction(
    _half_type,
    grad=lambda g, x_type, dims, norm: _half_grad(g, x_type, dims, norm),
    samples=(Sample(((3, 4),), _ALONG), Sample(((3, 5),), _ONE)),
)
def fourier_of_real(x: Array, *, dims: Shape, norm: str) -> Array:
    """The transform of real numbers: the first half of the spectrum along the last of ``dims``."""
    spectrum = _transform("rfft", wide(x), dims, norm)
    return spectrum.astype(np.complex128 if x.dtype.itemsize == 8 else np.complex64, copy=False)


def _whole_type(x: TensorType, *, dims: Shape, norm: str, count: int) -> TensorType:
    if not x.dtype.is_complex:
        raise p.UnsupportedDtypeError(f"irfft of {x.dtype.title}: expected complex numbers")
    _checked(x, dims)
    last = dims[-1]
    if count < 1 or x.shape[last] != count // 2 + 1:
        raise ShapeError(f"Invalid number of data points ({count}) specified")
    return TensorType((*x.shape[:last], count, *x.shape[last + 1 :]), x.dtype.to_real())


def _whole_grad(g: Any, dims: Shape, norm: str, count: int) -> Any:
    """Most frequencies stand for two."""
    found = fourier_of_real(g, dims=dims, norm=_OTHER[norm])
    return found * _by_frequency(tuple(g.shape), g.dtype, dims[-1], count, 2.0)


@contraction(
    _whole_type,
    grad=lambda g, dims, norm, count: _whole_grad(g, dims, norm, count),
    samples=(
        Sample((_WAVE,), {**_ALONG, "count": 4}),
        Sample((_WAVE,), {**_ONE, "count": 5}),
    ),
)
def real_of_fourier(x: Array, *, dims: Shape, norm: str, count: int) -> Array:
    """The ``count`` real numbers along the last of ``dims`` whose spectrum begins with x: an inverse transform."""
    sizes = tuple(count if d == dims[-1] else x.shape[d] for d in dims)
    found = _transform("irfft", x, dims, norm, sizes)
    return found.astype(np.float64 if x.dtype.itemsize == 16 else np.float32, copy=False)
