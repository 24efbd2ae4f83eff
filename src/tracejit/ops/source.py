"""Sources: tensors made from attributes alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import aligned, dtypes
from ..cuda.arrays import filled
from ..dtypes import DType
from ..types import Scalar, Shape, TensorType
from .conversions import convert_scalar
from .keys import making_device
from .slabs import converted
from .table import Array, Sample, source


def _full_type(*, shape: Shape, value: Scalar, dtype: DType) -> TensorType:
    return TensorType(shape, dtype)


@source(
    _full_type,
    scalar="convert(value, dtype)",
    samples=(
        Sample((), {"shape": (2, 3), "value": 1.5, "dtype": dtypes.float32}),
        Sample((), {"shape": (), "value": -1, "dtype": dtypes.uint8}),
    ),
)
def full(*, shape: Shape, value: Scalar, dtype: Any) -> Array:
    """A tensor of ``shape`` filled with ``value``."""
    index = making_device()
    if index >= 0:
        return filled(shape, convert_scalar(value, dtype), index)
    if type(value) is int and value == 0:
        return aligned.zeros(shape, dtype.np)
    array = aligned.empty(shape, dtype.np)
    array[...] = convert_scalar(value, dtype)
    return array


def _arange_type(*, start: Scalar, step: Scalar, count: int, dtype: DType) -> TensorType:
    return TensorType((count,), dtype)


@source(
    _arange_type,
    scalar="convert(start + index * step, dtype)",
    samples=(
        Sample((), {"start": 1, "step": -2, "count": 4, "dtype": dtypes.int64}),
        Sample((), {"start": 0.5, "step": 0.25, "count": 3, "dtype": dtypes.float32}),
        Sample((), {"start": 0, "step": 1, "count": 0, "dtype": dtypes.int64}),
    ),
)
def arange(*, start: Scalar, step: Scalar, count: int, dtype: Any) -> Array:
    """``start + i * step`` for i below ``count``."""
    return converted(np.asarray(start + np.arange(count) * step), dtype.np)


def _literal_type(*, values: tuple[Scalar, ...], shape: Shape, dtype: DType) -> TensorType:
    return TensorType(shape, dtype)


@source(
    _literal_type,
    samples=(Sample((), {"values": (3, 1), "shape": (2, 1), "dtype": dtypes.int64}),),
)
def literal(*, values: tuple[Scalar, ...], shape: Shape, dtype: Any) -> Array:
    """A small tensor written out: ``values`` in row-major order."""
    if dtype.is_floating_point:
        return converted(np.array(values, np.float64), dtype.np).reshape(shape)
    return np.array(values, dtype.np).reshape(shape)


def _triangle_type(*, rows: int, columns: int, offset: int, lower: bool, count: int) -> TensorType:
    return TensorType((2, count), dtypes.int64)


@source(
    _triangle_type,
    samples=(
        Sample((), {"rows": 3, "columns": 2, "offset": 0, "lower": True, "count": 5}),
        Sample((), {"rows": 2, "columns": 4, "offset": -1, "lower": False, "count": 7}),
    ),
)
def triangle(*, rows: int, columns: int, offset: int, lower: bool, count: int) -> Array:
    """Rows and columns of the elements of a matrix up to a diagonal, or of those behind it: ``count``, row by row."""
    row = np.arange(rows)
    ends = np.clip(row + offset + 1, 0, columns)
    each = ends if lower else columns - ends
    found = np.empty((2, count), np.int64)
    found[0] = np.repeat(row, each)
    first = np.cumsum(each) - each
    found[1] = np.arange(count) - np.repeat(first if lower else first - ends, each)
    return found


def _linspace_type(*, start: Scalar, end: Scalar, count: int, dtype: DType) -> TensorType:
    return TensorType((count,), dtype)


@source(
    _linspace_type,
    samples=(
        Sample((), {"start": 0, "end": 1, "count": 5, "dtype": dtypes.float32}),
        Sample((), {"start": 2, "end": 1, "count": 1, "dtype": dtypes.float64}),
    ),
)
def linspace_of(*, start: Scalar, end: Scalar, count: int, dtype: Any) -> Array:
    """``count`` evenly spaced numbers from ``start`` to ``end``; both halves count from their own end.

    In half precision every step of it is rounded, as in PyTorch.
    """
    kind = np.dtype(np.float64) if dtype.category != "float" else np.dtype(dtype.np)
    if count < 2:
        return converted(np.full(count, start), kind).astype(dtype.np)
    first, last = (converted(np.asarray(x), kind)[()] for x in (start, end))
    step = (last - first) / kind.type(count - 1)
    i = np.arange(count)
    rising, falling = first + step * i.astype(kind), last - step * (count - 1 - i).astype(kind)
    return np.where(i < count // 2, rising, falling).astype(dtype.np)
