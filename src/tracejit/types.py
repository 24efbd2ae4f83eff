"""The type of a tensor as the IR, errors and logs spell it: ``f32[32, 8]``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from .device import device as _device
from .dtypes import DType, from_numpy

Shape = tuple[int, ...]
Scalar = bool | int | float

#: Names that annotations of programs use.
Number: TypeAlias = int | float | bool
Device: TypeAlias = _device | str | int | None
_int, _float, _bool = int, float, bool
_dtype = DType
_size: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type and shape.

    >>> from tracejit import float32
    >>> str(TensorType((32, 8), float32))
    'f32[32, 8]'
    """

    shape: Shape
    dtype: DType

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def numel(self) -> int:
        """Number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def nbytes(self) -> int:
        """Bytes of the contiguous tensor."""
        return self.numel * self.dtype.itemsize

    def contiguous_strides(self) -> Shape:
        """Row-major strides in elements; every extent counts as at least one."""
        strides = []
        step = 1
        for extent in reversed(self.shape):
            strides.append(step)
            step *= max(extent, 1)
        return tuple(reversed(strides))

    def __str__(self) -> str:
        return f"{self.dtype.short}[{', '.join(map(str, self.shape))}]"


class Turned(TensorType):
    """The type of a matrix of which columns, not rows, lie side by side in memory: a transposed one."""

    __slots__ = ()


@lru_cache(maxsize=4096)
def array_type(shape: Shape, dtype: Any) -> TensorType:
    """The type of an array with this shape and NumPy dtype: the same object every time.

    Raises ``TypeError`` for dtypes that tensors cannot hold.

    >>> import numpy as np
    >>> str(array_type((2, 3), np.dtype(np.int64)))
    'i64[2, 3]'
    """
    return TensorType(shape, from_numpy(dtype))
