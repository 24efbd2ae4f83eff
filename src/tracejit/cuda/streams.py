"""Streams and events: order among the things a GPU is given, and times between them."""

from __future__ import annotations

import weakref
from typing import Any

from .arrays import MODULES, namespace, told
from .devices import Where, number_of


class Stream:
    """A queue of work on a GPU; what different streams hold may run at the same time.

    Raises `DeviceError` without a GPU.
    """

    def __init__(self, device: Where = None, priority: int = 0, *, raw: Any = None) -> None:
        if raw is None:
            module = namespace()
            with module.cuda.Device(number_of(device)):
                options = {"priority": priority} if priority else {}
                raw = module.cuda.Stream(non_blocking=True, **options)
        self.raw = raw

    @property
    def cuda_stream(self) -> int:
        """The stream's handle in the driver's interface."""
        return int(self.raw.ptr)

    def synchronize(self) -> None:
        """Wait until everything in the stream is done."""
        try:
            self.raw.synchronize()
        except RuntimeError as error:
            raise told(error) from None

    def query(self) -> bool:
        """Is everything in the stream done?"""
        return bool(self.raw.done)

    def wait_event(self, event: Event) -> None:
        """Let what comes after this wait for an event."""
        self.raw.wait_event(event.raw)

    def wait_stream(self, stream: Stream) -> None:
        """Let what comes after this wait for all that another stream holds now."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Mark this place in the stream."""
        found = Event() if event is None else event
        found.record(self)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def __repr__(self) -> str:
        return f"<tracejit.cuda.Stream cuda_stream={self.cuda_stream:#x}>"


class Event:
    """A mark in a stream; with ``enable_timing`` two of them tell the time between."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False) -> None:
        self.raw = namespace().cuda.Event(block=blocking, disable_timing=not enable_timing)

    def record(self, stream: Stream | None = None) -> None:
        """Mark the place that a stream (the current one) has reached."""
        self.raw.record((current_stream() if stream is None else stream).raw)

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream (the current one) wait for this mark."""
        (current_stream() if stream is None else stream).wait_event(self)

    def query(self) -> bool:
        """Was the mark reached?"""
        return bool(self.raw.done)

    def synchronize(self) -> None:
        """Wait until the mark was reached."""
        try:
            self.raw.synchronize()
        except RuntimeError as error:
            raise told(error) from None

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this mark to another."""
        return float(namespace().cuda.get_elapsed_time(self.raw, end_event.raw))


def current_stream(device: Where = None) -> Stream:
    """The stream that work goes to now.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     assert tj.cuda.current_stream() == tj.cuda.default_stream()
    """
    module = namespace()
    with module.cuda.Device(number_of(device)):
        return Stream(raw=module.cuda.get_current_stream())


def default_stream(device: Where = None) -> Stream:
    """The stream that everything goes to unless said otherwise.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     tj.cuda.default_stream().synchronize()
    """
    number_of(device)
    return Stream(raw=namespace().cuda.Stream.null)


def set_stream(stream: Stream) -> None:
    """Let this thread's work go to a stream from now on.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     tj.cuda.set_stream(tj.cuda.default_stream())
    """
    stream.raw.use()


#: Memory that was freed while another stream than its own may still use it, with the mark that stream has to reach.
_lent: list[tuple[Any, Any]] = []


def lend(array: Any, stream: Stream) -> None:
    """Keep the memory of an array, once nothing refers to it, until a stream is done with what it holds by then.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     tj.ones(3, device="cuda").record_stream(tj.cuda.Stream())
    """
    weakref.finalize(array, keep_until_now, array.data, stream.raw).atexit = False


def keep_until_now(memory: Any, raw: Any) -> None:
    """Keep something until a stream, one of CuPy's, is done with what it holds now.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     keep_until_now("memory", tj.cuda.current_stream().raw)
    """
    event = namespace().cuda.Event(disable_timing=True)
    event.record(raw)
    _lent.append((event, memory))


def reclaim(wait: bool = False) -> bool:
    """Give back lent memory whose streams are done with it, or wait until they are; was there any lent?

    >>> reclaim()
    False
    """
    if not _lent:
        return False
    lent, _lent[:] = list(_lent), []
    for event, memory in lent:
        if wait:
            event.synchronize()
        elif not event.done:
            _lent.append((event, memory))
    return True


def is_current_stream_capturing() -> bool:
    """Is a CUDA graph being captured from the current stream? False before CUDA is started.

    >>> import tracejit as tj
    >>> tj.cuda.is_current_stream_capturing()
    False
    """
    return bool(MODULES) and bool(namespace().cuda.get_current_stream().is_capturing())


class stream:  # noqa: N801  (PyTorch's spelling)
    """A context in which work goes to another stream; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.raw.__enter__()

    def __exit__(self, *exception: Any) -> None:
        if self.stream is not None:
            self.stream.raw.__exit__(*exception)


StreamContext = stream
