"""The accelerator of this machine, whatever it is: a GPU, or none."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from . import cuda
from .device import device as _device
from .errors import DeviceError

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]


def _gpus() -> Any:
    """What asks GPUs. Raises :class:`DeviceError` where there is none."""
    if not cuda.is_available():
        raise DeviceError("Cannot access accelerator device when none is available.")
    return cuda


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


current_device_idx, set_device_idx = current_device_index, set_device_index


class device_index:  # noqa: N801  (PyTorch's spelling)
    """A ``with`` block in which this one is current; None changes nothing.

    Raises :class:`DeviceError` where there is none.

    >>> with device_index(None):
    ...     pass
    """

    def __init__(self, device: int | None) -> None:
        self.block = nullcontext() if device is None else _gpus().device(device)

    def __enter__(self) -> None:
        self.block.__enter__()

    def __exit__(self, *error: object) -> None:
        self.block.__exit__(*error)


def synchronize(device: Any = None) -> None:
    """Wait until it is done; at once where there is none.

    >>> import tracejit as tj
    >>> tj.accelerator.synchronize()
    """
    if cuda.is_available():
        cuda.synchronize(device)


def current_stream(device: Any = None) -> Any:
    """The stream that its work goes to now. Raises :class:`DeviceError` where there is none.

    >>> if is_available():
    ...     current_stream().synchronize()
    """
    return _gpus().current_stream(device)


def set_stream(stream: Any) -> None:
    """Let its work go to a stream from now on. Raises :class:`DeviceError` where there is none.

    >>> if is_available():
    ...     set_stream(current_stream())
    """
    _gpus().set_stream(stream)


def empty_cache() -> None:
    """Give back its memory that no tensor takes. Raises :class:`DeviceError` where there is none.

    >>> if is_available():
    ...     empty_cache()
    """
    _gpus().empty_cache()


def memory_stats(device: Any = None) -> dict[str, Any]:
    """What is told of its memory, by name. Raises :class:`DeviceError` where there is none.

    >>> if is_available():
    ...     assert memory_stats()
    """
    return dict(_gpus().memory_stats(device))


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors take of its memory. Raises :class:`DeviceError` where there is none.

    >>> if is_available():
    ...     assert memory_allocated() >= 0
    """
    return int(_gpus().memory_allocated(device))


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors took of its memory. Raises :class:`DeviceError` where there is none.

    >>> if is_available():
    ...     assert max_memory_allocated() >= memory_allocated()
    """
    return int(_gpus().max_memory_allocated(device))


def memory_reserved(device: Any = None) -> int:
    """Bytes of its memory that are held for tensors. Raises :class:`DeviceError` where there is none.

    >>> if is_available():
    ...     assert memory_reserved() >= memory_allocated()
    """
    return int(_gpus().memory_reserved(device))


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes of its memory that were held for tensors. Raises :class:`DeviceError` where there is none.

    >>> if is_available():
    ...     assert max_memory_reserved() >= memory_reserved()
    """
    return int(_gpus().max_memory_reserved(device))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the most bytes be counted from now on. Raises :class:`DeviceError` where there is none.

    >>> if is_available():
    ...     reset_peak_memory_stats()
    """
    _gpus().reset_peak_memory_stats(device)


def get_memory_info(device: Any = None) -> tuple[int, int]:
    """Bytes of its memory that are free, and all. Raises :class:`DeviceError` where there is none.

    >>> if is_available():
    ...     assert get_memory_info()[0] <= get_memory_info()[1]
    """
    free, total = _gpus().mem_get_info(device)
    return free, total
