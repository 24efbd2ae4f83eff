"""Warnings that a recorded run gives: given again at every call, under the filters that there are, when it ends.

Whether a warning is shown hangs on filters, and on what was shown before for its line. Both are Python's to decide, at
every call: a call tells it of the same warning, for the same line. A warning for the line that called the function
(``stacklevel=2``) is one for that of the call.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ...errors import is_internal
from ...modes import MODES
from ..numbers.functions import may_lead_elsewhere
from ..state.checks import Bind, Check, Item
from ..state.state import StateGuard
from .sent_logs import MUTED, is_same, state_of

_warn: Callable[..., None] = warnings.warn
_show: Callable[..., None] = warnings.warn_explicit
_REGISTRY = "__warningregistry__"
#: What Python takes for the line where there is none.
_NOWHERE = ("sys", 1)


class Warned:
    """A warning that a run gives: like a place of the Python state that the run leaves something in.

    ``where`` is the namespace, the file and the line that it is for; or how far up from the function that is.
    """

    owner = None
    name = "what it warns of"

    def __init__(self, where: Any, given: tuple[str, type[Warning]]) -> None:
        self.where = where
        self.given = given
        self.values: list[Any] = []

    @property
    def key(self) -> Any:
        """What two runs that give it have in common."""
        if isinstance(self.where, int):
            return "warn", self.where
        space, file, line = self.where
        return "warn", id(space), file, line

    def read(self) -> Any:
        """What was said."""
        return self.given

    def put(self, value: Any) -> None:
        """It has been given."""

    def store(self, value: Any) -> None:
        """Give it, in a later call."""
        if not MUTED.on:
            where = self.where
            if isinstance(where, int):
                where = _place(_above(_outside(sys._getframe(1)), where - 1))
            _give(where, *value)


class Filters(Check):
    """The filters of warnings, one of which may make an error of one."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        super().__init__(warnings, "the filters of warnings")
        self.seen = tuple(warnings.filters)

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        return f"{bind(tuple)}({bind(self.holder)}.filters) != {bind(self.seen)}"

    def difference(self) -> str | None:
        """What changed, or None."""
        return None if tuple(warnings.filters) == self.seen else f"{self.name} changed"


class _Warnings:
    """Stands for the module ``warnings``."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(warnings, name)
        return warning if found is _warn else found

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(warnings, name, value)


@contextmanager
def following_warnings(guard: StateGuard) -> Iterator[None]:
    """The names of ``warnings``, and of ``warn``, in the code of a run lead to what a recorder hears of."""
    undo: list[tuple[dict[str, Any], str, Any, Any]] = []
    try:
        for check in guard.checks:
            if type(check) is not Item or type(check.holder) is not dict:
                continue
            expected, holder, key = check.expected, check.holder, check.key
            if expected is warnings:
                stand_in: Any = _Warnings()
            elif expected is _warn and holder is not vars(warnings):
                stand_in = warning if may_lead_elsewhere(holder, key, guard.codes) else None
            else:
                continue
            if stand_in is not None and holder.get(key) is expected:
                holder[key] = stand_in
                undo.append((holder, key, stand_in, expected))
        yield
    finally:
        for holder, key, stand_in, expected in undo:
            if holder.get(key) is stand_in:
                holder[key] = expected


def warning(message: Any, category: Any = None, stacklevel: int = 1, source: Any = None) -> None:
    """``warnings.warn``, which a recorder hears of."""
    recorder = MODES.recorder
    kind = UserWarning if category is None else category
    plain = type(message) is str and isinstance(kind, type) and issubclass(kind, Warning)
    if recorder is None or not plain or type(stacklevel) is not int or source is not None:
        if recorder is not None:
            recorder.unsupported("it calls warnings.warn() with more than text")
        _warn(message, category, stacklevel + 1, source)
        return
    recorder.stop_trial("warns")
    up, frame = _found(sys._getframe(1), stacklevel)
    record = Warned(up or _place(frame), (message, kind))
    before = state_of(recorder)
    MODES.recorder = None
    try:
        _give(_place(frame), message, kind)
    finally:
        MODES.recorder = recorder
    if recorder.failure is not None:
        return
    if not all(map(is_same, before, state_of(recorder))):
        recorder.unsupported("who shows a warning changes what the function can read")
    recorder.not_in_rounds()
    recorder.checks.append(Filters())
    recorder.sent.append(record)


def _give(where: tuple[dict[str, Any], str, int], message: str, category: type[Warning]) -> None:
    space, file, line = where
    registry = space.setdefault(_REGISTRY, {})
    _show(message, category, file, line, space.get("__name__") or "<string>", registry)


def _place(frame: FrameType | None) -> tuple[dict[str, Any], str, int]:
    if frame is None:
        return (vars(sys), *_NOWHERE)
    return frame.f_globals, frame.f_code.co_filename, frame.f_lineno


def _found(frame: FrameType, level: int) -> tuple[int, FrameType | None]:
    """The frame that a warning is for, and how far up from the function it is (0: inside), as eager code counts."""
    found: FrameType | None = frame
    for left in range(level - 1, 0, -1):
        found = _above(found, 1)
        if found is not None and _runs(found):
            return left, _above(_outside(found), left - 1)
    return 0, found


def _runs(frame: FrameType) -> bool:
    """Is this what calls the function while it is recorded?"""
    from .recorded_run import RUN

    return frame.f_code is RUN


def _outside(frame: FrameType | None) -> FrameType | None:
    """The frame that called the compiled function."""
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _above(frame: FrameType | None, steps: int) -> FrameType | None:
    """The frame so many steps further up, without those of imports."""
    for _ in range(steps):
        frame = None if frame is None else frame.f_back
        while frame is not None and _imports(frame):
            frame = frame.f_back
    return frame


def _imports(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return "importlib" in name and "_bootstrap" in name
