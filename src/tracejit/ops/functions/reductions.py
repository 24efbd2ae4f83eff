"""Reductions as PyTorch spells them: sums, means, extremes, truth, moments and norms."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import dtypes
from ...dtypes import DType, uint8
from ...errors import DtypeError
from .. import comparison as c
from .. import elementwise as e
from .. import indexing as ix
from .. import movement as m
from .. import reduction as r
from .. import shapes
from .. import transcendental as t
from ..table import function
from .common import (
    Number,
    Tensor,
    as_type,
    check_tensor,
    dim_of,
    dims_of,
    is_tensor,
    shape_of,
    upcast,
)

Dim = int | Sequence[int] | None


class ValuesAndIndices(NamedTuple):
    """Extremes (or sorted values) along a dimension, and where they were found."""

    values: Tensor
    indices: Tensor


class MinMax(NamedTuple):
    """The smallest and the largest elements."""

    min: Tensor
    max: Tensor


@function()
def sum(
    input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The sum over ``dim`` (all dimensions by default); int64 for bools and integers.

    >>> import tracejit as tj
    >>> tj.sum(tj.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1)
    tensor([3., 7.])
    """
    check_tensor("sum", input)
    if dtype is not None:
        narrow = dtypes.as_dtype(dtype)
        x = as_type(input, narrow)
        return as_type(r.sum(x, dims=dims_of(dim, x), keepdim=keepdim), narrow)
    return r.sum(input, dims=dims_of(dim, input), keepdim=keepdim)


