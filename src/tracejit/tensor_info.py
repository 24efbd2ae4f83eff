"""Facts about a tensor: sizes, strides, storage, device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from .cuda.arrays import address_of, device_index, fetched, owner_of
from .cuda.driver import is_available
from .cuda.pinned import is_pinned, pinned
from .cuda.streams import lend
from .deferred import Deferred
from .device import device, device_at, index_of
from .errors import DeviceError
from .meta import ANY, META
from .mirrored import Mirrored, StandIn, memory_of_tensor
from .modes import MODES
from .ops.mixin import Size
from .ops.shapes import normalize_dim
from .tensor_core import TensorCore


class Storage:
    """The memory behind a tensor and its views: address and size in bytes.

    >>> import tracejit as tj
    >>> x = tj.tensor([1.0, 2.0, 3.0])
    >>> x.untyped_storage().data_ptr() == x.detach().untyped_storage().data_ptr()
    True
    """

    def __init__(self, array: Any = 0, *, device: Any = None) -> None:
        """The memory of an array, or so many bytes of the host."""
        if isinstance(array, int):
            if device is not None and index_of(device) >= 0:
                raise NotImplementedError("storages are made on the host: make a tensor instead")
            array = np.zeros(array, np.uint8)
        self._owner = owner_of(array)

    def _bytes(self) -> Any:
        """The bytes of the elements as they lie in memory."""
        return fetched(self._owner).ravel("K").view(np.uint8)

    def __len__(self) -> int:
        return self.nbytes()

    size = __len__

    def element_size(self) -> int:
        """Bytes per element: one."""
        return 1

    def __getitem__(self, index: Any) -> Any:
        """A byte, or the storage of some."""
        found = self._bytes()[index]
        return Storage(found.copy()) if isinstance(index, slice) else int(found)

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def elements(self, dtype: Any) -> Any:
        """The memory as a row of elements of a dtype of NumPy, an array that shows it."""
        owner = self._owner
        lying = owner if owner.flags.c_contiguous else owner.T
        return lying.reshape(-1).view(dtype)

    def tolist(self) -> list[int]:
        """The bytes."""
        found: list[int] = self._bytes().tolist()
        return found

    def clone(self) -> Storage:
        """A copy, on the host."""
        return Storage(self._bytes().copy())

    cpu = clone

    def untyped(self) -> Storage:
        """This storage, which has no type."""
        return self

    @property
    def device(self) -> device:
        """Where it lies."""
        return device_at(device_index(self._owner))

    @property
    def is_cuda(self) -> bool:
        """Does it lie on a GPU?"""
        return device_index(self._owner) >= 0

    def is_pinned(self) -> bool:
        """Is it memory of the host that a GPU reads by itself?"""
        return is_pinned(self._owner)

    def is_shared(self) -> bool:
        """Can other processes see it? Those of a GPU can."""
        return self.is_cuda

    def __repr__(self) -> str:
        return f"{type(self).__name__}(device={self.device}) of size {len(self)}"

    def data_ptr(self) -> int:
        """Address of the first byte."""
        return address_of(self._owner)

    def nbytes(self) -> int:
        """Size in bytes."""
        count: int = self._owner.nbytes
        return count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Storage) and self.data_ptr() == other.data_ptr()

    def __hash__(self) -> int:
        return hash(self.data_ptr())


class InfoMethods(TensorCore):
    """Sizes, strides and storage."""

    __slots__ = ()

    def dim_order(self, *, ambiguity_check: bool | Sequence[Any] = False) -> tuple[int, ...]:
        """The dimensions from the one with the largest steps in memory to that with the smallest.

        >>> import tracejit as tj
        >>> tj.ones(2, 3).t().dim_order()
        (1, 0)
        """
        steps = self.stride()
        return tuple(sorted(range(len(steps)), key=lambda d: -steps[d]))

    def const_data_ptr(self) -> int:
        """The address of the first element, as `data_ptr` gives it."""
        return int(self.data_ptr())

    def __nonzero__(self) -> bool:
        return bool(self)

    def __long__(self) -> int:
        return int(self)

    def module_load(self, other: Any, assign: bool = False) -> Any:
        """What takes the place of this parameter or buffer when ``other`` is loaded into a module."""
        return other if assign else self.copy_(other).detach()

    def dim(self) -> int:
        """Number of dimensions."""
        return len(self.spec.shape)

    def ndimension(self) -> int:
        """Number of dimensions."""
        return len(self.spec.shape)

    def numel(self) -> int:
        """Number of elements."""
        count: int = self.spec.numel
        return count

    def nelement(self) -> int:
        """Number of elements."""
        return self.numel()

    @overload
    def size(self) -> Size: ...

    @overload
    def size(self, dim: int) -> int: ...

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the extent of one dimension; ``IndexError`` for a dimension out of range."""
        if dim is None:
            return self.shape
        return self.spec.shape[normalize_dim(dim, len(self.spec.shape))]

    def element_size(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        count: int = self.spec.nbytes
        return count

    @overload
    def stride(self) -> tuple[int, ...]: ...

    @overload
    def stride(self, dim: int) -> int: ...

    def stride(self, dim: int | None = None) -> Any:
        """Distance in elements between neighbours, along each dimension or one."""
        _lies(self)
        strides = self._steps_in_memory()
        return strides if dim is None else strides[normalize_dim(dim, len(strides))]

    def _steps_in_memory(self) -> Any:
        """The same for questions whose answer does not hang on sizes that vary."""
        if type(self._block) is Deferred:
            return self._block.layout.strides
        if type(self._block) is Mirrored and self.spec.numel:
            memory = self._block.memory
            return tuple(s // memory.itemsize for s in memory.strides)
        if self._array is None or not self.spec.numel:  # NumPy's are zeros where there is nothing
            return self.spec.contiguous_strides()
        size = self.dtype.itemsize
        return tuple(s // size for s in self._array.strides)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """True when the elements lie in memory row by row without gaps."""
        if type(self._block) is Deferred:
            found = bool(self._block.layout.is_contiguous)
        elif type(self._block) is Mirrored:
            found = bool(self._block.memory.flags.c_contiguous)
        else:
            found = self._array is None or bool(self._array.flags.c_contiguous)
        return found if MODES.recorder is None else MODES.recorder.is_row_major(self, found)

    def storage_offset(self) -> int:
        """Elements between the start of the storage and the first element."""
        _lies(self)
        return offset_in_storage(self)

    def data_ptr(self) -> int:
        """Address of the first element."""
        return 0 if self.is_meta else address_of(memory_of_tensor(self))

    @property
    def _cdata(self) -> int:
        """A number that no other tensor has meanwhile: programs ask by it whether two names stand for one tensor."""
        return id(self)

    def untyped_storage(self) -> Storage:
        """The memory this tensor shares with its views."""
        _lies(self)
        return Storage(memory_of_tensor(self))

    def is_floating_point(self) -> bool:
        """True for float16, bfloat16, float32 and float64."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Is the dtype complex?"""
        return self.dtype.is_complex

    def is_signed(self) -> bool:
        """True unless bool or unsigned."""
        return self.dtype.is_signed

    @property
    def is_cuda(self) -> bool:
        """Does the storage live on a GPU?"""
        return self._device_index() >= 0

    def get_device(self) -> int:
        """The number of the GPU it lies on; -1, the number of the host."""
        return max(self._device_index(), -1)

    @property
    def is_meta(self) -> bool:
        """Has it no memory?"""
        return self._device_index() == META

    def _data(self, refusal: str) -> Any:
        """The array, of which numbers are read; ``RuntimeError`` where there are none."""
        if ANY[0] and self.is_meta:
            raise RuntimeError(refusal)
        return self.array

    def _stand_alone(self) -> None:
        """Be no view any more of a base that only this function knows; both still count writes together."""
        self._base = None
        for name in ("_steps", "_turned", "_piece", "_untracked_view", "_seen"):
            self.__dict__.pop(name, None)
        if MODES.recorder is not None:
            MODES.recorder.no_view(self)

    def _stands_for_samples(self) -> bool:
        """Is it one sample of a batch, inside ``vmap``? Such tensors are on the host."""
        return isinstance(self._block, StandIn) and type(self._block) is not Mirrored

    def _device_index(self) -> int:
        if type(self._block) is Deferred or self._stands_for_samples():
            return -1
        return device_index(memory_of_tensor(self))

    def cpu(self, memory_format: Any = None) -> Any:
        """A copy on the host; itself when it is there already."""
        return self.to("cpu")

    def cuda(
        self,
        device: str | device | int | None = None,
        non_blocking: bool = False,
        memory_format: Any = None,
    ) -> Any:
        """A copy on a GPU (the current one unless ``device`` says which); itself when it is there already.

        Raises ``RuntimeError`` where there is no such GPU.
        """
        return self.to("cuda" if device is None else device, non_blocking=non_blocking)

    def pin_memory(self, device: Any = None) -> Any:
        """A copy, without history, in memory of the host that a GPU reads by itself; itself where it lies there.

        So it is inside compiled functions and where there is no GPU. ``RuntimeError`` for a tensor on a GPU.
        """
        if self.is_cuda:
            raise DeviceError(
                f"cannot pin a tensor on {self.device}: only memory of the host can be pinned"
            )
        if not is_available() or MODES.recorder is not None or self.is_pinned():
            return self
        return self._wrap(pinned(self.array))

    def is_pinned(self, device: Any = None) -> bool:
        """Does the tensor lie in memory of the host that a GPU reads by itself?"""
        return not self.is_cuda and is_pinned(self.array)

    def record_stream(self, stream: Any) -> None:
        """Keep the memory, once nothing refers to it, until ``stream`` has done what it holds by then.

        It goes back to the pool of the stream it was made on, which knows of no other. Nothing on the host.
        """
        if self.is_cuda:
            lend(owner_of(self.array), stream)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """What NumPy's functions of arrays (``np.clip``, ``np.round``) make of a tensor is one, too."""
        return self._wrap(np.asarray(array))


def offset_in_storage(tensor: Any) -> int:
    """Elements between the start of a tensor's storage and its first one; no recorder is told that somebody asks."""
    array = memory_of_tensor(tensor)
    return int(address_of(array) - address_of(owner_of(array))) // int(tensor.dtype.itemsize)


def _lies(tensor: Any) -> None:
    """Python is about to learn how a tensor lies in memory."""
    if MODES.recorder is not None:
        MODES.recorder.layout_read(tensor)
