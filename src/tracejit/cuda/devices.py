"""Which GPU is current, and what each one is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..device import index_of
from .arrays import MODULES, current_index, device_index, namespace, told
from .driver import driver, is_available, require

Where = Any  # None, a number, "cuda:1" or a device


def number_of(where: Where) -> int:
    """The number of the GPU meant by ``where``; None is the current one. `DeviceError` where it is not there.

    >>> from tracejit.cuda.driver import is_available
    >>> is_available() or number_of(None)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    tracejit.errors.NoDeviceError: ...
    """
    if where is None:
        return current_index()
    if isinstance(where, int):
        require(where)
        return where
    index = index_of(where)
    if index < 0:
        raise ValueError(f"Expected a cuda device, but got: {where}")
    return index


def current_device() -> int:
    """The number of the device that "cuda" means; `DeviceError` without one.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     assert tj.cuda.current_device() >= 0
    """
    return current_index()


def set_device(device: Where) -> None:
    """Make a GPU the one that "cuda" means in this thread.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     tj.cuda.set_device(0)
    """
    namespace().cuda.Device(number_of(device)).use()


class device:  # noqa: N801  (PyTorch's spelling)
    """A context in which another GPU is current: ``with tj.cuda.device(1): ...``; None or -1 change nothing."""

    def __init__(self, device: Where) -> None:
        self.index = -1 if device is None or device == -1 else number_of(device)

    def __enter__(self) -> device:
        if self.index >= 0:
            self.before = current_index()
            set_device(self.index)
        return self

    def __exit__(self, *_: object) -> None:
        if self.index >= 0:
            set_device(self.before)


def synchronize(device: Where = None) -> None:
    """Wait until a GPU has done all it was given.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     tj.cuda.synchronize()
    """
    with namespace().cuda.Device(number_of(device)) as found:
        try:
            found.synchronize()
        except RuntimeError as error:
            raise told(error) from None


def get_device_name(device: Where = None) -> str:
    """What the maker calls a GPU.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     assert tj.cuda.get_device_name()
    """
    name = namespace().cuda.runtime.getDeviceProperties(number_of(device))["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def get_device_capability(device: Where = None) -> tuple[int, int]:
    """The compute capability of a GPU: (9, 0) for ``sm_90``.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     assert tj.cuda.get_device_capability() >= (7, 5)
    """
    digits = str(namespace().cuda.Device(number_of(device)).compute_capability)
    return int(digits[:-1]), int(digits[-1])


@dataclass(frozen=True)
class DeviceProperties:
    """What a GPU is: its name, compute capability, bytes of memory and number of multiprocessors."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int


def get_device_properties(device: Where = None) -> DeviceProperties:
    """What a GPU is; `DeviceError` without one.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     assert tj.cuda.get_device_properties().total_memory > 0
    """
    index = number_of(device)
    found = namespace().cuda.runtime.getDeviceProperties(index)
    memory, count = int(found["totalGlobalMem"]), int(found["multiProcessorCount"])
    major, minor = get_device_capability(index)
    return DeviceProperties(get_device_name(index), major, minor, memory, count)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Can the current GPU compute with bfloat16: by itself, or at all? False without one.

    >>> is_bf16_supported() == is_available()
    True
    """
    if not is_available():
        return False
    return including_emulation or driver(current_index()).capability >= (8, 0)


def is_tf32_supported() -> bool:
    """Has the current GPU tensor cores for TF32? False without one.

    >>> is_tf32_supported() <= is_available()
    True
    """
    return is_available() and driver(current_index()).capability >= (8, 0)


def can_device_access_peer(device: Where, peer_device: Where) -> bool:
    """Can one GPU read another's memory? `DeviceError` for a GPU that is not there.

    >>> import tracejit as tj
    >>> if tj.cuda.device_count() > 1:
    ...     assert tj.cuda.can_device_access_peer(0, 1) in (True, False)
    """
    first, second = number_of(device), number_of(peer_device)
    return bool(namespace().cuda.runtime.deviceCanAccessPeer(first, second))


def init() -> None:
    """Start CUDA now, and not with the first tensor; `DeviceError` where it cannot be started.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     tj.cuda.init()
    """
    namespace()


def is_initialized() -> bool:
    """Was CUDA started?

    >>> import tracejit as tj
    >>> tj.cuda.is_initialized() <= tj.cuda.is_available()
    True
    """
    return bool(MODULES)


class device_of(device):  # noqa: N801  (PyTorch's spelling)
    """A context in which the GPU of a tensor is current; one of the host changes nothing.

    >>> import tracejit as tj
    >>> with tj.cuda.device_of(tj.ones(2)):
    ...     pass
    """

    def __init__(self, obj: Any) -> None:
        self.index = device_index(obj.array)
