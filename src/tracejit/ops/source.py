"""Sources: tensors made from attributes alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import DType
from ..types import Scalar, Shape, TensorType
from .table import Array, Sample, convert_scalar, source


def _full_type(*, shape: Shape, value: Scalar, dtype: DType) -> TensorType:
    return TensorType(shape, dtype)


@source(_full_type, scalar="convert(value, dtype)")
def full(*, shape: Shape, value: Scalar, dtype: Any) -> Array:
    """A tensor of ``shape`` filled with ``value``."""
    return np.full(shape, convert_scalar(value, dtype), dtype.np)


def _arange_type(*, start: Scalar, step: Scalar, count: int, dtype: DType) -> TensorType:
    return TensorType((count,), dtype)


@source(_arange_type, scalar="convert(start + index * step, dtype)")
def arange(*, start: Scalar, step: Scalar, count: int, dtype: Any) -> Array:
    """``start + i * step`` for i below ``count``."""
    return (start + np.arange(count) * step).astype(dtype.np)
