"""Calls of loggers in recorded runs: a level that is off writes nothing, and that it is off is compared at every call.

What a logger asks itself before it writes is asked again, of the same logger: whether a level is on, how high it is
set, whether the root has handlers, which logger has a name. Whatever writes ends the recording.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from .checks import Bind, Check

_LOGGER, _ADAPTER = logging.Logger, logging.LoggerAdapter
_LEVELS = ("debug", "info", "warning", "error", "critical", "log")


def _code(function: Any) -> CodeType | None:
    return getattr(function, "__code__", None)


#: Methods that do no more than to ask, and to go on where the answer is yes.
_ASKING = frozenset(
    {
        *(_code(getattr(owner, name)) for owner in (_LOGGER, _ADAPTER) for name in _LEVELS),
        _code(_LOGGER.exception),
        _code(_ADAPTER.exception),
        _code(_ADAPTER.isEnabledFor),
        _code(_ADAPTER.getEffectiveLevel),
        _code(logging.getLogger),
        *(_code(getattr(logging, name, None)) for name in ("_acquireLock", "_releaseLock")),
    }
)
_ROOT = frozenset(_code(getattr(logging, name)) for name in _LEVELS)


@dataclass(frozen=True, eq=False)
class Question:
    """Something that is asked of a logger."""

    ask: Callable[[], Any]
    words: str


@dataclass(eq=False, slots=True)
class Answer(Check):
    """A question about a logger, or a setting, still has the answer it had; ``holder`` is the question."""

    expected: Any

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        sign = "!=" if type(self.expected) is int else "is not"
        return f"{bind(self.holder.ask)}() {sign} {bind(self.expected)}"

    def difference(self) -> str | None:
        """What changed, or None."""
        now = self.holder.ask()
        if now is self.expected or (type(now) is int and now == self.expected):
            return None
        return f"{self.name} was {self.expected} and is {now}"


#: One of each kind, so that what two runs ask is one check. Loggers live for ever.
_questions: dict[tuple[int, Any], tuple[Any, Question]] = {}


def asked(owner: Any, key: Any, ask: Callable[[], Any], words: str) -> Answer:
    """A check that what ``ask`` asks of an ``owner``, who lives for ever, is answered as it is now."""
    known = _questions.get((id(owner), key))
    if known is None:
        known = _questions[id(owner), key] = owner, Question(ask, words)
    question = known[1]
    return Answer(question, question.words, question.ask())


def is_of_loggers(code: CodeType) -> bool:
    """Is this code of ``logging``?"""
    return code.co_filename == _LOGGER.debug.__code__.co_filename


def follow(frame: FrameType, checks: list[Check]) -> str | None:
    """Note in ``checks`` what a function of ``logging`` hangs on, or say what is called that does more."""
    code = frame.f_code
    if code in _ASKING or _is_step(frame):
        return None
    found = _answer(frame)
    if found is not None:
        checks.append(found)
        return None
    caller = frame.f_back
    if code is _code(_LOGGER._log) and caller is not None:
        code = caller.f_code
    return f"logging.{code.co_qualname}"


def _is_step(frame: FrameType) -> bool:
    """Is this a part of what was asked?"""
    caller = frame.f_back
    asked = caller is not None and caller.f_code is _code(_LOGGER.isEnabledFor)
    return asked and frame.f_code is _code(_LOGGER.getEffectiveLevel)


def _answer(frame: FrameType) -> Answer | None:
    code, given = frame.f_code, frame.f_locals
    if code in _ROOT:
        handlers = logging.root.handlers
        words = "whether the root logger has handlers"
        return (
            asked(logging.root, "handlers", lambda: bool(logging.root.handlers), words)
            if handlers
            else None
        )
    if code is _code(_LOGGER.isEnabledFor) and type(given["level"]) is int:
        logger, level = given["self"], given["level"]
        words = f"whether logger {logger.name!r} writes at level {level}"
        return asked(logger, level, lambda: _LOGGER.isEnabledFor(logger, level), words)
    if code is _code(_LOGGER.getEffectiveLevel):
        logger = given["self"]
        words = f"the level of logger {logger.name!r}"
        return asked(logger, "level", lambda: _LOGGER.getEffectiveLevel(logger), words)
    if code is _code(logging.Manager.getLogger):
        names, name = given["self"].loggerDict, given["name"]
        if isinstance(names.get(name), _LOGGER):
            return asked(names, name, lambda: names.get(name), f"the logger {name!r}")
    return None
