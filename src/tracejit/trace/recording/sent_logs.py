"""Records that a recorded run hands to loggers: made again at every call, with that call's values, when it ends.

What a logger does with a record is not part of the recording: it writes at once, as eager execution would, and no
operation in it is written down.
"""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy as np

from ...device import device
from ...dtypes import DType
from ...extents import Extent
from ...modes import MODES
from ...ops.mixin import Size
from ...tensor import Tensor
from ...varying import is_varying
from ..numbers.logged_texts import Message, says
from ..numbers.plain_parts import plain_parts, remade
from ..numbers.texts import text_of
from ..signature import flatten

_LOGGER = logging.Logger
_LOG: CodeType = _LOGGER._log.__code__
_FILE = _LOG.co_filename
#: What shows the same at the end of a call as in the middle of it.
_LASTING = (str, int, float, bool, complex, type(None), bytes, DType, device, Size, Extent)
_CONSTANT = (np.generic, enum.Enum, type, FunctionType, PurePath)
#: Containers nested deeper than this are not copied.
_DEPTH = 8


class _Muted(threading.local):
    """Is a call run of which nobody is to see anything?"""

    on = False


MUTED = _Muted()


@contextmanager
def muted() -> Iterator[None]:
    """Inside, calls send no records: a run beside them does."""
    before, MUTED.on = MUTED.on, True
    try:
        yield
    finally:
        MUTED.on = before


class Record:
    """A record that a run sends: like a place of the Python state that the run leaves something in."""

    owner = None

    def __init__(self, logger: Any, level: int, where: tuple[str, int, str], given: Any) -> None:
        self.logger = logger
        self.level = level
        self.where = where
        self.given = given  # the message, its arguments, and what else the record gets
        self.values: list[tuple[Tensor, Any]] = []  # tensors among these, and what they held

    @property
    def name(self) -> str:
        """What users call it."""
        return f"a record of logger {self.logger.name!r}"

    @property
    def key(self) -> Any:
        """What two runs that send it have in common."""
        return id(self.logger), self.level, self.where

    def read(self) -> Any:
        """What was sent."""
        return self.given

    def put(self, value: Any) -> None:
        """It has been sent."""

    def store(self, value: Any) -> None:
        """Send it, in a later call."""
        if MUTED.on:
            return
        message, args, extra = value
        if type(message) is Message:
            message = text_of(message.pieces)
        file, line, function = self.where
        logger = self.logger
        logger.handle(
            logger.makeRecord(
                logger.name, self.level, file, line, message, args, None, function, extra, None
            )
        )


class _HeldBack:
    """The filter of a logger that lets no record of this thread through; lists that others go through stay."""

    def __init__(self, logger: logging.Logger) -> None:
        self.logger, self.before, self.thread = logger, logger.filters, threading.get_ident()
        logger.filters = [self, *self.before]

    def filter(self, _: logging.LogRecord) -> bool:
        """Is the record another thread's?"""
        return threading.get_ident() != self.thread

    def end(self) -> None:
        """As before, with what was added or taken away meanwhile."""
        now = [x for x in self.logger.filters if x is not self]
        self.logger.filters = self.before if now == self.before else now


class Sending:
    """While a logger handles a record nothing is recorded; afterwards the recorder knows what was sent."""

    def __init__(self, frame: FrameType, recorder: Any, record: Record) -> None:
        self.frame = frame
        self.recorder = recorder
        self.record = record
        self.before = state_of(recorder)
        # Whoever handles it is to see plain numbers: then it is sent afterwards.
        self.held_back = _HeldBack(record.logger) if _has_varying(record.given) else None
        MODES.recorder = None

    def end(self) -> None:
        """The record was handled."""
        record, recorder = self.record, self.recorder
        try:
            if self.held_back is not None:
                self.held_back.end()
                record.store(as_plain(record.given))
        finally:
            MODES.recorder = recorder
        if not all(map(is_same, self.before, state_of(recorder))):
            recorder.unsupported("a handler of a logger changes what the function can read")
        recorder.not_in_rounds()
        recorder.sent.append(record)


