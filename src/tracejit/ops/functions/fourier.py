"""Discrete Fourier transforms under PyTorch's names, all of them made of three ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import dtypes
from ...errors import ArgumentValueError, ShapeError
from .. import complex_numbers as cx
from .. import elementwise as e
from .. import fourier as f
from .. import movement as m
from ..precision import widened
from ..shapes import refuse_number
from ..table import function
from .common import Tensor, as_type, check_tensor, dim_of, shape_of
from .factories import made
from .slicing import slice_along

_NORMS = ("backward", "ortho", "forward")
_OTHER = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
Dims = int | Sequence[int] | None


def _norm(name: str, norm: str | None) -> str:
    if norm is None:
        return "backward"
    if norm not in _NORMS:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    return norm


def _floating(name: str, x: Tensor) -> Tensor:
    """Integers become the default float dtype; half precision is not transformed, but where autocast is on."""
    check_tensor(name, x)
    x = widened(x)
    if not x.dtype.is_differentiable:
        return as_type(x, dtypes.get_default_dtype())
    if x.dtype.itemsize < 4:
        raise RuntimeError(f"Unsupported dtype {x.dtype.title}")
    return x


def _complex(x: Tensor) -> Tensor:
    return x if x.dtype.is_complex else as_type(x, x.dtype.to_complex())


def _resized(x: Tensor, dim: int, count: int) -> Tensor:
    """The first ``count`` positions along ``dim``, with zeros after the last."""
    if count < 1:
        raise ShapeError(f"Invalid number of data points ({count}) specified")
    present = shape_of(x)[dim]
    if count < present:
        return slice_along(x, dim, 0, count)
    if count == present:
        return x
    widths = tuple((0, count - present if d == dim else 0) for d in range(x.ndim))
    return m.pad(x, widths=widths, value=0)


def _plan(
    name: str, x: Tensor, sizes: int | Sequence[int] | None, dims: Dims
) -> tuple[tuple[int, ...], tuple[int | None, ...]]:
    """The dimensions to transform and the sizes asked for along them."""
    sizes = (sizes,) if isinstance(sizes, int) else sizes
    if dims is None:
        count = x.ndim if sizes is None else len(sizes)
        if count > x.ndim:
            raise ShapeError(
                f"Got shape with {count} values but input tensor only has {x.ndim} dimensions."
            )
        along = tuple(range(x.ndim - count, x.ndim))
    else:
        given = (dims,) if isinstance(dims, int) else dims
        for d in given:
            refuse_number(d, x.ndim)
        along = tuple(dim_of(d, x) for d in given)
    if len(set(along)) < len(along):
        raise ShapeError("FFT dims must be unique")
    wanted = (None,) * len(along) if sizes is None else tuple(None if n == -1 else n for n in sizes)
    if len(wanted) != len(along):
        raise ShapeError("When given, dim and shape arguments must have the same length")
    return along, wanted


def _fit(x: Tensor, along: Sequence[int], wanted: Sequence[int | None]) -> Tensor:
    for dim, count in zip(along, wanted, strict=True):
        x = _resized(x, dim, shape_of(x)[dim] if count is None else count)
    return x


def _to_complex(name: str, inverse: bool) -> Callable[..., Tensor]:
    def transform(x: Tensor, sizes: Any, dims: Dims, norm: str | None) -> Tensor:
        x = _floating(name, x)
        way = _norm(name, norm)
        along, wanted = _plan(name, x, sizes, dims)
        x = _fit(_complex(x), along, wanted)
        return f.fourier(x, dims=along, norm=way, inverse=inverse) if along else x

    return transform


def _of_real(name: str, conjugated: bool) -> Callable[..., Tensor]:
    def transform(x: Tensor, sizes: Any, dims: Dims, norm: str | None) -> Tensor:
        x = _floating(name, x)
        if x.dtype.is_complex:
            raise RuntimeError(f"{name} expects a real input tensor, but got {x.dtype.title}")
        way = _norm(name, norm)
        along, wanted = _plan(name, x, sizes, dims)
        if not along:
            raise ShapeError(f"{name} must transform at least one axis")
        x = _fit(x, along, wanted)
        found = f.fourier_of_real(x, dims=along, norm=_OTHER[way] if conjugated else way)
        return cx.conjugate(found) if conjugated else found

    return transform


def _to_real(name: str, conjugated: bool) -> Callable[..., Tensor]:
    def transform(x: Tensor, sizes: Any, dims: Dims, norm: str | None) -> Tensor:
        x = _complex(_floating(name, x))
        way = _norm(name, norm)
        along, wanted = _plan(name, x, sizes, dims)
        if not along:
            raise ShapeError(f"{name} must transform at least one axis")
        last = wanted[-1]
        count = 2 * (shape_of(x)[along[-1]] - 1) if last is None else last
        if count < 1:
            raise ShapeError(f"Invalid number of data points ({count}) specified")
        x = _fit(x, along, (*wanted[:-1], count // 2 + 1))
        x = cx.conjugate(x) if conjugated else x
        return f.real_of_fourier(
            x, dims=along, norm=_OTHER[way] if conjugated else way, count=count
        )

    return transform


_KINDS = {
    "fft": _to_complex("fft", False),
    "ifft": _to_complex("ifft", True),
    "rfft": _of_real("rfft", False),
    "irfft": _to_real("irfft", False),
    "hfft": _to_real("hfft", True),
    "ihfft": _of_real("ihfft", True),
}
_WORDS = {
    "fft": "The Fourier transform",
    "ifft": "The inverse Fourier transform",
    "rfft": "The first half of the Fourier transform of real numbers",
    "irfft": "The inverse of :func:`rfft`: real numbers",
    "hfft": "The Fourier transform of half a signal that is its own mirrored conjugate: real numbers",
    "ihfft": "The inverse of :func:`hfft`: half a signal",
}


def _documented(target: Callable[..., Tensor], name: str, words: str) -> Callable[..., Tensor]:
    target.__name__ = target.__qualname__ = name
    kind = name.rstrip("2n")
    sample = "tj.ones(2, 4)" if name[-1] in "2n" else "tj.ones(4)"
    half = kind in ("rfft", "ihfft")
    last = {True: 3}.get(half, 6 if kind in ("irfft", "hfft") else 4)
    shape = [2, last] if name[-1] in "2n" else [last]
    target.__doc__ = (
        f'{words}. ``norm`` ("backward", "ortho", "forward") says which direction divides.\n\n'
        "Raises ``RuntimeError`` for sizes below one, repeated dimensions and half precision.\n\n"
        f">>> import tracejit as tj\n>>> tj.fft.{name}({sample}).shape\ntracejit.Size({shape})\n"
    )
    return target


def _one(name: str) -> Callable[..., Tensor]:
    def transform(
        input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None
    ) -> Tensor:
        return _KINDS[name](input, None if n is None else (n,), dim, norm)

    return _documented(transform, name, f"{_WORDS[name]} along one dimension")


def _two(name: str) -> Callable[..., Tensor]:
    def transform(
        input: Tensor,
        s: Sequence[int] | None = None,
        dim: Dims = (-2, -1),
        norm: str | None = None,
    ) -> Tensor:
        return _KINDS[name](input, s, dim, norm)

    return _documented(transform, f"{name}2", f"{_WORDS[name]} along two dimensions")


def _many(name: str) -> Callable[..., Tensor]:
    def transform(
        input: Tensor, s: Sequence[int] | None = None, dim: Dims = None, norm: str | None = None
    ) -> Tensor:
        return _KINDS[name](input, s, dim, norm)

    return _documented(transform, f"{name}n", f"{_WORDS[name]} along several dimensions")


fft, ifft, rfft, irfft, hfft, ihfft = map(_one, _KINDS)
fft2, ifft2, rfft2, irfft2, hfft2, ihfft2 = map(_two, _KINDS)
fftn, ifftn, rfftn, irfftn, hfftn, ihfftn = map(_many, _KINDS)


def _frequencies(
    values: Sequence[int], n: int, d: float, dtype: Any, device: Any, requires_grad: bool
) -> Tensor:
    from ..source import literal

    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    whole = literal(values=tuple(values), shape=(len(values),), dtype=dtypes.int64)
    return made(e.mul(as_type(whole, kind), 1.0 / (n * d)), requires_grad, device)


@function(method=False, namespace=False)
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies of :func:`fft` of ``n`` samples ``d`` apart.

    >>> import tracejit as tj
    >>> tj.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    if n <= 0:
        raise ArgumentValueError(f"fftfreq: n must be positive, got {n}")
    values = [*range((n + 1) // 2), *range(-(n // 2), 0)]
    return _frequencies(values, n, d, dtype, device, requires_grad)


@function(method=False, namespace=False)
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies of :func:`rfft` of ``n`` samples ``d`` apart.

    >>> import tracejit as tj
    >>> tj.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    if n <= 0:
        raise ArgumentValueError(f"rfftfreq: n must be positive, got {n}")
    return _frequencies(range(n // 2 + 1), n, d, dtype, device, requires_grad)


def _shifted(input: Tensor, dim: Dims, back: bool) -> Tensor:
    from .joining import roll

    check_tensor("fftshift", input)
    along = range(input.ndim) if dim is None else ((dim,) if isinstance(dim, int) else dim)
    dims = tuple(dim_of(d, input) for d in along)
    counts = [shape_of(input)[d] for d in dims]
    return roll(input, tuple((n + 1) // 2 if back else n // 2 for n in counts), dims)


@function(method=False, namespace=False)
def fftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """The frequency zero moved to the middle along ``dim`` (all dimensions by default).

    >>> import tracejit as tj
    >>> tj.fft.fftshift(tj.fft.fftfreq(4))
    tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    return _shifted(input, dim, False)


@function(method=False, namespace=False)
def ifftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """Undoes :func:`fftshift`.

    >>> import tracejit as tj
    >>> tj.fft.ifftshift(tj.tensor([-2, -1, 0, 1]))
    tensor([ 0,  1, -2, -1])
    """
    return _shifted(input, dim, True)
