"""Devices: where a tensor's storage lives, on the host or on a GPU."""

from __future__ import annotations

import re
import threading
from typing import Any

from .errors import ArgumentError, DeviceError
from .meta import ANY, META

KNOWN = ("cpu", "cuda")
#: Devices that programs name, to compare others with them, and that hold no tensors here.
NAMED = ("hpu", "ipu", "meta", "mps", "mtia", "vulkan", "xla", "xpu")
_SPELLING = re.compile(r"([a-z_]+)(?::(\d+))?")


class device:  # noqa: N801  (PyTorch's spelling)
    """A place for tensors: ``device("cpu")``, ``device("cuda:0")``.

    Devices of other kinds that PyTorch has can be named, and are refused where tensors would be made there. Raises
    :class:`DeviceError` (a ``RuntimeError``) for a name that is no device.

    >>> import tracejit as tj
    >>> tj.device("cpu"), tj.device("cpu").type
    (device(type='cpu'), 'cpu')
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: str | device | int, index: int | None = None) -> None:
        if isinstance(type, int) and not isinstance(type, bool):
            self.type, self.index = "cuda", type
            return
        if isinstance(type, device):
            self.type, self.index = type.type, type.index
            return
        if not isinstance(type, str):
            raise ArgumentError(f"device(): expected a device string, not {_type_name(type)}")
        match = _SPELLING.fullmatch(type)
        if match is None:
            raise DeviceError(f"Invalid device string: '{type}'", 'Write "cpu".')
        name, number = match.groups()
        if name not in (*KNOWN, *NAMED):
            raise DeviceError(
                f"Expected one of {', '.join((*KNOWN, *NAMED))} device type at start of device string: {name}"
            )
        if number is not None and index is not None:
            raise DeviceError(f"device string '{type}' and index {index} both name an index")
        self.type = name
        self.index = index if number is None else int(number)

    def __enter__(self) -> device:
        """Make new tensors here, on the host or without memory; ``NotImplementedError`` for any other device."""
        check_default(self)
        DEFAULT.stack = (*DEFAULT.stack, index_of(self))
        return self

    def __exit__(self, *_: object) -> None:
        DEFAULT.stack = DEFAULT.stack[:-1]

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


class _Default(threading.local):
    """Where new tensors are made: the number of the device, by `with` statements, and besides."""

    stack: tuple[int, ...] = ()
    always = -1

    @property
    def index(self) -> int:
        """The number."""
        return self.stack[-1] if self.stack else self.always


DEFAULT = _Default()


def check_device(wanted: str | device | int | None) -> device:
    """The device meant by ``wanted`` (None: the host); :class:`DeviceError` when it is not present."""
    if wanted is None or wanted is CPU:
        return CPU
    found = device(wanted)
    if found.type == "cpu":
        return CPU
    if found.type == "meta":
        return found
    if found.type != "cuda":
        raise DeviceError(
            f"there are no tensors on device '{found}'",
            'Write "cpu", or "cuda" for a GPU of NVIDIA.',
        )
    from .cuda.arrays import current_index
    from .cuda.driver import require

    require(found.index or 0)
    return device("cuda", current_index() if found.index is None else found.index)


def check_default(wanted: str | device | int) -> None:
    """Refuse to make new tensors anywhere but on the host where programs do not say where.

    Raises ``NotImplementedError`` for a GPU, :class:`DeviceError` for what is not present.

    >>> check_default("cpu")
    """
    if check_device(wanted).type not in ("cpu", "meta"):
        raise NotImplementedError(
            f"new tensors are made on the host: pass device={str(wanted)!r} where they are made"
        )


def index_of(wanted: str | device | int | None) -> int:
    """The number of the GPU meant by ``wanted``, -1 for the host, -2 for "meta"; :class:`DeviceError` for others.

    >>> index_of(None), index_of("cpu")
    (-1, -1)
    """
    if wanted is None:
        return DEFAULT.index
    found = check_device(wanted)
    if found.type == "meta":
        ANY[0] = True
        return META
    return -1 if found.index is None or found.type == "cpu" else found.index


def device_at(index: int) -> device:
    """The device of this number, the host for -1.

    >>> device_at(-1), device_at(1)
    (device(type='cpu'), device(type='cuda', index=1))
    """
    if index == META:
        return device("meta")
    return CPU if index < 0 else device("cuda", index)
