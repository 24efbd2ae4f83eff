"""Reductions as PyTorch spells them: sums, means, extremes, truth, moments and norms."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from ... import dtypes
from ...dtypes import DType, uint8
from ...errors import ArgumentError, DtypeError, warn
from .. import comparison as c
from .. import elementwise as e
from .. import movement as m
from .. import reduction as r
from .. import shapes
from .. import transcendental as t
from ..complex_numbers import magnitude
from ..precision import full_precision
from ..table import function
from .common import Tensor, alone, as_type, check_tensor, dims_of, refuse, shape_of, upcast
from .complex_numbers import real

Dim = int | Sequence[int] | None


@function(steady=True)
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


@function(steady=True)
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
    if not input.spec.dtype.is_differentiable:
        source = "Input" if dtype is None else "Optional"
        raise DtypeError(
            f"mean(): could not infer output dtype. {source} dtype must be either a floating point "
            f"or complex dtype. Got: {input.spec.dtype.title}"
        )
    dims = dims_of(dim, input)
    total = r.sum(upcast(input), dims=dims, keepdim=keepdim)
    return as_type(e.div(total, count(input, dims)), input.spec.dtype)


def count(x: Tensor, dims: Sequence[int]) -> int:
    """How many elements a reduction over ``dims`` takes together."""
    shape = shape_of(x)
    return shapes.numel([shape[d] for d in dims])


def dim_told(target: Callable[..., Any]) -> Callable[..., Any]:
    """``target``, which takes no None for ``dim``: all dimensions are meant where there is none.

    >>> import tracejit as tj
    >>> try:
    ...     tj.prod(tj.ones(2), None)
    ... except TypeError as error:
    ...     print(str(error).splitlines()[0])
    prod(): argument 'dim' must be int, not NoneType
    """

    @wraps(target)
    def call(*args: Any, **kwargs: Any) -> Any:
        if (args[1] if len(args) > 1 else kwargs.get("dim", 0)) is None:
            raise ArgumentError(f"{target.__name__}(): argument 'dim' must be int, not NoneType")
        return target(*args, **kwargs)

    return call


@function(within=lambda target: dim_told(full_precision(target)))
def prod(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The product over ``dim`` (all dimensions by default); int64 for bools and integers.

    Raises ``TypeError`` for several dimensions.

    >>> import tracejit as tj
    >>> tj.prod(tj.tensor([2, 3, 4]))
    tensor(24)
    """
    if isinstance(dim, (tuple, list)):
        raise ArgumentError(f"prod(): argument 'dim' must be int, not {type(dim).__name__}")
    narrow = None if dtype is None else dtypes.as_dtype(dtype)
    x = input if narrow is None else as_type(input, narrow)
    result = r.prod(x, dims=dims_of(dim, x), keepdim=keepdim)
    return result if narrow is None else as_type(result, narrow)


@function(large=True)
def nansum(
    input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The sum with NaN counted as zero.

    >>> import tracejit as tj
    >>> tj.nansum(tj.tensor([1.0, float("nan")]))
    tensor(1.)
    """
    refuse("nansum", input.dtype, "complex")
    x = e.where(c.isnan(input), 0, input) if input.dtype.is_differentiable else input
    return sum(x, dim, keepdim, dtype=dtype)


@function(large=True)
def nanmean(
    input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The mean of what is not NaN.

    >>> import tracejit as tj
    >>> tj.nanmean(tj.tensor([1.0, float("nan"), 3.0]))
    tensor(2.)
    """
    check_tensor("nanmean", input)
    if not input.dtype.is_differentiable:
        raise DtypeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {input.dtype.title}"
        )
    there = c.logical_not(c.isnan(input))
    return nansum(input, dim, keepdim, dtype=dtype) / sum(there, dim, keepdim)


# --- extremes -----------------------------------------------------------------------------------


# --- truth --------------------------------------------------------------------------------------


