"""Memory layouts, interned: two tensors lie alike exactly when their layouts are the same object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .cuda.arrays import MODULES, device_index, is_on_device
from .dtypes import from_numpy
from .meta import ANY, META, is_meta
from .mirrored import Mirrored
from .types import Shape, TensorType


@dataclass(frozen=True, eq=False, slots=True)
class MemoryLayout:
    """Type and strides (in elements) of a tensor, and the number of its device (-1: the host).

    >>> import tracejit as tj
    >>> str(layout_of(tj.zeros(2, 3).T))
    'f32[3, 2] strides (1, 3)'
    """

    spec: TensorType
    strides: Shape
    aligned: bool
    is_contiguous: bool  # row-major without gaps
    device: int = -1
    nbytes: int = 0  # of the elements
    mirrored: bool = False  # elements are conjugates, or negatives, of what lies there

    def __str__(self) -> str:
        if self.mirrored:
            return f"{self.spec} mirrored, strides {self.strides}"
        where = "" if self.device < 0 else f" on cuda:{self.device}"
        how = "" if self.is_contiguous else f" strides {self.strides}"
        return f"{self.spec}{how}{where}"


_interned: dict[Any, MemoryLayout] = {}
_of_arrays: dict[Any, MemoryLayout] = {}  # what was found for arrays of these shapes, strides, ...
_MOST_ARRAYS = 4096


def intern_layout(
    type: TensorType,
    strides: Shape,
    aligned: bool = True,
    device: int = -1,
    mirrored: bool = False,
) -> MemoryLayout:
    """The one layout object for these facts."""
    key = (type.shape, type.dtype.short, strides, aligned, device, mirrored)
    found = _interned.get(key)
    if found is None:
        dense = strides == type.contiguous_strides()
        found = _interned.setdefault(
            key, MemoryLayout(type, strides, aligned, dense, device, type.nbytes, mirrored)
        )
    return found


def contiguous_layout(type: TensorType, device: int = -1) -> MemoryLayout:
    """The row-major layout of a type."""
    return intern_layout(type, type.contiguous_strides(), device=device)


def array_layout(array: Any) -> MemoryLayout:
    """The layout of an array; strides along extents of one are normalised, for they are never used."""
    if (MODULES and is_on_device(array)) or (ANY[0] and is_meta(array)):
        return _array_layout(array)
    key = array.shape, array.strides, array.dtype, array.flags.aligned
    found = _of_arrays.get(key)
    if found is None:
        found = _array_layout(array)
        if len(_of_arrays) >= _MOST_ARRAYS:
            _of_arrays.clear()
        _of_arrays[key] = found
    return found


def _array_layout(array: Any) -> MemoryLayout:
    type = TensorType(array.shape, from_numpy(array.dtype))
    size = type.dtype.itemsize
    if MODULES and is_on_device(array):
        aligned, device = array.data.ptr % size == 0, device_index(array)
        dense = array.flags.c_contiguous
        strides = type.contiguous_strides() if dense else tuple(s // size for s in array.strides)
        aligned = aligned and all(s % size == 0 for s in array.strides)
        return intern_layout(type, strides, aligned, device)
    if ANY[0] and is_meta(array):
        dense = array.flags.c_contiguous
        steps = tuple(s // size for s in array.strides)
        return intern_layout(type, type.contiguous_strides() if dense else steps, True, META)
    if array.flags.c_contiguous:
        return intern_layout(type, type.contiguous_strides(), array.flags.aligned)
    whole = all(s % size == 0 for s in array.strides)
    strides = tuple(s // size for s in array.strides)
    return intern_layout(type, strides, bool(array.flags.aligned) and whole)


def layout_of(tensor: Any) -> MemoryLayout:
    """The layout of a tensor, remembered by it."""
    found: MemoryLayout | None = tensor._layout
    if found is None:
        found = tensor._layout = _of_tensor(tensor)
    return found


def _of_tensor(tensor: Any) -> MemoryLayout:
    if type(tensor._block) is not Mirrored:
        return array_layout(tensor.array)
    lies = array_layout(tensor._block.memory)  # but nobody finds the elements there
    return intern_layout(lies.spec, lies.strides, aligned=False, device=lies.device, mirrored=True)