@function()
def mean(
    input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The mean over ``dim`` (all dimensions by default); NaN over nothing.

    Raises ``RuntimeError`` for integers, unless ``dtype`` is floating point.

    >>> import tracejit as tj
    >>> tj.mean(tj.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
    tensor([2., 3.])
    """
    check_tensor("mean", input)
    if dtype is not None:
        input = as_type(input, dtypes.as_dtype(dtype))
    if not input.type.dtype.is_floating_point:
        source = "Input" if dtype is None else "Optional"
        raise DtypeError(
            f"mean(): could not infer output dtype. {source} dtype must be either a floating point "
            f"or complex dtype. Got: {input.type.dtype.title}"
        )
    dims = dims_of(dim, input)
    total = r.sum(upcast(input), dims=dims, keepdim=keepdim)
    return as_type(e.div(total, count(input, dims)), input.type.dtype)


def count(x: Tensor, dims: Sequence[int]) -> int:
    """How many elements a reduction over ``dims`` takes together."""
    shape = shape_of(x)
    return shapes.numel([shape[d] for d in dims])


@function()
def prod(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The product over ``dim`` (all dimensions by default); int64 for bools and integers.

    >>> import tracejit as tj
    >>> tj.prod(tj.tensor([2, 3, 4]))
    tensor(24)
    """
    narrow = None if dtype is None else dtypes.as_dtype(dtype)
    x = input if narrow is None else as_type(input, narrow)
    result = r.prod(x, dims=dims_of(dim, x), keepdim=keepdim)
    return result if narrow is None else as_type(result, narrow)


@function()
def nansum(
    input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The sum with NaN counted as zero.

    >>> import tracejit as tj
    >>> tj.nansum(tj.tensor([1.0, float("nan")]))
    tensor(1.)
    """
    x = e.where(c.isnan(input), 0, input) if input.dtype.is_floating_point else input
    return sum(x, dim, keepdim, dtype=dtype)


@function()
def nanmean(
    input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The mean of what is not NaN.

    >>> import tracejit as tj
    >>> tj.nanmean(tj.tensor([1.0, float("nan"), 3.0]))
    tensor(2.)
    """
    there = c.logical_not(c.isnan(input))
    return nansum(input, dim, keepdim, dtype=dtype) / sum(there, dim, keepdim)


# --- extremes -----------------------------------------------------------------------------------


def _refuse_empty(name: str, x: Tensor) -> None:
    if shapes.numel(shape_of(x)) == 0:
        raise IndexError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the 'dim' argument."
        )


@function()
def amax(input: Tensor, dim: Dim = (), keepdim: bool = False) -> Tensor:
    """The largest element over ``dim``; NaN if one is there. Equal ones share the gradient.

    Raises ``IndexError`` over no elements.

    >>> import tracejit as tj
    >>> tj.amax(tj.tensor([[1, 5], [4, 2]]), 1)
    tensor([5, 4])
    """
    return r.amax(input, dims=dims_of(dim, input), keepdim=keepdim)


@function()
def amin(input: Tensor, dim: Dim = (), keepdim: bool = False) -> Tensor:
    """The smallest element over ``dim``; NaN if one is there. Equal ones share the gradient.

    Raises ``IndexError`` over no elements.

    >>> import tracejit as tj
    >>> tj.amin(tj.tensor([[1, 5], [4, 2]]), 1)
    tensor([1, 2])
    """
    return r.amin(input, dims=dims_of(dim, input), keepdim=keepdim)


@function()
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
    """The smallest and the largest element.

    >>> import tracejit as tj
    >>> tj.aminmax(tj.tensor([3, 1, 2]))
    MinMax(min=tensor(1), max=tensor(3))
    """
    dims = dims_of(dim, input)
    return MinMax(
        r.amin(input, dims=dims, keepdim=keepdim), r.amax(input, dims=dims, keepdim=keepdim)
    )


def _picked(x: Tensor, index_op: Any, dim: int, keepdim: bool) -> ValuesAndIndices:
    """Values at the indices an op finds along ``dim``: the gradient goes to those positions."""
    d = dim_of(dim, x)
    if x.ndim == 0:
        return ValuesAndIndices(e.clone(x), index_op(x, dims=(), keepdim=False))
    indices = index_op(x, dims=(d,), keepdim=True)
    values = ix.gather(x, indices, dim=d)
    if not keepdim:
        values, indices = m.squeeze(values, dims=(d,)), m.squeeze(indices, dims=(d,))
    return ValuesAndIndices(values, indices)


@function()
def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The largest element; with ``dim``, ``(values, indices)``; with a tensor, the elementwise maximum.

    Raises ``IndexError`` over no elements.

    >>> import tracejit as tj
    >>> tj.max(tj.tensor([1, 5, 2]))
    tensor(5)
    >>> tj.max(tj.tensor([[1, 5], [4, 2]]), 1)
    ValuesAndIndices(values=tensor([5, 4]), indices=tensor([1, 0]))
    """
    if is_tensor(dim) or other is not None:
        return e.maximum(input, dim if other is None else other)
    if dim is None:
        _refuse_empty("max", input)
        return r.amax(input, dims=tuple(range(input.ndim)), keepdim=False)
    return _picked(input, r.argmax, dim, keepdim)


@function()
def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The smallest element; with ``dim``, ``(values, indices)``; with a tensor, the elementwise minimum.

    Raises ``IndexError`` over no elements.

    >>> import tracejit as tj
    >>> tj.min(tj.tensor([3, 1, 2]))
    tensor(1)
    """
    if is_tensor(dim) or other is not None:
        return e.minimum(input, dim if other is None else other)
    if dim is None:
        _refuse_empty("min", input)
        return r.amin(input, dims=tuple(range(input.ndim)), keepdim=False)
    return _picked(input, r.argmin, dim, keepdim)


def _arg(name: str, op: Any, x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if x.dtype is dtypes.bool_:
        raise RuntimeError(f"{name}(): does not support bool input")
    if dim is not None:
        dims = (dim_of(dim, x),) if x.ndim else ()
        dim_of(dim, x)
        return op(x, dims=dims, keepdim=keepdim)
    _refuse_empty(name, x)
    flat = m.reshape(x, shape=(shapes.numel(shape_of(x)),))
    result = op(flat, dims=(0,), keepdim=False)
    return m.reshape(result, shape=(1,) * x.ndim) if keepdim else result


@function()
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The first position of the largest element, in the flattened tensor or along ``dim``.

    Raises ``IndexError`` over no elements.

    >>> import tracejit as tj
    >>> tj.argmax(tj.tensor([[1, 5], [4, 2]]), dim=1)
    tensor([1, 0])
    """
    return _arg("argmax", r.argmax, input, dim, keepdim)


@function()
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The first position of the smallest element, in the flattened tensor or along ``dim``.

    Raises ``IndexError`` over no elements.

    >>> import tracejit as tj
    >>> tj.argmin(tj.tensor([[1, 5], [4, 2]]))
    tensor(0)
    """
    return _arg("argmin", r.argmin, input, dim, keepdim)


# --- truth --------------------------------------------------------------------------------------


def _truth(op: Any, x: Tensor, dim: Dim, keepdim: bool) -> Tensor:
    result = op(x, dims=dims_of(dim, x), keepdim=keepdim)
    return as_type(result, uint8) if x.dtype is uint8 else result


@function()
def all(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Are all elements over ``dim`` non-zero? (uint8 for uint8 tensors.)

    >>> import tracejit as tj
    >>> tj.all(tj.tensor([[True, False], [True, True]]), dim=1)
    tensor([False,  True])
    """
    return _truth(r.all_true, input, dim, keepdim)


@function()
def any(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Is some element over ``dim`` non-zero? (uint8 for uint8 tensors.)

    >>> import tracejit as tj
    >>> tj.any(tj.tensor([[False, False], [True, False]]), dim=1)
    tensor([False,  True])
    """
    return _truth(r.any_true, input, dim, keepdim)


@function()
def count_nonzero(input: Tensor, dim: Dim = None) -> Tensor:
    """How many elements over ``dim`` are not zero.

    >>> import tracejit as tj
    >>> tj.count_nonzero(tj.tensor([0, 3, 5]))
    tensor(2)
    """
    return sum(c.ne(input, 0), dim)


# --- moments ------------------------------------------------------------------------------------


def _moment_arguments(dim: Any, unbiased: Any, correction: Any) -> tuple[Dim, float]:
    """``var(x, False)`` and ``var(x, dim, unbiased)`` of old, ``correction`` of new."""
    if isinstance(dim, builtins.bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return dim, correction


def _variance(x: Tensor, dim: Dim, correction: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    if not x.dtype.is_floating_point:
        raise DtypeError("std and var only support floating point and complex dtypes")
    dims = dims_of(dim, x)
    wide = upcast(x)
    n = count(x, dims)
    center = e.div(r.sum(wide, dims=dims, keepdim=True), n)
    squares = r.sum(e.square(e.sub(wide, center)), dims=dims, keepdim=keepdim)
    average = center if keepdim or not dims else m.squeeze(center, dims=dims)
    return e.div(squares, builtins.max(n - correction, 0)), average


@function()
def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """The variance over ``dim``: squared distances from the mean over ``n - correction``.

    Raises ``RuntimeError`` for integers.

    >>> import tracejit as tj
    >>> tj.var(tj.tensor([1.0, 2.0, 3.0])), tj.var(tj.tensor([1.0, 2.0, 3.0]), correction=0)
    (tensor(1.), tensor(0.6667))
    """
    dim, correction = _moment_arguments(dim, unbiased, correction)
    return as_type(_variance(input, dim, correction, keepdim)[0], input.dtype)


@function()
def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """The standard deviation over ``dim``; see :func:`var`. Its gradient at zero is zero.

    >>> import tracejit as tj
    >>> tj.std(tj.tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    dim, correction = _moment_arguments(dim, unbiased, correction)
    return as_type(root(_variance(input, dim, correction, keepdim)[0]), input.dtype)


def root(x: Tensor) -> Tensor:
    """The square root, with a gradient of zero at zero."""
    zero = c.eq(x, 0)
    return e.where(zero, 0.0, t.sqrt(e.where(zero, 1.0, x)))


@function()
def var_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """The variance and the mean over ``dim``.

    >>> import tracejit as tj
    >>> tj.var_mean(tj.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    dim, correction = _moment_arguments(dim, unbiased, correction)
    variance, average = _variance(input, dim, correction, keepdim)
    return as_type(variance, input.dtype), as_type(average, input.dtype)


@function()
def std_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """The standard deviation and the mean over ``dim``.

    >>> import tracejit as tj
    >>> tj.std_mean(tj.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    dim, correction = _moment_arguments(dim, unbiased, correction)
    variance, average = _variance(input, dim, correction, keepdim)
    return as_type(root(variance), input.dtype), as_type(average, input.dtype)


@function()
def logsumexp(input: Tensor, dim: Dim, keepdim: bool = False) -> Tensor:
    """``log(sum(exp(input)))`` over ``dim`` without overflow.

    >>> import tracejit as tj
    >>> tj.logsumexp(tj.tensor([1000.0, 1000.0]), 0)
    tensor(1000.6931)
    """
    x = upcast(
        input if input.dtype.is_floating_point else as_type(input, dtypes.get_default_dtype())
    )
    dims = dims_of(dim, x)
    if count(x, dims) == 0:
        return as_type(t.log(r.sum(t.exp(x), dims=dims, keepdim=keepdim)), x.dtype)
    top = e.detach_copy(r.amax(x, dims=dims, keepdim=True))
    top = e.where(c.isinf(top), 0.0, top)
    total = r.sum(t.exp(e.sub(x, top)), dims=dims, keepdim=True)
    result = e.add(t.log(total), top)
    result = result if keepdim or not dims else m.squeeze(result, dims=dims)
    return as_type(result, input.dtype if input.dtype.is_floating_point else x.dtype)


# --- norms --------------------------------------------------------------------------------------


@function(method=False, namespace=False)
def vector_norm(
    x: Tensor,
    ord: Number = 2,
    dim: Dim = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """``sum(|x|**ord)**(1/ord)`` over ``dim``; inf, -inf and 0 as their limits.

    >>> import tracejit as tj
    >>> tj.norm(tj.tensor([3.0, 4.0]))
    tensor(5.)
    """
    x = x if dtype is None else as_type(x, dtypes.as_dtype(dtype))
    if not x.dtype.is_floating_point:
        raise DtypeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. "
            f"Got {x.dtype.title}"
        )
    wide, dims = upcast(x), dims_of(dim, x)
    return as_type(_norm_of(wide, ord, dims, keepdim), x.dtype)


def _norm_of(x: Tensor, p: Number, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    if p == 2:
        return root(r.sum(e.square(x), dims=dims, keepdim=keepdim))
    if p == 0:
        return as_type(r.sum(c.ne(x, 0), dims=dims, keepdim=keepdim), x.dtype)
    size = e.abs(x)
    if p == 1:
        return r.sum(size, dims=dims, keepdim=keepdim)
    if p == math.inf:
        return r.amax(size, dims=dims, keepdim=keepdim)
    if p == -math.inf:
        return r.amin(size, dims=dims, keepdim=keepdim)
    total = r.sum(e.pow(size, p), dims=dims, keepdim=keepdim)
    zero = c.eq(total, 0)
    return e.where(zero, 0.0, e.pow(e.where(zero, 1.0, total), 1.0 / p))


@function()
def norm(
    input: Tensor,
    p: Any = "fro",
    dim: Dim = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """The vector norm of order ``p`` over ``dim`` ("fro" is 2).

    Raises ``RuntimeError`` for integers.

    >>> import tracejit as tj
    >>> tj.norm(tj.tensor([[3.0, 4.0], [6.0, 8.0]]), dim=1)
    tensor([ 5., 10.])
    """
    return vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)


@function()
def dist(input: Tensor, other: Tensor, p: Number = 2) -> Tensor:
    """The ``p`` norm of ``input - other``.

    >>> import tracejit as tj
    >>> tj.dist(tj.zeros(2), tj.tensor([3.0, 4.0]))
    tensor(5.)
    """
    return vector_norm(e.sub(input, other), p)
