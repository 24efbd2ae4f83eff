"""Discrete Fourier transforms along several dimensions: complex to complex, real to half a spectrum, and back.

``norm`` says which direction divides by the number of points, as in NumPy: "backward", "ortho" (by its root, both) or
"forward". The matrix of a transform is symmetric: the transform of the gradient is the gradient of the transform.

Host arrays are transformed by SciPy, several rows at once in vectors and in several threads, which NumPy does not do
(complex single precision takes a sixth of the time). A row's bits depend neither on the other rows nor on the threads.
"""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

from typing import Any

import numpy as np

from .. import config
from ..errors import ShapeError
from ..types import Shape, TensorType
from . import promotion as p
from .complex_numbers import parts_of_complex
from .elementwise import where
from .movement import pad
from .movement import slice as slice_of
from .namespace import xp
from .reduction import wide
from .source import arange
from .table import Array, Sample, contraction

_OTHER = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
_WAVE = np.array([[1.0, 2.0j, -1.5], [0.5 - 1.0j, 2.0, 0.25]])
_ALONG = {"dims": (0, 1), "norm": "backward"}
_ONE = {"dims": (1,), "norm": "ortho"}


def _transform(name: str, x: Array, **attributes: Any) -> Array:
    """``name`` of the library's transforms."""
    n = xp(x)
    if n is not np:
        return getattr(n.fft, name)(x, **attributes)
    import scipy.fft

    return getattr(scipy.fft, name)(x, workers=max(config.threads, 1), **attributes)


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
    found = _transform("ifftn" if inverse else "fftn", x, axes=dims, norm=norm)
    return found.astype(x.dtype, copy=False)


def _half_type(x: TensorType, *, dims: Shape, norm: str) -> TensorType:
    if not x.dtype.is_floating_point:
        raise p.UnsupportedDtypeError(f"rfft of {x.dtype.title}: expected real numbers")
    _checked(x, dims)
    last = dims[-1]
    shape = (*x.shape[:last], x.shape[last] // 2 + 1, *x.shape[last + 1 :])
    return TensorType(shape, x.dtype.to_complex)


def _padded(g: Any, shape: Shape, dim: int) -> Any:
    """``g`` followed by zeros along ``dim`` up to ``shape``."""
    widths = tuple((0, shape[d] - g.shape[d] if d == dim else 0) for d in range(len(shape)))
    return pad(g, widths=widths, value=0)


def _half_grad(g: Any, x_type: TensorType, dims: Shape, norm: str) -> Any:
    """What is missing of the spectrum gets no gradient."""
    whole = _padded(g, x_type.shape, dims[-1])
    found = parts_of_complex(fourier(whole, dims=dims, norm=norm, inverse=False))
    return first_of(found)


def first_of(pairs: Any) -> Any:
    """The first of each pair along the last dimension."""
    shape = tuple(pairs.shape)
    zeros, ones = (0,) * len(shape), (1,) * len(shape)
    part = slice_of(pairs, starts=zeros, counts=(*shape[:-1], 1), steps=ones)
    return part.reshape(shape[:-1])


@contraction(
    _half_type,
    grad=lambda g, x_type, dims, norm: _half_grad(g, x_type, dims, norm),
    samples=(Sample(((3, 4),), _ALONG), Sample(((3, 5),), _ONE)),
)
def fourier_of_real(x: Array, *, dims: Shape, norm: str) -> Array:
    """The transform of real numbers: the first half of the spectrum along the last of ``dims``."""
    spectrum = _transform("rfftn", wide(x), axes=dims, norm=norm)
    return spectrum.astype(np.complex128 if x.dtype.itemsize == 8 else np.complex64, copy=False)


def _whole_type(x: TensorType, *, dims: Shape, norm: str, count: int) -> TensorType:
    if not x.dtype.is_complex:
        raise p.UnsupportedDtypeError(f"irfft of {x.dtype.title}: expected complex numbers")
    _checked(x, dims)
    last = dims[-1]
    if count < 1 or x.shape[last] != count // 2 + 1:
        raise ShapeError(f"Invalid number of data points ({count}) specified")
    return TensorType((*x.shape[:last], count, *x.shape[last + 1 :]), x.dtype.to_real)


def _whole_grad(g: Any, dims: Shape, norm: str, count: int) -> Any:
    """Every frequency but the first (and the last of an even count) stands for two."""
    half = count // 2 + 1
    found = fourier_of_real(g, dims=dims, norm=_OTHER[norm])
    at = arange(start=0, step=1, count=half, dtype=g.dtype)
    once = (at == 0) | (at * 2 == count)
    shape = tuple(half if d == dims[-1] else 1 for d in range(len(g.shape)))
    return found * where(once, 1.0, 2.0).reshape(shape)


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
    found = _transform("irfftn", x, s=sizes, axes=dims, norm=norm)
    return found.astype(np.float64 if x.dtype.itemsize == 16 else np.float32, copy=False)
