"""Arrays in a GPU's memory: CuPy's, which is loaded when a tensor is first placed on a device.

Everything that treats arrays of the host and of a device alike asks here: which module computes with an array, where it
lies, and how it moves. Until CuPy is loaded no array can lie on a device, and every question has a quick answer.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DeviceError
from ..meta import ANY, META, NO_DATA, MetaArray, is_meta, meta_like
from .driver import fault, require

#: The array types that lie on devices, and the modules that compute with them; empty until one is loaded.
MODULES: dict[type, Any] = {}


def namespace() -> Any:
    """CuPy; `DeviceError` where there is no GPU, or where CuPy is not installed.

    >>> from tracejit.cuda.driver import is_available
    >>> is_available() or namespace()  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    tracejit.errors.NoDeviceError: ...
    """
    for module in MODULES.values():
        return module
    require()  # libraries above the driver may wait for ever where there is none
    try:
        module = importlib.import_module("cupy")
    except ImportError as error:
        raise DeviceError(
            f"tensors on a GPU need CuPy, which cannot be imported: {error}",
            'Install it: pip install "tracejit[cuda13]", or "tracejit[cuda12]" for drivers older than 580.',
        ) from None
    from .memory import watch_memory

    watch_memory(module)
    MODULES[module.ndarray] = module
    return module


def current_index() -> int:
    """The number of the device that "cuda" means."""
    return int(namespace().cuda.runtime.getDevice())


def module_of(*arrays: Any) -> Any:
    """The module whose functions work on ``arrays``: that of a device where one of them lies on one.

    >>> module_of(np.zeros(2)) is np
    True
    """
    if MODULES:
        for array in arrays:
            module = MODULES.get(type(array))
            if module is not None:
                return module
    return np


def is_on_device(array: Any) -> bool:
    """Does an array lie in a GPU's memory?

    >>> is_on_device(np.zeros(2))
    False
    """
    return bool(MODULES) and type(array) in MODULES


def device_index(array: Any) -> int:
    """The number of the device an array lies on, -1 for the host.

    >>> device_index(np.zeros(2))
    -1
    """
    if ANY[0] and type(array) is MetaArray:
        return META
    return int(array.device.id) if is_on_device(array) else -1


def address_of(array: Any) -> int:
    """The address of an array's first element, in whichever memory it lies."""
    if MODULES and type(array) in MODULES:
        return int(array.data.ptr)
    if _AT and type(array) is np.ndarray:
        return _word_at(id(array) + _AT).value
    return _asked_for(array)


def _asked_for(array: Any) -> int:
    """The address that an array of the host tells."""
    return int(array.__array_interface__["data"][0])


def _place_of_address() -> int:
    """Where in an array of NumPy its address stands, which takes a sixth of asking for it; 0 if not there.

    It is the first field of ``PyArrayObject``, which is part of NumPy's C API.
    """
    sample, place = np.zeros(4)[1:], object.__basicsize__
    found = sys.implementation.name == "cpython" and _word_at(id(sample) + place).value
    return place if found == _asked_for(sample) else 0


_word_at = ctypes.c_size_t.from_address
_AT = _place_of_address()


def owner_of(array: Any) -> Any:
    """The array at the end of the chain of views: it owns the memory, or borrows what another library owns.

    >>> x = np.zeros((2, 3))
    >>> owner_of(x[1:].T) is x
    True
    """
    while hasattr(array.base, "dtype") and hasattr(array.base, "base"):
        array = array.base
    return array


