"""Lines that a recorded run prints: printed again at every call, with that call's values, when it ends.

``print`` is written in C, so while a function is recorded the name leads to a stand-in, which prints at once as eager
execution does and notes what it was given. Text into which a number that varies is formatted is noted as its pieces,
where the bytecode shows that it goes to ``print`` and to nobody else (:mod:`..numbers.texts`).
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import CodeType
from typing import Any

from ...bytecode import not_only_called
from ...modes import MODES
from ...tensor import Tensor
from ..numbers.functions import may_lead_elsewhere
from ..numbers.plain_parts import plain_parts
from ..numbers.texts import pieces_of, text_of
from ..signature import flatten
from ..state.checks import Item
from ..state.functions import STREAMS
from ..state.purity import words
from ..state.state import StateGuard
from ..state.values import MISSING
from .sent_logs import MUTED, Changing, as_it_is, as_plain, is_same, state_of
from .warned import following_warnings

_write: Callable[..., None] = builtins.print
_NAME = "print"
#: Names of what is written in C and calls what it is given.
_CALLING = words(
    "accumulate filter filterfalse iter map max min partial reduce sort sorted starmap takewhile"
)


class Printed:
    """What a run prints by one call: like a place of the Python state that the run leaves something in."""

    owner = None
    name = "what it prints"

    def __init__(self, where: tuple[str, int], stream: str, given: Any) -> None:
        self.where = where
        self.stream = stream
        self.given = given  # the values, separator and end, whether to flush
        self.values: list[tuple[Tensor, Any]] = []  # tensors among these, and what they held

    @property
    def key(self) -> Any:
        """What two runs that print it have in common."""
        return _NAME, self.stream, self.where

    def read(self) -> Any:
        """What was printed."""
        return self.given

    def put(self, value: Any) -> None:
        """It has been printed."""

    def store(self, value: Any) -> None:
        """Print it, in a later call."""
        if not MUTED.on:
            values, sep, end, flush = value
            shown = [text_of(x) if is_text else x for is_text, x in values]
            ends = [x if x is None else text_of(x) for x in (sep, end)]
            stream = getattr(sys, self.stream)
            _write(*shown, sep=ends[0], end=ends[1], file=stream, flush=flush)


@contextmanager
def following_prints(guard: StateGuard, recorder: Any) -> Iterator[None]:
    """The names of ``print`` in the code that ``guard`` is about lead to what notes lines; those of ``warn``, too."""
    undo: list[tuple[dict[str, Any], str, Any, Any]] = []
    known: list[Any] = []
    try:
        for check in guard.checks:
            stand_in = _stand_in(check)
            if stand_in is None or not isinstance(check, Item):
                continue
            holder: Any = check.holder
            there = type(holder) is dict and holder.get(check.key, MISSING) is check.expected
            if there and may_lead_elsewhere(holder, check.key, guard.codes):
                holder[check.key] = stand_in
                undo.append((holder, check.key, stand_in, check.expected))
                known.append(check.expected)
        _refuse_unseen(guard, known, recorder)
        with following_warnings(guard):
            yield
    finally:
        for holder, key, stand_in, expected in undo:
            if holder.get(key) is not stand_in:
                continue
            if expected is MISSING:
                del holder[key]
            else:
                holder[key] = expected


def _stand_in(check: Any) -> Any:
    """What notes what is printed, for a name that leads to ``print`` or to that with some arguments; else None."""
    if type(check) is not Item:
        return None
    expected = check.expected
    if expected is _write or (expected is MISSING and check.key == _NAME):
        return printing
    if type(expected) is partial and expected.func is _write:
        return partial(printing, *expected.args, **expected.keywords)
    return None


def _refuse_unseen(guard: StateGuard, known: Sequence[Any], recorder: Any) -> None:
    """Give up where ``print``, or something else that does more than compute, may be called by code in C."""
    names = [name for wrapper, name in guard.hidden if not any(wrapper is x for x in known)]
    names += [_NAME for code in guard.codes if _hands_on(code)]
    if names:
        code = guard.codes[0]
        recorder.line = code.co_filename, code.co_firstlineno
        recorder.unsupported(f"it may call {names[0]}() by code in C, unseen")
        recorder.line = None


def _hands_on(code: CodeType) -> bool:
    """Does code do something else with ``print`` than to call it, and know of functions that would call it?"""
    named = _NAME in code.co_names and not _CALLING.isdisjoint(code.co_names)
    return named and _NAME in not_only_called(code)


def printing(*values: Any, **named: Any) -> None:
    """``print``, which a recorder hears of."""
    recorder = MODES.recorder
    if recorder is None or recorder.failure is not None:
        _write(*map(_shown, values), **{key: _shown(x) for key, x in named.items()})
        return
    recorder.stop_trial("prints")
    line = None
    with recorder.careful("what is printed"):
        line = _noted(recorder, values, named)
    if line is None:
        recorder.unsupported("it calls print()")
        printing(*values, **named)
        return
    before = state_of(recorder)
    MODES.recorder = None
    try:
        line.store(as_plain(line.given))
    finally:
        MODES.recorder = recorder
    if not all(map(is_same, before, state_of(recorder))):
        recorder.unsupported("what it prints to changes what the function can read")
    recorder.not_in_rounds()
    recorder.sent.append(line)


def _noted(recorder: Any, values: Sequence[Any], named: Mapping[str, Any]) -> Printed | None:
    """What is about to be printed; None where a later call might print something else, or elsewhere."""
    stream = _stream_of(named.get("file"))
    ends = [named.get(key) for key in ("sep", "end")]
    strange = not named.keys() <= {"sep", "end", "file", "flush"}
    if strange or stream is None or not all(type(x) in (str, type(None)) for x in ends):
        return None
    percents = recorder.percents_in(values)
    if percents is None:
        return None
    try:
        entries = [
            (True, percents[i]) if i in percents else _entry(recorder, x)
            for i, x in enumerate(values)
        ]
    except Changing:
        return None
    shown = tuple(entries)
    sep, end = [x if x is None else pieces_of(recorder, x) for x in ends]
    frame = sys._getframe(2)
    where = frame.f_code.co_filename, frame.f_lineno
    line = Printed(where, stream, (shown, sep, end, bool(named.get("flush"))))
    leaves: list[Any] = []
    flatten(shown, leaves)
    tensors = [x for x in leaves if isinstance(x, Tensor)]
    if any(tensor.requires_grad for tensor in tensors):
        return None  # its text names the node of its history, which is another one in compiled code
    line.values = [(tensor, recorder.value_of(tensor)) for tensor in tensors]
    return line


def _stream_of(file: Any) -> str | None:
    """By which name of ``sys`` later calls find what is printed to."""
    if file is None:
        return STREAMS[0]
    return next((name for name in STREAMS if file is getattr(sys, name)), None)


def _entry(recorder: Any, value: Any) -> tuple[bool, Any]:
    """Is a value text by now, and the text or the value, with the values that containers have now."""
    if type(value) is str:
        return True, pieces_of(recorder, value)
    try:
        return False, as_it_is(value)
    except Changing:
        if any(cls.__module__.startswith("tracejit.") for cls in type(value).__mro__):
            raise
        return True, (str(value),)  # what that reads is part of the recording


def _shown(value: Any) -> Any:
    """What is printed where nobody records: numbers and text as they are."""
    return text_of(pieces_of(None, value)) if type(value) is str else plain_parts(value)
