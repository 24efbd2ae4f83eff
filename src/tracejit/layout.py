"""Memory layouts, interned: two tensors lie alike exactly when their layouts are the same object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .dtypes import from_numpy
from .types import Shape, TensorType


@dataclass(frozen=True, eq=False, slots=True)
class MemoryLayout:
    """Type and strides (in elements) of a tensor.

    >>> import tracejit as tj
    >>> str(layout_of(tj.zeros(2, 3).T))
    'f32[3, 2] strides (1, 3)'
    """

    type: TensorType
    strides: Shape
    aligned: bool
    is_contiguous: bool  # row-major without gaps

    def __str__(self) -> str:
        return str(self.type) if self.is_contiguous else f"{self.type} strides {self.strides}"


_interned: dict[Any, MemoryLayout] = {}


def intern_layout(type: TensorType, strides: Shape, aligned: bool = True) -> MemoryLayout:
    """The one layout object for these facts."""
    key = (type.shape, type.dtype.short, strides, aligned)
    found = _interned.get(key)
    if found is None:
        found = _interned.setdefault(
            key, MemoryLayout(type, strides, aligned, strides == type.contiguous_strides())
        )
    return found


def contiguous_layout(type: TensorType) -> MemoryLayout:
    """The row-major layout of a type."""
    return intern_layout(type, type.contiguous_strides())


def array_layout(array: Any) -> MemoryLayout:
    """The layout of an array; strides along extents of one are normalised, for they are never used."""
    type = TensorType(array.shape, from_numpy(array.dtype))
    size = type.dtype.itemsize
    if array.flags.c_contiguous:
        return intern_layout(type, type.contiguous_strides(), array.flags.aligned)
    whole = all(s % size == 0 for s in array.strides)
    strides = tuple(s // size for s in array.strides)
    return intern_layout(type, strides, bool(array.flags.aligned) and whole)


def layout_of(tensor: Any) -> MemoryLayout:
    """The layout of a tensor, remembered by it."""
    found: MemoryLayout | None = tensor._layout
    if found is None:
        found = tensor._layout = array_layout(tensor.array)
    return found
