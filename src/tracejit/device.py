"""Devices: where a tensor's storage lives. This build computes on the host."""

from __future__ import annotations

import re
from typing import Any

from .errors import ArgumentError, DeviceError

KNOWN = ("cpu", "cuda")
_SPELLING = re.compile(r"([a-z_]+)(?::(\d+))?")


class device:  # noqa: N801  (PyTorch's spelling)
    """A place for tensors: ``device("cpu")``.

    Raises :class:`DeviceError` (a ``RuntimeError``) for a name that is no device.

    >>> import tracejit as tj
    >>> tj.device("cpu"), tj.device("cpu").type
    (device(type='cpu'), 'cpu')
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: str | device, index: int | None = None) -> None:
        if isinstance(type, device):
            self.type, self.index = type.type, type.index
            return
        if not isinstance(type, str):
            raise ArgumentError(f"device(): expected a device string, not {_type_name(type)}")
        match = _SPELLING.fullmatch(type)
        if match is None:
            raise DeviceError(f"Invalid device string: '{type}'", 'Write "cpu".')
        name, number = match.groups()
        if name not in KNOWN:
            raise DeviceError(
                f"Expected one of {', '.join(KNOWN)} device type at start of device string: {name}"
            )
        if number is not None and index is not None:
            raise DeviceError(f"device string '{type}' and index {index} both name an index")
        self.type = name
        self.index = index if number is None else int(number)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, device):
            return NotImplemented
        return (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (str(self),)


def _type_name(value: object) -> str:
    return value.__class__.__name__


CPU = device("cpu")


def check_device(wanted: str | device | None) -> device:
    """The device meant by ``wanted`` (None: the host); :class:`DeviceError` when it is not present."""
    if wanted is None or wanted is CPU:
        return CPU
    found = device(wanted)
    if found.type != "cpu":
        raise DeviceError(
            f"device '{found}' is not available: tracejit runs on the CPU here",
            'Use device="cpu", or leave the argument out.',
        )
    return CPU
