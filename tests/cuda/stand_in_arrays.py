"""Arrays that claim to lie on a device, as CuPy's do, and refuse to meet arrays of the host.

Memory is the host's, so addresses are real and kernels can be run on it.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from typing import Any

import cupy_surface
import numpy as np
from stand_in_regions import GROWS, LIVE, region

DEVICES = 2


class _Current(threading.local):
    """What a thread knows; without a context the driver takes neither kernels nor launches."""

    device = 0
    context: int | None = None
    stream: Any = None
    capture: list[Any] | None = None  # what is done is noted here instead


CURRENT = _Current()


class OutOfMemoryError(MemoryError):
    pass


class Pool:
    """Counts what is alive."""

    def __init__(self) -> None:
        self.used = [0] * DEVICES
        self.limit: int | None = None
        self.strict = False

    def malloc(self, nbytes: int) -> MemoryPointer:
        assert CURRENT.capture is None or not self.strict, "memory is asked for while capturing"
        if self.limit is not None and self.used[CURRENT.device] + nbytes > self.limit:
            raise OutOfMemoryError(f"allocating {nbytes} bytes")
        return MemoryPointer(Memory(self, nbytes, CURRENT.device), 0)

    def used_bytes(self) -> int:
        return self.used[CURRENT.device]

    def total_bytes(self) -> int:
        return self.used[CURRENT.device]

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        assert fraction is None
        self.limit = size or None

    def free_all_blocks(self) -> None:
        pass


class Memory:
    def __init__(self, pool: Pool, nbytes: int, device: int) -> None:
        raw = np.full(nbytes + 512, 0xA5, np.uint8)  # what was there before
        start = -raw.ctypes.data % 256
        self.bytes = raw[start : start + nbytes]
        self.pool, self.nbytes, self.device_id = pool, nbytes, device
        pool.used[device] += nbytes
        with GROWS:
            LIVE.add(self)

    def __del__(self) -> None:
        self.pool.used[self.device_id] -= self.nbytes


class MemoryPointer:
    def __init__(self, mem: Memory, offset: int) -> None:
        self.mem, self.offset = mem, offset
        self.ptr = mem.bytes.ctypes.data + offset

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.offset + offset)

    def copy_from_device_async(self, source: Any, nbytes: int, stream: Any = None) -> None:
        copy_bytes(self.ptr, source.ptr, nbytes)


def copy_bytes(target: int, source: int, nbytes: int) -> None:
    assert CURRENT.capture is None
    ctypes.memmove(target, source, nbytes)


class _Pointer:
    """Where an array's first element lies."""

    def __init__(self, ptr: int, memory: Any = None) -> None:
        self.ptr, self.memory = ptr, memory  # which it keeps

    def __add__(self, offset: int) -> _Pointer:
        return _Pointer(self.ptr + offset, self.memory)

    def copy_from_device_async(self, source: Any, nbytes: int, stream: Any = None) -> None:
        copy_bytes(self.ptr, source.ptr, nbytes)

    def copy_to_host_async(self, target: int, nbytes: int, stream: Any = None) -> None:
        copy_bytes(target, self.ptr, nbytes)

    def pointer(self) -> MemoryPointer:
        """The same as a place in the allocation around it."""
        found = region(self.ptr)
        assert found is not None
        memory = object.__new__(Memory)
        memory.bytes, memory.pool, memory.nbytes, memory.device_id = (
            found,
            Pool(),
            0,
            CURRENT.device,
        )
        return MemoryPointer(memory, self.ptr - found.ctypes.data)


class Device:
    def __init__(self, id: int | None = None) -> None:
        self.id = CURRENT.device if id is None else id
        if not 0 <= self.id < DEVICES:
            raise RuntimeError("invalid device ordinal")

    compute_capability = "90"
    cublas_handle = 77

    def __enter__(self) -> Device:
        self.before = CURRENT.device
        if self.id != CURRENT.device:
            self.use()
        return self

    def __exit__(self, *_: object) -> None:
        if CURRENT.device != self.before:
            Device(self.before).use()

    def use(self) -> None:
        CURRENT.device = CURRENT.context = self.id

    def synchronize(self) -> None:
        LOG.append("synchronize")


LOG: list[str] = []