def _truth(op: Any, x: Tensor, dim: Dim, keepdim: bool) -> Tensor:
    none = isinstance(dim, Sequence) and not dim  # which means all to sums
    result = op(x, dims=() if none else dims_of(dim, x), keepdim=keepdim)
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


def _free(target: Callable[..., Any]) -> Callable[..., Any]:
    """``target``, with a warning where nothing is left to vary."""

    @wraps(target)
    def call(input: Any, *args: Any, **kwargs: Any) -> Any:
        found = target(input, *args, **kwargs)
        result = found[0] if isinstance(found, tuple) else found
        _warn_of_freedom(target.__name__, input, result, *args, **kwargs)
        return found

    return call


def _warn_of_freedom(
    name: str,
    input: Tensor,
    result: Tensor,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> None:
    _, correction = _moment_arguments(dim, unbiased, correction)
    size = result.spec.numel
    if input.spec.numel <= correction * size:
        warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
            "(input numel divided by output numel)."
        )


def _variance(x: Tensor, dim: Dim, correction: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    if not x.dtype.is_differentiable:
        raise DtypeError("std and var only support floating point and complex dtypes")
    dims = dims_of(dim, x)
    wide = upcast(x)
    n = count(x, dims)
    center = e.div(r.sum(wide, dims=dims, keepdim=True), n)
    away = e.sub(wide, center)
    away = magnitude(away) if away.dtype.is_complex else away
    squares = r.sum(e.square(away), dims=dims, keepdim=keepdim)
    average = center if keepdim or not dims else alone(m.squeeze(center, dims=dims))
    return e.div(squares, builtins.max(n - correction, 0)), average


@function(steady=True, within=_free, large=True)
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
    return as_type(_variance(input, dim, correction, keepdim)[0], input.dtype.to_real())


@function(steady=True, within=_free, large=True)
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
    return as_type(root(_variance(input, dim, correction, keepdim)[0]), input.dtype.to_real())


def root(x: Tensor) -> Tensor:
    """The square root, with a gradient of zero at zero."""
    zero = c.eq(x, 0)
    return e.where(zero, 0.0, t.sqrt(e.where(zero, 1.0, x)))


@function(steady=True, within=_free, large=True)
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
    return as_type(variance, input.dtype.to_real()), as_type(average, input.dtype)


@function(steady=True, within=_free, large=True)
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
    return as_type(root(variance), input.dtype.to_real()), as_type(average, input.dtype)


@function(steady=True, large=True)
def logsumexp(input: Tensor, dim: Dim, keepdim: bool = False) -> Tensor:
    """``log(sum(exp(input)))`` over ``dim`` without overflow.

    >>> import tracejit as tj
    >>> tj.logsumexp(tj.tensor([1000.0, 1000.0]), 0)
    tensor(1000.6932)
    """
    if dim is None:
        raise ArgumentError("logsumexp(): argument 'dim' must be tuple of ints, not NoneType")
    x = upcast(
        input if input.dtype.is_differentiable else as_type(input, dtypes.get_default_dtype())
    )
    dims = dims_of(dim, x)
    if count(x, dims) == 0:
        kind = input.dtype if input.dtype.is_differentiable else x.dtype
        return as_type(t.log(r.sum(t.exp(x), dims=dims, keepdim=keepdim)), kind)
    sizes = real(x)  # of a complex exponential the real part alone can overflow
    top = e.detach_copy(r.amax(sizes, dims=dims, keepdim=True))
    top = e.where(c.isinf(top), 0.0, top)
    total = r.sum(t.exp(e.sub(x, top)), dims=dims, keepdim=True)
    result = e.add(t.log(total), top)
    result = result if keepdim or not dims else alone(m.squeeze(result, dims=dims))
    return as_type(result, input.dtype if input.dtype.is_differentiable else x.dtype)


# --- norms --------------------------------------------------------------------------------------