def repeated_dims(strides: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """The dimensions along which several elements lie in one place.

    >>> x = np.broadcast_to(np.zeros((2, 1)), (2, 3))
    >>> repeated_dims(x.strides, x.shape)
    (1,)
    """
    pairs = zip(strides, shape, strict=True)
    return tuple([d for d, (step, n) in enumerate(pairs) if not step and n > 1])


def is_writeable(array: Any) -> bool:
    """May an array be written to? On a device nothing forbids it, except elements that share a place."""
    if not MODULES or type(array) not in MODULES:
        return bool(array.flags.writeable)
    return not repeated_dims(array.strides, array.shape)


def placed(array: Any, index: int) -> Any:
    """``array`` on the device ``index`` (-1: the host); itself where it lies there already, else a copy.

    Raises `DeviceError` where there is no such device.

    >>> numbers = np.zeros(2)
    >>> placed(numbers, -1) is numbers
    True
    """
    if index == META:
        return meta_like(array)
    if ANY[0] and is_meta(array):
        raise NotImplementedError(NO_DATA)
    if device_index(array) == index:
        return array
    if index < 0:
        return fetched(array)
    require(index)
    module = namespace()
    with module.cuda.Device(index):
        return taken_over(module, array)


def taken_over(module: Any, array: Any) -> Any:
    """``array`` in the memory of the current device, row by row; itself where it lies there like that."""
    here = type(array) is np.ndarray
    if here and not array.ndim and not array and any(array.tobytes()):
        # CuPy fills single numbers in, and fills in every zero as +0.0.
        found = module.asarray(array.reshape(1)).reshape(())
    else:
        found = module.asarray(array, order="C")
    if here and array.base is not None:
        from .pinned import is_pinned, sent

        if is_pinned(array):
            sent(array)
    return found


def filled(shape: tuple[int, ...], number: Any, index: int) -> Any:
    """An array on the device ``index`` that holds ``number``, a 0-d array of the host, everywhere."""
    module = namespace()
    with module.cuda.Device(index):
        if not any(number.tobytes()):
            return module.zeros(shape, number.dtype)
        array = module.empty(shape, number.dtype)
        array[...] = taken_over(module, number)
        return array


def fetched(array: Any) -> Any:
    """``array`` on the host.

    >>> fetched(np.ones(1))
    array([1.])
    """
    if ANY[0] and is_meta(array):
        raise NotImplementedError(NO_DATA)
    if not is_on_device(array):
        return array
    try:
        return MODULES[type(array)].asnumpy(array)
    except RuntimeError as error:
        raise told(error) from None


def told(error: RuntimeError) -> RuntimeError:
    """What to raise for an error: `DeviceError`, with what to do, where it is one of CUDA's, else itself.

    Kernels fault after the call that queued them has returned: it shows where Python next waits for the device.

    >>> told(RuntimeError("of something else"))
    RuntimeError('of something else')
    """
    for module in MODULES.values():
        if isinstance(error, module.cuda.runtime.CUDARuntimeError):
            return fault("the device was waited for", error.status)
    return error


def on_device(index: int, function: Any, *arguments: Any) -> Any:
    """What ``function`` returns when the device ``index`` is current (-1: it does not matter which)."""
    if index < 0 or index == current_index():
        return function(*arguments)
    with namespace().cuda.Device(index):
        return function(*arguments)


def ordered(array: Any) -> Any:
    """``array`` itself where it lies row by row without gaps, else such a copy; scalars become arrays.

    >>> ordered(np.float32(2.0))
    array(2., dtype=float32)
    """
    if (MODULES and type(array) in MODULES) or (ANY[0] and is_meta(array)):
        return array if array.flags.c_contiguous else array.copy(order="C")
    return np.asarray(array, order="C")


def byte_bounds(array: Any) -> tuple[int, int]:
    """The first address of an array, and the one after its last byte.

    >>> low, high = byte_bounds(np.zeros(3, np.int8))
    >>> high - low
    3
    """
    low = high = address_of(array)
    if array.flags.c_contiguous:
        return low, low + array.nbytes
    if array.size:
        for n, step in zip(array.shape, array.strides, strict=True):
            low, high = low + min(0, (n - 1) * step), high + max(0, (n - 1) * step)
        high += array.itemsize
    return low, high


def write_into(target: Any, values: Any) -> None:
    """Overwrite ``target`` with ``values``, converted and broadcast, wherever either lies.

    >>> numbers = np.zeros(2)
    >>> write_into(numbers, np.ones((), np.int8))
    >>> numbers
    array([1., 1.])
    """
    if not MODULES or not (is_on_device(target) or is_on_device(values)):
        if target.dtype is values.dtype:
            target[...] = values
        else:
            np.copyto(target, values, casting="unsafe")
        return
    on_device(device_index(target), _write, target, values)


def _write(target: Any, values: Any) -> None:
    moved = placed(values, device_index(target))
    if is_on_device(target):
        target[...] = moved.astype(target.dtype, copy=False)
    else:
        np.copyto(target, moved, casting="unsafe")


class DeviceBlock:
    """Memory of a device from CuPy's pool: ``array`` (uint8, one-dimensional) at address ``ptr``."""

    __slots__ = ("array", "index", "memory", "ptr")

    def __init__(self, nbytes: int, index: int) -> None:
        module = namespace()
        with module.cuda.Device(index):
            self.memory = module.cuda.alloc(max(nbytes, 1))
        self.array = module.ndarray((nbytes,), np.uint8, self.memory)
        self.ptr = int(self.memory.ptr)
        self.index = index

    def shaped(
        self, shape: tuple[int, ...], dtype: Any, offset: int = 0, strides: Any = None
    ) -> Any:
        """The memory as an array, from a byte on."""
        module = MODULES[type(self.array)]
        return module.ndarray(shape, dtype, self.memory + offset, strides)


def shaped(block: Any, kind: Any, offset: int = 0) -> Any:
    """The array of a type in a block of memory, from a byte on."""
    if MODULES and type(block.array) in MODULES:
        return block.shaped(kind.shape, kind.dtype.np, offset)
    return np.ndarray(kind.shape, kind.dtype.np, block.array, offset)


def empty_block(nbytes: int, index: int) -> DeviceBlock:
    """Memory of a device; `OutOfMemoryError` when there is not enough."""
    return DeviceBlock(nbytes, index)
