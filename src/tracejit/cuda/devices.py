"""Which GPU is current, and what each one is."""

from __future__ import annotations

from typing import Any

from ..device import index_of
from .arrays import current_index, namespace
from .driver import require

Where = Any  # None, a number, "cuda:1" or a device


def number_of(where: Where) -> int:
    """The number of the GPU meant by ``where``; None is the current one. `DeviceError` where it is not there.

    >>> from tracejit.cuda.driver import is_available
    >>> is_available() or number_of(None)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    tracejit.errors.DeviceError: ...
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
    """A context in which another GPU is current: ``with tj.cuda.device(1): ...``."""

    def __init__(self, device: Where) -> None:
        self.index = number_of(device)

    def __enter__(self) -> device:
        self.before = current_index()
        set_device(self.index)
        return self

    def __exit__(self, *_: object) -> None:
        set_device(self.before)


def synchronize(device: Where = None) -> None:
    """Wait until a GPU has done all it was given.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     tj.cuda.synchronize()
    """
    with namespace().cuda.Device(number_of(device)) as found:
        found.synchronize()


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
