"""Devices: where a tensor's storage lives, on the host or on a GPU."""

from __future__ import annotations

import functools
import re
import threading
from typing import Any

from .errors import ArgumentError, DeviceError
from .meta import ANY, META
from .modes import MODES

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
        """Let factories make new tensors here, in this thread; :class:`DeviceError` where there is no such device."""
        check_device(self)
        _DEFAULT.enter(self)
        return self

    def __exit__(self, *_: object) -> None:
        _DEFAULT.leave()

    def __call__(self, function: Any) -> Any:
        """A function that runs inside: ``@device("cuda")``."""

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside

    def number(self) -> int:
        """The number of the GPU that this means at present, -1 for the host, -2 for "meta".

        >>> device("cpu").number()
        -1
        """
        return index_of(self)

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
    """Where a thread makes new tensors: by ``with`` statements, the innermost first, and besides."""

    inside: tuple[device, ...] = ()
    always: device | None = None

    def enter(self, where: device) -> None:
        self.inside = (*self.inside, where)
        self._tell()

    def leave(self) -> None:
        self.inside = self.inside[:-1]
        self._tell()

    def set(self, where: device | None) -> None:
        self.always = where
        self._tell()

    def _tell(self) -> None:
        where = self.inside[-1] if self.inside else self.always
        MODES.default_device = None if where is None or where.type == "cpu" else where
        MODES.note()


_DEFAULT = _Default()


def set_default(wanted: str | device | int | None) -> None:
    """Where factories of this thread make new tensors outside of ``with`` statements; None is the host.

    Raises :class:`DeviceError` for a device that is not there.

    >>> set_default("cpu")
    """
    check_device(wanted)
    _DEFAULT.set(None if wanted is None else device(wanted))


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


def index_of(wanted: str | device | int | None) -> int:
    """The number of the GPU meant by ``wanted``, -1 for the host, -2 for "meta"; None is where new tensors are made.

    Raises :class:`DeviceError` for other devices.

    >>> index_of(None), index_of("cpu")
    (-1, -1)
    """
    if wanted is None:
        wanted = MODES.default_device
        if wanted is None:
            return -1
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
