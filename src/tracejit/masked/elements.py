"""Running totals and normalisations of the elements that a mask keeps."""

from __future__ import annotations

import math

from ..dtypes import DType
from ..ops.functions.common import Tensor, as_type
from ..ops.table import FUNCTIONS
from .filling import filled, highest, lowest
from .reductions import norm


def cumsum(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """Totals up to each position of ``dim``, in the input's dtype.

    >>> import tracejit as tj
    >>> tj.masked.cumsum(tj.tensor([1, 2, 3]), 0, mask=tj.tensor([True, False, True]))
    tensor([1, 1, 4])
    """
    kind = dtype or input.dtype
    return as_type(FUNCTIONS["cumsum"](filled(input, mask, 0), dim, dtype=kind), kind)


def cumprod(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """Products up to each position of ``dim``, in the input's dtype.

    >>> import tracejit as tj
    >>> tj.masked.cumprod(tj.tensor([2, 3, 5]), 0, mask=tj.tensor([True, False, True]))
    tensor([ 2,  2, 10])
    """
    kind = dtype or input.dtype
    return as_type(FUNCTIONS["cumprod"](filled(input, mask, 1), dim, dtype=kind), kind)


def softmax(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """Softmax along ``dim`` of the elements kept; others get 0, and NaN where nothing is kept.

    >>> import tracejit as tj
    >>> tj.masked.softmax(tj.zeros(3), 0, mask=tj.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return FUNCTIONS["softmax"](
        filled(input, mask, lowest(input.dtype)), dim, dtype=dtype or input.dtype
    )


def log_softmax(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of :func:`softmax`.

    >>> import tracejit as tj
    >>> tj.masked.log_softmax(tj.zeros(3), 0, mask=tj.tensor([True, False, True]))
    tensor([-0.6931,    -inf, -0.6931])
    """
    return FUNCTIONS["log_softmax"](
        filled(input, mask, lowest(input.dtype)), dim, dtype=dtype or input.dtype
    )


def softmin(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """:func:`softmax` of ``-input``.

    >>> import tracejit as tj
    >>> tj.masked.softmin(tj.zeros(3), 0, mask=tj.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    negated = FUNCTIONS["neg"](filled(input, mask, highest(input.dtype)))
    return FUNCTIONS["softmax"](negated, dim, dtype=dtype or input.dtype)


def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """``input`` over its :func:`norm` along ``dim``, at least ``eps``; 0 where the mask is False.

    >>> import tracejit as tj
    >>> tj.masked.normalize(tj.tensor([3.0, 9.0, 4.0]), 2.0, 0, mask=tj.tensor([True, False, True]))
    tensor([0.6000, 0.0000, 0.8000])
    """
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return FUNCTIONS["div"](
        filled(input, mask, 0), FUNCTIONS["maximum"](size, size.new_full((), eps))
    )


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: DType | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """``log(exp(input) + exp(other))`` of the elements that each mask keeps.

    >>> import tracejit as tj
    >>> x = tj.zeros(2)
    >>> tj.masked.logaddexp(x, x, other_mask=tj.tensor([True, False]))
    tensor([0.6931, 0.0000])
    """
    found = FUNCTIONS["logaddexp"](
        filled(input, input_mask, -math.inf), filled(other, other_mask, -math.inf)
    )
    return as_type(found, dtype or input.dtype)