def plain(value: Any) -> Any:
    """What NumPy computes with; arrays of the host are refused."""
    if isinstance(value, ndarray):
        return value._host
    if isinstance(value, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    if isinstance(value, (list, tuple)):
        return type(value)(map(plain, value))
    return value


def _arrays(value: Any) -> Iterator[ndarray]:
    if isinstance(value, ndarray):
        yield value
    elif isinstance(value, (list, tuple)):
        for x in value:
            yield from _arrays(x)


def wrapped(result: Any, sources: Any = ()) -> Any:
    """A result as arrays of the device; views of ``sources`` know their base."""
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return tuple(wrapped(r, sources) for r in result)
    if isinstance(result, (list, tuple)):
        return type(result)(wrapped(r, sources) for r in result)
    if isinstance(result, np.generic):
        result = np.asarray(result)
    if not isinstance(result, np.ndarray):
        return result
    for source in _arrays(list(sources)):
        if result is source._host:
            return source
    for source in _arrays(list(sources)):
        if result.base is not None and np.may_share_memory(result, source._host):
            base = source if source.base is None else source.base
            if not result.flags.writeable and result.ndim and 0 not in result.strides:
                result.flags.writeable = True  # nothing on a device is read-only
            return ndarray._of(result, base, source.device.id)
    if result.base is not None:
        result = result.copy(order="K")
    return ndarray._of(result, None, CURRENT.device)


class Flags:
    """As CuPy's: nothing about writing."""

    def __init__(self, flags: Any, owndata: bool) -> None:
        self.c_contiguous, self.f_contiguous = flags.c_contiguous, flags.f_contiguous
        self.owndata = owndata


class ndarray:  # noqa: N801
    """An array of the device."""

    __array_priority__ = 100
    __hash__ = object.__hash__

    def __new__(
        cls,
        shape: Any,
        dtype: Any = float,
        memptr: Any = None,
        strides: Any = None,
        order: str = "C",
    ) -> ndarray:
        if memptr is not None and not isinstance(memptr, MemoryPointer):
            memptr = memptr.pointer()
        if memptr is None:
            memptr = ALLOCATORS[-1](int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize)
        host = np.ndarray(shape, dtype, memptr.mem.bytes, memptr.offset, strides)
        return cls._of(host, None, memptr.mem.device_id, memptr)

    @classmethod
    def _of(cls, host: np.ndarray, base: Any, device: int, memory: Any = None) -> ndarray:
        self = object.__new__(cls)
        self._host, self.base, self.device, self.memory = host, base, Device(device), memory
        self._taken = None
        if base is None and memory is None:
            with Device(device):  # its memory is the host's, but it is the allocator's to give
                self._taken = ALLOCATORS[-1](host.nbytes)
            with GROWS:
                LIVE.add(self)
        return self

    @property
    def bytes(self) -> np.ndarray:
        """All bytes of an array that owns its memory."""
        flat = np.lib.stride_tricks.as_strided(
            self._host, (self._host.nbytes // self._host.itemsize,), (self._host.itemsize,)
        )
        return flat.view(np.uint8)

    shape = property(lambda self: self._host.shape)
    dtype = property(lambda self: self._host.dtype)
    strides = property(lambda self: self._host.strides)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    nbytes = property(lambda self: self._host.nbytes)
    itemsize = property(lambda self: self._host.itemsize)
    data = property(lambda self: _Pointer(self._host.ctypes.data, self._taken or self.memory))
    flags = property(lambda self: Flags(self._host.flags, self.base is None))
    T = property(lambda self: wrapped(self._host.T, [self]))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        found = dict(self._host.__array_interface__)
        found["version"], found["stream"] = 3, 1
        return found

    def __dlpack__(self, **options: Any) -> Any:
        return self._host.__dlpack__(max_version=options.get("max_version"))

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device.id

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __array_ufunc__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("a NumPy function on an array of a device")

    def __array_function__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("a NumPy function on an array of a device")

    def item(self) -> Any:
        LOG.append("item")
        return self._host.item()

    def set(self, values: np.ndarray) -> None:
        assert type(values) is np.ndarray
        self._host[...] = values

    def tolist(self) -> Any:
        return self._host.tolist()

    def get(self) -> np.ndarray:
        LOG.append("get")
        return self._host.copy()

    def __len__(self) -> int:
        return len(self._host)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        LOG.append("item")
        return bool(self._host)

    def __int__(self) -> int:
        return int(self._host)

    def __float__(self) -> float:
        return float(self._host)

    def __index__(self) -> int:
        return self._host.__index__()

    def __getitem__(self, key: Any) -> Any:
        return wrapped(self._host[plain(key)], [self])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._host[plain(key)] = plain(value)

    def astype(self, dtype: Any, order: str = "K", copy: bool = True, **_: Any) -> ndarray:
        if not copy and self.dtype == dtype:
            return self
        with np.errstate(all="ignore"):
            return wrapped(self._host.astype(dtype, order=order), [])


def _method(name: str) -> Any:
    def method(self: ndarray, *args: Any, **kwargs: Any) -> Any:
        cupy_surface.check_call("cupy.ndarray", name, args, kwargs, method=True)
        with np.errstate(all="ignore"):
            result = getattr(self._host, name)(
                *map(plain, args), **{k: plain(v) for k, v in kwargs.items()}
            )
        return wrapped(result, [self])

    method.__name__ = name
    return method


_METHODS = "reshape view transpose swapaxes copy sum any all min max take ravel fill prod mean cumsum argsort squeeze"
for _name in _METHODS.split():
    setattr(ndarray, _name, _method(_name))


for _name in ("real", "imag"):
    setattr(
        ndarray,
        _name,
        property(lambda self, name=_name: wrapped(getattr(self._host, name), [self])),
    )


def _take(self: ndarray, indices: Any, axis: int | None = None, out: Any = None) -> Any:
    """Positions wrap; there is no other way."""
    return wrapped(self._host.take(plain(indices), axis, mode="wrap"), [])


ndarray.take = _take  # type: ignore[attr-defined]


def _operator(name: str) -> Any:
    def operator(self: ndarray, *others: Any) -> Any:
        if any(isinstance(o, np.ndarray) for o in others):
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")
        with np.errstate(all="ignore"):
            result = getattr(self._host, name)(*map(plain, others))
        if result is NotImplemented:
            return result
        cupy_surface.check_operator(name, (self, *others), result)
        return self if result is self._host else wrapped(result, [])

    return operator


_BINARY = "add sub mul truediv floordiv mod pow and or xor lshift rshift matmul"
for _name in _BINARY.split():
    for _prefix in ("", "r", "i"):
        _full = f"__{_prefix}{_name}__"
        if hasattr(np.ndarray, _full):
            setattr(ndarray, _full, _operator(_full))
for _name in ["neg", "abs", "invert", "pos", "eq", "ne", "lt", "le", "gt", "ge"]:
    setattr(ndarray, f"__{_name}__", _operator(f"__{_name}__"))


POOL = Pool()
#: What hands out memory: the last one.
ALLOCATORS: list[Any] = [POOL.malloc]
