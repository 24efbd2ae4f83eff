"""Running totals and order statistics: cumsum, cummax, diff, median, quantile, mode, histc."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import dtypes
from ...dtypes import DType
from .. import comparison as c
from .. import elementwise as e
from .. import exponential_sums, limits
from .. import indexing as ix
from .. import movement as m
from .. import ordering as o
from .. import reduction as r
from ..precision import full_precision
from ..table import function
from . import return_types as types
from .common import (
    Tensor,
    alone,
    as_type,
    constant,
    dim_of,
    is_tensor,
    refuse_bool,
    require_float,
    shape_of,
)
from .joining import cat
from .mathematics import lerp
from .reductions import dim_told
from .return_types import Found, ValuesAndIndices
from .slicing import slice_along
from .sorting import at_positions, sort
from .special_functions import logaddexp


@function(steady=True)
def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The sum of everything up to each position along ``dim``; int64 for bools and integers.

    >>> import tracejit as tj
    >>> tj.cumsum(tj.tensor([1, 2, 3]), 0)
    tensor([1, 3, 6])
    """
    if dtype is not None:
        refuse_bool("cumsum_out_cpu", dtypes.as_dtype(dtype))
    x = input if dtype is None else as_type(input, dtypes.as_dtype(dtype))
    result = o.cumsum(x, dim=dim_of(dim, x))
    return result if dtype is None else as_type(result, dtypes.as_dtype(dtype))


@function(large=True)
def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The product of everything up to each position along ``dim``; int64 for bools and integers.

    >>> import tracejit as tj
    >>> tj.cumprod(tj.tensor([1, 2, 3]), 0)
    tensor([1, 2, 6])
    """
    if dtype is not None:
        refuse_bool("cumprod_out_cpu", dtypes.as_dtype(dtype))
    x = input if dtype is None else as_type(input, dtypes.as_dtype(dtype))
    result = o.cumprod(x, dim=dim_of(dim, x))
    return result if dtype is None else as_type(result, dtypes.as_dtype(dtype))


def _running_extreme(kind: type[Found], x: Tensor, dim: int, largest: bool) -> Found:
    d = dim_of(dim, x)
    indices = o.cumextreme_index(x, dim=d, largest=largest)
    values = ix.gather(x, indices, dim=d) if x.ndim else e.clone(x)
    return kind(values, indices)


@function()
def cummax(input: Tensor, dim: int) -> ValuesAndIndices:
    """The largest element up to each position along ``dim``, and where it is.

    >>> import tracejit as tj
    >>> tj.cummax(tj.tensor([1, 3, 2]), 0).values
    tensor([1, 3, 3])
    """
    return _running_extreme(types.cummax, input, dim, True)


@function()
def cummin(input: Tensor, dim: int) -> ValuesAndIndices:
    """The smallest element up to each position along ``dim``, and where it is.

    >>> import tracejit as tj
    >>> tj.cummin(tj.tensor([3, 1, 2]), 0).values
    tensor([3, 1, 1])
    """
    return _running_extreme(types.cummin, input, dim, False)


@function(large=True)
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """``log(cumsum(exp(input)))`` along ``dim``, without overflow or underflow.

    Raises ``NotImplementedError`` for bools and integers.

    >>> import tracejit as tj
    >>> tj.logcumsumexp(tj.tensor([0.0, 0.0]), 0)
    tensor([0.0000, 0.6931])
    """
    if not input.spec.dtype.is_differentiable:
        require_float("logcumsumexp_out_cpu", input)
    d = dim_of(dim, input)
    if not input.ndim or not input.spec.numel:
        return e.clone(input)
    if input.dtype.is_complex:
        return _running_logs(input, d)
    return exponential_sums.log_cumsum_exp(input, dim=d)


def _running_logs(x: Tensor, d: int) -> Tensor:
    """One after the other: angles add up in this order."""
    running = [slice_along(x, d, 0, 1)]
    for place in range(1, shape_of(x)[d]):
        running.append(logaddexp(slice_along(x, d, place, 1), running[-1]))
    return cat(running, d)


@function(large=True)
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Differences of neighbours along ``dim``, ``n`` times over, of ``input`` between ``prepend`` and ``append``.

    Raises ``RuntimeError`` for a 0-d input and a negative ``n``.

    >>> import tracejit as tj
    >>> tj.diff(tj.tensor([1, 4, 9]))
    tensor([3, 5])
    """
    if not input.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    d = dim_of(dim, input)
    if not n:
        return e.clone(input)
    parts = [x for x in (prepend, input, append) if x is not None]
    if len(parts) > 1:
        input = cat(parts, d)
    for _ in range(min(n, shape_of(input)[d])):
        count = max(shape_of(input)[d] - 1, 0)
        after, before = (
            slice_along(input, d, min(1, shape_of(input)[d]), count),
            slice_along(input, d, 0, count),
        )
        different = c.ne if input.dtype is dtypes.bool_ else e.sub
        input = different(after, before)
    return input


