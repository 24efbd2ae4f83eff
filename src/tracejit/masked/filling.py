"""What stands in for elements that a mask leaves out."""

from __future__ import annotations

import math

from .. import dtypes
from ..dtypes import DType
from ..number_limits import iinfo
from ..ops.functions.common import Number, Tensor, as_type
from ..ops.table import FUNCTIONS


def filled(input: Tensor, mask: Tensor | None, value: Number) -> Tensor:
    """``input`` with what changes nothing where the mask is False.

    Raises ``IndexError`` for a mask of more dimensions.

    >>> import tracejit as tj
    >>> filled(tj.tensor([1, 2]), tj.tensor([True, False]), 0)
    tensor([1, 0])
    """
    if mask is None:
        return input
    if mask.ndim > input.ndim:
        raise IndexError("expected broadcastable mask (it has more dimensions than the input)")
    kept = as_type(mask, dtypes.bool_)
    return FUNCTIONS["where"](kept, input, as_type(input.new_full((), value), input.dtype))


def lowest(dtype: DType) -> Number:
    """-inf, or the least integer.

    >>> lowest(dtypes.int8)
    -128
    """
    return -math.inf if dtype.is_differentiable else iinfo(dtype).min


def highest(dtype: DType) -> Number:
    """inf, or the largest integer.

    >>> highest(dtypes.int8)
    127
    """
    return math.inf if dtype.is_differentiable else iinfo(dtype).max
