"""The memory behind a tensor as elements of its dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .cuda.arrays import fetched
from .tensor_info import Storage

if TYPE_CHECKING:
    from .device import device
    from .dtypes import DType

__all__ = ["TypedStorage"]


class TypedStorage:
    """The memory behind a tensor and its views, counted in elements.

    >>> import tracejit as tj
    >>> memory = tj.arange(6.0)[2:].storage()
    >>> memory.size(), memory.dtype, memory[5]
    (6, tracejit.float32, 5.0)
    """

    def __init__(self, memory: Storage, dtype: DType) -> None:
        self._untyped_storage = memory
        self.dtype = dtype

    def untyped(self) -> Storage:
        """The same memory, counted in bytes."""
        return self._untyped_storage

    @property
    def device(self) -> device:
        """Where it lies."""
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        """Does it lie on a GPU?"""
        return self._untyped_storage.is_cuda

    def _elements(self) -> Any:
        return self._untyped_storage.elements(self.dtype.np)

    def __len__(self) -> int:
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    size = __len__

    def element_size(self) -> int:
        """Bytes per element."""
        return int(self.dtype.itemsize)

    def nbytes(self) -> int:
        """Size in bytes."""
        return self._untyped_storage.nbytes()

    def data_ptr(self) -> int:
        """Address of the first byte."""
        return self._untyped_storage.data_ptr()

    def is_shared(self) -> bool:
        """Can other processes see it?"""
        return self._untyped_storage.is_shared()

    def is_pinned(self) -> bool:
        """Is it memory of the host that a GPU reads by itself?"""
        return self._untyped_storage.is_pinned()

    def tolist(self) -> list[Any]:
        """The elements as numbers."""
        held = fetched(self._elements())
        found: list[Any] = (held.astype(np.float32) if self.dtype.is_extension else held).tolist()
        return found

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        found = fetched(self._elements()[index])
        return float(found) if self.dtype.is_extension else found.item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._elements()[index] = value

    def fill_(self, value: Any) -> TypedStorage:
        """Overwrite every element; returns self."""
        self[:] = value
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def clone(self) -> TypedStorage:
        """A copy, on the host."""
        return TypedStorage(self._untyped_storage.clone(), self.dtype)

    cpu = clone

    def __repr__(self) -> str:
        return f"TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self.data_ptr() == other.data_ptr()

    def __hash__(self) -> int:
        return hash(self.data_ptr())
