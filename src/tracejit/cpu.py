"""The host as a device, for code that is written for any: there is one, and what is asked of it is done at once."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


class Stream:
    """A queue of work that is always empty.

    >>> Stream().wait_stream(current_stream())
    """

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        """Nothing to wait for."""

    def record_event(self) -> None:
        """Nothing to mark."""

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""


class Event:
    """A mark that is reached as soon as it is made.

    >>> Event().query()
    True
    """

    def query(self) -> bool:
        """Was the mark reached? Yes."""
        return True

    def record(self, stream: Any = None) -> None:
        """Nothing to mark."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""


_STREAMS = [Stream()]


class StreamContext(AbstractContextManager[None]):
    """A ``with`` block in which a stream is the current one; None changes nothing.

    >>> with StreamContext(Stream()) as nothing:
    ...     nothing
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self.before: list[Stream] = []

    def __enter__(self) -> None:
        if self.stream is not None:
            self.before.append(_STREAMS[0])
            _STREAMS[0] = self.stream

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            _STREAMS[0] = self.before.pop()


def stream(stream: Stream | None) -> StreamContext:
    """A ``with`` block in which a stream is the current one.

    >>> mine = Stream()
    >>> with stream(mine):
    ...     current_stream() is mine
    True
    """
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """The current stream.

    >>> current_stream() is current_stream()
    True
    """
    return _STREAMS[0]


def is_available() -> bool:
    """True: programs run on it.

    >>> is_available()
    True
    """
    return True


def is_initialized() -> bool:
    """True, since there is nothing to prepare.

    >>> is_initialized()
    True
    """
    return True


def device_count() -> int:
    """One of it.

    >>> device_count()
    1
    """
    return 1


def current_device() -> str:
    """Its name.

    >>> current_device()
    'cpu'
    """
    return "cpu"


def set_device(device: Any) -> None:
    """There is no other to choose.

    >>> set_device("cpu")
    """


def synchronize(device: Any = None) -> None:
    """Nothing to wait for.

    >>> synchronize()
    """
