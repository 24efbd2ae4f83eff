"""A device as a context in which new tensors are made there, by PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..device import device as _device
from ..settings import get_default_device
from ._contextlib import context_decorator

__all__ = ["CURRENT_DEVICE", "DeviceContext", "set_device"]

#: What PyTorch keeps here; :func:`tracejit.get_default_device` tells.
CURRENT_DEVICE: Any = None


class DeviceContext:
    """Inside, factories make new tensors on a device.

    >>> import tracejit as tj
    >>> with DeviceContext("meta"):
    ...     tj.ones(2).device
    device(type='meta')
    """

    def __init__(self, device: Any) -> None:
        self.device = _device(device)

    def __enter__(self) -> DeviceContext:
        self.device.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.device.__exit__(*error)


def set_device(device: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function makes new tensors on a device.

    >>> import tracejit as tj
    >>> set_device("meta")(lambda: tj.zeros(2))().device
    device(type='meta')
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        return context_decorator(lambda: _device(device), function)

    return decorate


def current_device() -> Any:
    """Where factories make new tensors.

    >>> current_device()
    device(type='cpu')
    """
    return get_default_device()