def _middle(kind: type[Found], x: Tensor, d: int, keepdim: bool) -> Found:
    """The lower median along ``d``; the first NaN where there is one."""
    middle = o.position_at(x, dim=d, place=(shape_of(x)[d] - 1) // 2)
    if x.dtype.is_floating_point:
        nans = c.isnan(x)
        found = r.any_true(nans, dims=(d,), keepdim=True)
        first = r.argmax(as_type(nans, dtypes.uint8), dims=(d,), keepdim=True)
        middle = e.where(found, first, middle)
    return at_positions(kind, x, middle, d, keepdim)


def _of_equals(flat: Tensor, found: Tensor) -> Tensor:
    """``found``, one of the elements of ``flat``, with a gradient that those equal to it share."""
    if not getattr(found, "requires_grad", False):
        return found
    value = e.detach_copy(found)
    equal = c.logical_or(c.eq(flat, value), c.logical_and(c.isnan(flat), c.isnan(value)))
    return r.amax(e.where(equal, flat, float("-inf")), dims=(0,), keepdim=False, missing=True)


@function(within=dim_told)
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle element (the lower of two); with ``dim``, ``(values, indices)``; NaN if one is there.

    >>> import tracejit as tj
    >>> tj.median(tj.tensor([3, 1, 2, 9]))
    tensor(2)
    """
    refuse_bool("median_cpu", input.dtype)
    if dim is None:
        flat = m.reshape(input, shape=(input.spec.numel,))
        if not input.spec.numel:
            return constant(float("nan"), input.dtype)
        return _of_equals(flat, _middle(types.median, flat, 0, False).values)
    if not input.ndim:
        dim_of(dim, input)
        return types.median(e.clone(input), o.argsort(input, dim=0, descending=False))
    return _middle(types.median, input, dim_of(dim, input), keepdim)


@function(within=dim_told)
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle element of what is not NaN (the lower of two); with ``dim`` also its position.

    >>> import tracejit as tj
    >>> tj.nanmedian(tj.tensor([3.0, float("nan"), 1.0, 2.0]))
    tensor(2.)
    """
    refuse_bool("median_cpu", input.dtype)
    if dim is None:
        if not input.spec.numel:
            return median(input)
        flat = m.reshape(input, shape=(input.spec.numel,))
        return _of_equals(flat, _nan_middle(flat, 0, False).values)
    if not input.ndim:
        return types.nanmedian(*median(input, dim, keepdim))
    return _nan_middle(input, dim_of(dim, input), keepdim)


def _nan_middle(x: Tensor, d: int, keepdim: bool) -> types.nanmedian:
    """The lower median of what is not NaN along ``d``; NaN is sorted last."""
    if not x.dtype.is_floating_point:
        return _middle(types.nanmedian, x, d, keepdim)
    count = r.sum(c.logical_not(c.isnan(x)), dims=(d,), keepdim=True)
    order = o.argsort(x, dim=d, descending=False)
    middle = e.floor_divide(limits.clamp_min(e.sub(count, 1), 0), 2)
    return at_positions(types.nanmedian, x, ix.gather(order, middle, dim=d), d, keepdim)


@function(within=full_precision)
def quantile(
    input: Tensor,
    q: Tensor | float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """The value below which a share ``q`` of the elements lies; NaN if one is there.

    Raises ``RuntimeError`` for integers and when ``q`` is not in [0, 1].

    >>> import tracejit as tj
    >>> tj.quantile(tj.tensor([1.0, 2.0, 3.0, 4.0]), 0.5)
    tensor(2.5000)
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation)


@function(within=full_precision)
def nanquantile(
    input: Tensor,
    q: Tensor | float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """:func:`quantile` of the elements that are not NaN; NaN where there is none.

    Raises ``RuntimeError`` for integers and when ``q`` is not in [0, 1].

    >>> import tracejit as tj
    >>> tj.nanquantile(tj.tensor([1.0, float("nan"), 4.0]), 0.5)
    tensor(2.5000)
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation)


def _quantile(
    name: str,
    input: Tensor,
    q: Tensor | float,
    dim: int | None,
    keepdim: bool,
    interpolation: str,
) -> Tensor:
    if not input.dtype.is_floating_point or input.dtype.itemsize == 2:
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if not input.spec.numel:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}"
        )
    if is_tensor(q) and (q.ndim > 1 or q.dtype is not input.dtype):
        raise RuntimeError(
            f"{name}() q must be a scalar or 1D tensor of the same dtype as the input tensor"
        )
    inside = bool(((q >= 0) & (q <= 1)).all()) if is_tensor(q) else 0 <= q <= 1
    if not inside:
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")
    if dim is not None and not input.ndim:
        dim_of(dim, input)
        keepdim, dim = False, None
    whole = dim is None
    x = m.reshape(input, shape=(input.spec.numel,)) if whole else input
    d = 0 if dim is None else dim_of(dim, x)
    if not shape_of(x)[d]:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    values = sort(x, d).values
    shares = m.reshape(q, shape=(q.spec.numel,)) if is_tensor(q) else constant(q, x.dtype, (1,))
    nans = c.isnan(x)
    if name == "quantile":
        nan = r.any_true(nans, dims=(d,), keepdim=True)
        found = _at(values, e.mul(shares, shape_of(x)[d] - 1), d, interpolation, ix.take)
        last = slice_along(values, d, shape_of(x)[d] - 1, 1)  # NaN, which gets the gradient
        found = e.where(nan, last, found)
    else:  # NaN is sorted last
        count = r.sum(c.logical_not(nans), dims=(d,), keepdim=True)
        last = as_type(limits.clamp_min(e.sub(count, 1), 0), x.dtype)
        found = _at(values, e.mul(_along(shares, x, d), last), d, interpolation, ix.gather)
    first = m.permute(found, dims=(d, *(i for i in range(found.ndim) if i != d)))
    kept = (
        (1,) * input.ndim if whole else tuple(1 if i == d else n for i, n in enumerate(shape_of(x)))
    )
    left = kept if keepdim else tuple(n for i, n in enumerate(shape_of(x)) if i != d)
    return alone(
        m.reshape(first, shape=(shape_of(shares) if is_tensor(q) and q.ndim else ()) + left)
    )