def sending(frame: FrameType, recorder: Any) -> Sending | None:
    """What is about to be sent, where this is a call that sends a record as the class does; None for all others."""
    if says(frame.f_code):
        recorder.told(frame)
    if frame.f_code is not _LOG or recorder.failure is not None or recorder.trial is not None:
        return None
    given = frame.f_locals
    logger, args, extra = given["self"], given["args"], given["extra"]
    own = type(logger)._log is _LOGGER._log and "_log" not in vars(logger)
    if not own or given["exc_info"] or given["stack_info"] or logger.disabled:
        return None
    if not isinstance(args, tuple) or type(extra) not in (dict, type(None)):
        return None
    record = Record(logger, given["level"], _where(frame, given["stacklevel"]), None)
    try:
        record.given = as_it_is((recorder.in_message(given["msg"]), args, extra))
    except Changing as changing:
        recorder.unsupported(f"it logs a {changing}, which may be another one when the call ends")
        return None
    leaves = list[Any]()
    flatten(record.given, leaves)
    found: list[Sending] = []
    with recorder.careful("a record of a logger"):
        record.values = [(t, recorder.value_of(t)) for t in leaves if isinstance(t, Tensor)]
        found.append(Sending(frame, recorder, record))
    return found[0] if found else None


def check_sent(recorder: Any) -> None:
    """A record shows what tensors held when it was sent; calls send it at their end."""
    for record in recorder.sent if recorder.failure is None else ():
        for tensor, value in record.values:
            if recorder.value_of(tensor) is not value:
                recorder.unsupported("a tensor that is printed or logged and written to afterwards")


def _where(frame: FrameType, level: int) -> tuple[str, int, str]:
    """The file, the line and the function that a record names, as the logger finds them."""
    while level > 0 and frame.f_back is not None:
        frame = frame.f_back
        level -= frame.f_code.co_filename != _FILE
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def state_of(recorder: Any) -> list[Any]:
    """What the function can read: the Python state, and how often tensors from outside were written to."""
    writes = sum(tensor._writes.value for tensor, _ in recorder.external.values())
    return [writes, *recorder.python_state()]


def is_same(before: Any, now: Any) -> bool:
    """Is it the very same, or an equal count or text?"""
    return before is now or (type(before) is type(now) in (int, str) and before == now)


def _has_varying(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_has_varying, value))
    if isinstance(value, dict):
        return any(map(_has_varying, value.values()))
    return is_varying(value)


class Changing(Exception):
    """Something shows itself by code of its own, or may be another thing when the call ends."""


def as_it_is(value: Any, depth: int = _DEPTH) -> Any:
    """A value that shows itself as it is now when the call ends, too: containers are copied.

    >>> found = as_it_is((1, [2]))
    >>> as_it_is(object())
    Traceback (most recent call last):
    tracejit.trace.recording.sent_logs.Changing: object
    """
    kind = type(value)
    if isinstance(value, Tensor) or is_varying(value) or kind in _LASTING:
        return value
    if isinstance(value, _CONSTANT):
        return value
    if depth and kind is list:
        return [as_it_is(x, depth - 1) for x in value]
    if depth and isinstance(value, tuple):
        return remade(kind, [as_it_is(x, depth - 1) for x in value])
    if depth and kind is dict and all(type(key) in _LASTING for key in value):
        return {key: as_it_is(x, depth - 1) for key, x in value.items()}
    raise Changing(kind.__name__)


def as_plain(value: Any) -> Any:
    """What was noted, with plain numbers and sizes."""
    if type(value) in (tuple, list):
        return type(value)(map(as_plain, value))
    if type(value) is dict:
        return {key: as_plain(x) for key, x in value.items()}
    return plain_parts(value)
