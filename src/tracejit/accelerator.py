"""The accelerator of this machine, whatever it is: a GPU, or none."""

from __future__ import annotations

from typing import Any

from . import cuda
from .device import device as _device

__all__ = [
    "current_accelerator",
    "current_device_index",
    "device_count",
    "is_available",
    "set_device_index",
    "synchronize",
]


def is_available() -> bool:
    """Is there one?

    >>> import tracejit as tj
    >>> tj.accelerator.is_available() == tj.cuda.is_available()
    True
    """
    return cuda.is_available()


def device_count() -> int:
    """How many there are.

    >>> import tracejit as tj
    >>> tj.accelerator.device_count() == tj.cuda.device_count()
    True
    """
    return cuda.device_count()


def current_accelerator(check_available: bool = False) -> _device | None:
    """The kind of device, without a number; None where there is none.

    >>> import tracejit as tj
    >>> (tj.accelerator.current_accelerator() is None) != tj.accelerator.is_available()
    True
    """
    return _device("cuda") if cuda.is_available() else None


def current_device_index() -> int:
    """The number of the current one. Raises :class:`DeviceError` where there is none.

    >>> import tracejit as tj
    >>> if tj.accelerator.is_available():
    ...     assert tj.accelerator.current_device_index() >= 0
    """
    return cuda.current_device()


def set_device_index(device: Any) -> None:
    """Make this one current. Raises :class:`DeviceError` where there is none.

    >>> import tracejit as tj
    >>> if tj.accelerator.is_available():
    ...     tj.accelerator.set_device_index(0)
    """
    cuda.set_device(device)


def synchronize(device: Any = None) -> None:
    """Wait until it is done; at once where there is none.

    >>> import tracejit as tj
    >>> tj.accelerator.synchronize()
    """
    if cuda.is_available():
        cuda.synchronize(device)