_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _along(shares: Tensor, x: Tensor, d: int) -> Tensor:
    """A vector as dimension ``d`` of what has the dimensions of ``x``."""
    return m.reshape(shares, shape=tuple(shares.spec.numel if i == d else 1 for i in range(x.ndim)))


def _at(
    values: Tensor, position: Tensor, d: int, interpolation: str, read: Callable[..., Any]
) -> Tensor:
    """What lies at positions along dimension ``d`` of sorted ``values``, between neighbours too."""
    rounding = {"lower": e.floor, "higher": e.ceil, "nearest": e.round_half_even}.get(interpolation)
    if rounding is not None:
        return read(values, as_type(rounding(position), dtypes.int64), dim=d)
    low = e.floor(e.detach_copy(position))
    below = read(values, as_type(low, dtypes.int64), dim=d)
    above = read(values, as_type(e.ceil(e.detach_copy(position)), dtypes.int64), dim=d)
    share = e.sub(position, low)
    if read is ix.take:
        share = _along(share, values, d)
    return lerp(below, above, 0.5 if interpolation == "midpoint" else share)


@function()
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices:
    """The most frequent element along ``dim`` (the smallest of several), and where it last is.

    >>> import tracejit as tj
    >>> tj.mode(tj.tensor([3, 1, 3]))
    tracejit.return_types.mode(
    values=tensor(3),
    indices=tensor(2))
    """
    if not input.ndim:
        return types.mode(e.clone(input), o.argsort(input, dim=0, descending=False))
    d = dim_of(dim, input)
    order = o.argsort(input, dim=d, descending=False)
    values = ix.gather(input, order, dim=d)
    best = r.argmax(_run_lengths(values, d), dims=(d,), keepdim=True)
    first = ix.gather(values, best, dim=d)
    hits = as_type(c.eq(input, first), dtypes.int64)
    index = r.argmax(o.cumsum(hits, dim=d), dims=(d,), keepdim=True)
    return at_positions(types.mode, input, index, d, keepdim)


def _run_lengths(values: Tensor, d: int) -> Tensor:
    """How many equal elements in a row end at each position along ``d``."""
    from .triangles import positions

    count = shape_of(values)[d]
    along = m.reshape(positions(count, 0), shape=(count, *(1 for _ in range(d + 1, values.ndim))))
    later = slice_along(along, 0, 1, count - 1)
    before, after = (slice_along(values, d, start, count - 1) for start in (0, 1))
    starts = e.where(c.ne(before, after), later, 0)
    none = constant(0, dtypes.int64, (*shape_of(values)[:d], 1, *shape_of(values)[d + 1 :]))
    return e.sub(along, cummax(cat([none, starts], d), d).values)
