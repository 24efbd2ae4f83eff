"""Reductions of the elements that a mask keeps."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..dtypes import DType
from ..errors import ArgumentValueError
from ..ops.functions.common import Tensor, as_type, dims_of
from ..ops.functions.norms import vector_norm
from ..ops.functions.statistics import nanmedian
from ..ops.table import FUNCTIONS
from .filling import filled, highest, lowest

Dim = int | Sequence[int] | None


def _total_type(input: Tensor, dtype: DType | None) -> DType:
    """Integers are added and multiplied as int64."""
    return dtype or (input.dtype if input.dtype.is_differentiable else dtypes.int64)


def sum(
    input: Tensor,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The total over ``dim`` (None: all); 0 where nothing is kept.

    >>> import tracejit as tj
    >>> tj.masked.sum(tj.tensor([[1, 2], [3, 4]]), 1, mask=tj.tensor([True, False]))
    tensor([1, 3])
    """
    dims, kind = dims_of(dim, input), _total_type(input, dtype)
    return FUNCTIONS["sum"](filled(input, mask, 0), dims, keepdim, dtype=kind)


def prod(
    input: Tensor,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The product over ``dim`` (None: all); 1 where nothing is kept.

    >>> import tracejit as tj
    >>> tj.masked.prod(tj.tensor([2, 3, 5]), mask=tj.tensor([True, False, True]))
    tensor(10)
    """
    found, kind = filled(input, mask, 1), _total_type(input, dtype)
    for d in reversed(dims_of(dim, input)):
        found = FUNCTIONS["prod"](found, d, keepdim, dtype=kind)
    return as_type(found, kind)


def amax(
    input: Tensor,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The largest element kept; -inf, or the least integer, where there is none.

    >>> import tracejit as tj
    >>> tj.masked.amax(tj.tensor([1.0, 5.0, 2.0]), mask=tj.tensor([True, False, True]))
    tensor(2.)
    """
    found = FUNCTIONS["amax"](
        filled(input, mask, lowest(input.dtype)), dims_of(dim, input), keepdim
    )
    return as_type(found, dtype or input.dtype)


def amin(
    input: Tensor,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The smallest element kept; inf, or the largest integer, where there is none.

    >>> import tracejit as tj
    >>> tj.masked.amin(tj.tensor([1.0, 5.0, 2.0]), mask=tj.tensor([False, True, True]))
    tensor(2.)
    """
    found = FUNCTIONS["amin"](
        filled(input, mask, highest(input.dtype)), dims_of(dim, input), keepdim
    )
    return as_type(found, dtype or input.dtype)


def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The position of the largest element kept, in the input's dtype as PyTorch has it.

    >>> import tracejit as tj
    >>> tj.masked.argmax(tj.tensor([1, 5, 2]), mask=tj.tensor([True, False, True]))
    tensor(2)
    """
    found = FUNCTIONS["argmax"](filled(input, mask, lowest(input.dtype)), dim, keepdim)
    return as_type(found, dtype or input.dtype)


def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The position of the smallest element kept, in the input's dtype as PyTorch has it.

    >>> import tracejit as tj
    >>> tj.masked.argmin(tj.tensor([1, 5, 2]), mask=tj.tensor([False, True, True]))
    tensor(2)
    """
    found = FUNCTIONS["argmin"](filled(input, mask, highest(input.dtype)), dim, keepdim)
    return as_type(found, dtype or input.dtype)


def _count(input: Tensor, dims: tuple[int, ...], keepdim: bool, mask: Tensor | None) -> Any:
    """How many elements are kept along ``dims``."""
    if mask is None:
        return math.prod(input.shape[d] for d in dims)
    ones = as_type(FUNCTIONS["broadcast_to"](mask, input.shape), dtypes.int64)
    return FUNCTIONS["sum"](ones, dims, keepdim)


def mean(
    input: Tensor,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean over ``dim`` (None: all); NaN where nothing is kept.

    Raises ``ValueError`` for integers without a ``dtype``.

    >>> import tracejit as tj
    >>> tj.masked.mean(tj.tensor([1.0, 9.0, 2.0]), mask=tj.tensor([True, False, True]))
    tensor(1.5000)
    """
    kind = dtype or input.dtype
    if not kind.is_differentiable:
        raise ArgumentValueError(
            "mean(): Could not infer output dtype. dtype must be either a floating point or complex "
            f"dtype. Got: {kind}"
        )
    total = sum(input, dim, keepdim=keepdim, dtype=kind, mask=mask)
    return FUNCTIONS["div"](total, _count(input, dims_of(dim, input), keepdim, mask))


def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The lower median along ``dim``; NaN where nothing is kept.

    Raises ``ValueError`` for integers where nothing is kept.

    >>> import tracejit as tj
    >>> tj.masked.median(tj.tensor([1.0, 9.0, 2.0]), 0, mask=tj.tensor([True, False, True]))
    tensor(1.)
    """
    whole = not input.dtype.is_floating_point
    wide = as_type(input, dtypes.float32) if whole else input
    found = nanmedian(filled(wide, mask, math.nan), dim, keepdim).values
    if not whole:
        return found
    if builtins.bool(FUNCTIONS["isnan"](found).any()):
        raise ArgumentValueError(
            "masked median expects no fully masked out rows if dtype is not floating point"
        )
    return as_type(found, dtype or input.dtype)


def logsumexp(
    input: Tensor,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The logarithm of the total of exponentials; -inf where nothing is kept.

    >>> import tracejit as tj
    >>> tj.masked.logsumexp(tj.tensor([0.0, 9.0, 0.0]), mask=tj.tensor([True, False, True]))
    tensor(0.6931)
    """
    kept = filled(input, mask, lowest(input.dtype))
    found = FUNCTIONS["logsumexp"](kept, dims_of(dim, input), keepdim)
    return as_type(found, dtype or input.dtype)


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The vector norm of order ``ord`` over ``dim`` (None: all).

    >>> import tracejit as tj
    >>> tj.masked.norm(tj.tensor([3.0, 9.0, 4.0]), mask=tj.tensor([True, False, True]))
    tensor(5.)
    """
    neutral = math.inf if ord is not None and ord < 0 else 0.0
    order = 2.0 if ord is None else ord
    return vector_norm(
        filled(input, mask, neutral), order, dims_of(dim, input), keepdim, dtype=dtype
    )


def var(
    input: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean squared distance from the mean, over the count less ``correction`` (1, or 0 when not ``unbiased``).

    >>> import tracejit as tj
    >>> tj.masked.var(tj.tensor([1.0, 9.0, 3.0]), mask=tj.tensor([True, False, True]))
    tensor(2.)
    """
    kind = dtype or (input.dtype if input.dtype.is_differentiable else dtypes.float32)
    free = correction if correction is not None else float(unbiased is not False)
    dims = dims_of(dim, input)
    centre = mean(input, dims, keepdim=True, dtype=kind, mask=mask)
    squares = FUNCTIONS["square"](FUNCTIONS["abs"](FUNCTIONS["sub"](input, centre)))
    total = sum(squares, dims, keepdim=keepdim, dtype=kind, mask=mask)
    count = _count(input, dims, keepdim, mask)
    left = max(count - free, 0) if mask is None else (count - free).clamp(min=0)
    return as_type(FUNCTIONS["div"](total, left), kind)


def std(
    input: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The square root of :func:`var`.

    >>> import tracejit as tj
    >>> tj.masked.std(tj.tensor([1.0, 9.0, 3.0]), mask=tj.tensor([True, False, True]))
    tensor(1.4142)
    """
    found = var(
        input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask
    )
    return FUNCTIONS["sqrt"](found)
