"""Numbers in text that loggers get: ``log.info(f"loss {loss:.4f}")`` with a number that varies.

Where the bytecode shows that a formatted number goes into the message of a logger and nowhere else, the number stays
one. The text is what eager code makes of it; when the logger is called, the message is taken apart into the pieces that
the bytecode tells, and numbers stand for those that they were formatted to.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Mapping, Sequence
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

from ... import bytecode
from ...errors import user_frame
from ...frames import variables_of
from .texts import FORMATTING, taken_by

__all__ = ["LoggedTexts", "Message", "logged_formats", "says"]

_LOGGER = logging.Logger
_LEVELS = ("critical", "debug", "error", "info", "warning")
#: The code of methods and functions that get a message, and nothing before it.
_SAYING = frozenset(
    getattr(owner, name).__code__ for owner in (_LOGGER, logging) for name in _LEVELS
)
_LOADING = frozenset({"LOAD_DEREF", "LOAD_FAST", "LOAD_GLOBAL"})
_METHODS = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_MISSING: Any = object()
#: So many steps at most make a text that is kept in a variable.
_LONGEST = 120

#: A text in the code, the offset where a value is formatted, or None: something else.
Part = str | int | None


class Message(NamedTuple):
    """A message with numbers that vary: texts, and numbers with the formats in which they are shown."""

    pieces: tuple[Any, ...]


class Call(NamedTuple):
    """A call of a logger: the names by which it is reached, the first of them a variable, and what its message is."""

    kind: str
    names: tuple[str, ...]
    parts: tuple[Part, ...]


class LoggedTexts:
    """The part of a recorder that knows which numbers are in text that a logger has not got yet."""

    watched: Any

    def __init__(self) -> None:
        self.formatted: dict[tuple[int, int], tuple[Any, str, str]] = {}
        self.message: tuple[str, Message] | None = None  # that a logger was called with last
        self.messages: dict[int, tuple[str, Message]] = {}  # by identity of the text

    def text_to_log(self, number: Any, spec: Any) -> str | None:
        """The text of a number, if it goes into the message of a logger and nowhere else; else None."""
        frame = user_frame(2)
        if self.watched is None or frame is None or type(spec) is not str:
            return None
        call = logged_formats(frame.f_code).get(frame.f_lasti)
        if call is None or not _is_logger(_owner(call, frame)):
            return None
        text = format(number._value, spec)
        self.formatted[id(frame), frame.f_lasti] = number, spec, text
        return text

    def told(self, frame: FrameType) -> None:
        """A logger is called: ``frame`` is that of its method, with a message."""
        caller = frame.f_back
        if caller is None or says(
            caller.f_code
        ):  # a function of the module, which calls the method
            return
        text = frame.f_locals["msg"]
        self.message = self.messages.get(id(text))
        if not self.formatted or self.message is not None:
            return
        own = {at: x for (owner, at), x in self.formatted.items() if owner == id(caller)}
        for at in own:
            del self.formatted[id(caller), at]
        parts = _parts_at(caller)
        pieces = _pieces(text, parts, own) if parts is not None and type(text) is str else None
        if pieces is not None:
            self.message = self.messages[id(text)] = text, Message(pieces)
            return
        for number, *_ in own.values():
            number._forced()

    def in_message(self, text: Any) -> Any:
        """The message that is a text, with the numbers in it."""
        known = self.message
        return known[1] if known is not None and known[0] is text else text


def says(code: CodeType) -> bool:
    """Is this the code of a logger's method that gets a message?

    >>> says(logging.Logger.info.__code__), says(logging.Logger.log.__code__)
    (True, False)
    """
    return code in _SAYING


def _pieces(
    text: str, parts: Sequence[Part], own: Mapping[int, tuple[Any, str, str]]
) -> tuple[Any, ...] | None:
    """A message in pieces, numbers for those that were formatted; None where it is not sure what they became."""
    patterns: list[str] = []
    for part in parts:
        if isinstance(part, str):
            patterns.append(f"({re.escape(part)})")
        elif part is not None and part in own:
            patterns.append(f"({re.escape(own[part][2])})")
        else:
            patterns.append("(.*?)")
    shortest = re.fullmatch("".join(patterns), text, re.DOTALL)
    longest = re.fullmatch("".join(patterns).replace("(.*?)", "(.*)"), text, re.DOTALL)
    if shortest is None or longest is None or shortest.groups() != longest.groups():
        return None
    pairs = zip(parts, shortest.groups(), strict=True)
    return tuple(own[x][:2] if type(x) is int and x in own else found for x, found in pairs)


def _is_logger(value: Any) -> bool:
    """Is this a logger, or the module with functions that lead to one, as ``logging`` has them?"""
    if value is logging:
        known = all(getattr(logging, name).__code__ in _SAYING for name in _LEVELS)
        return known and _is_logger(logging.root)
    kind = type(value)
    if not issubclass(kind, _LOGGER):
        return False
    own = all(getattr(kind, name) is getattr(_LOGGER, name) for name in (*_LEVELS, "_log"))
    return own and vars(value).keys().isdisjoint((*_LEVELS, "_log"))


def _owner(call: Call, frame: FrameType) -> Any:
    """What a method is called of, without asking anything."""
    first = call.names[0]
    if call.kind == "LOAD_GLOBAL":
        found = frame.f_globals.get(first, _MISSING)
    else:
        found = variables_of(frame).get(first, _MISSING)
    for name in call.names[1:]:
        kind = type(found)
        if any(name in vars(cls) for cls in kind.__mro__) and kind is not ModuleType:
            return _MISSING  # a property, or a default that all objects have
        found = getattr(found, "__dict__", {}).get(name, _MISSING)
    return found


def _parts_at(frame: FrameType) -> tuple[Part, ...] | None:
    """The parts of the message of the call that a frame is in."""
    for call, offsets in _calls(frame.f_code):
        if frame.f_lasti in offsets:
            return call.parts
    return None


@functools.lru_cache(maxsize=256)
def logged_formats(code: CodeType) -> Mapping[int, Call]:
    """Where code formats a value into the message of what may be a logger: the offset, and the call.

    >>> found = logged_formats((lambda log, x: log.info(f"{x:.1f} and {x}")).__code__)
    >>> len(found), {call.names for call in found.values()}
    (2, {('log',)})
    >>> len(logged_formats((lambda log, x: log.info(len(f"{x:.1f}"))).__code__))
    0
    """
    return {part: call for call, _ in _calls(code) for part in call.parts if type(part) is int}


@functools.lru_cache(maxsize=256)
def _calls(code: CodeType) -> tuple[tuple[Call, range], ...]:
    """The calls of what may be loggers, and the offsets of their instructions."""
    if not any(name in code.co_names for name in _LEVELS):
        return ()
    try:
        steps = bytecode.steps_of(code)
    except bytecode.Unfollowed:
        return ()
    found = []
    for at, step in enumerate(steps):
        if step.name in _METHODS and step.value in _LEVELS:
            # Python 3.13 announces calls of functions of modules behind them.
            first = at + 2 if steps[at + 1].name == "PUSH_NULL" else at + 1
            names, message = _names_before(steps, at), _first_in_call(code, steps, first)
            if names is not None and message is not None:
                end, parts = message
                offsets = range(steps[end].offset, steps[end + 1].offset)
                if parts == (None,) and steps[first].name == "LOAD_FAST":
                    parts = _kept(steps, first, end)
                found.append((Call(names[0], names[1], parts), offsets))
    return tuple(found)


def _kept(steps: Sequence[bytecode.Step], load: int, end: int) -> tuple[Part, ...]:
    """The parts of the text in a variable that is set once, right before, and read for nothing else."""
    name = steps[load].value
    used = [at for at, step in enumerate(steps) if step.names_local(name)]
    straight = len(used) == 2 and load + 1 == end and steps[used[0]].name == "STORE_FAST"
    between = range(used[0], load)
    targets = {step.jump[0] for step in steps if step.jump is not None}
    if not straight or any(steps[at].jump is not None for at in between):
        return (None,)
    if any(steps[at].offset in targets for at in between):
        return (None,)
    for start in range(used[0] - 1, max(used[0] - _LONGEST, -1), -1):
        stack: list[tuple[Part, ...]] = []
        if all(_follow(steps[at], stack) for at in range(start, used[0])) and len(stack) == 1:
            return stack[0]
    return (None,)


def _names_before(steps: Sequence[bytecode.Step], at: int) -> tuple[str, tuple[str, ...]] | None:
    """How the value is reached that a step finds on the stack: a variable, and attributes of it."""
    names: list[str] = []
    for step in reversed(steps[:at]):
        names.insert(0, str(step.value))
        if step.name in _LOADING:
            return step.name, tuple(names)
        if step.name != "LOAD_ATTR":
            break
    return None


def _first_in_call(
    code: CodeType, steps: Sequence[bytecode.Step], first: int
) -> tuple[int, tuple[Part, ...]] | None:
    """Where a method is called whose arguments begin with a step, and the parts of the text that it gets first."""
    stack: list[tuple[Part, ...]] = []
    for at in range(first, len(steps)):
        step = steps[at]
        if step.name == "CALL" and (taken_by(step) or 0) > len(stack):  # the method is among it
            return (at, stack[0]) if stack and not bytecode.keywords_at(code, step) else None
        if not _follow(step, stack):
            break
    return None


def _follow(step: bytecode.Step, stack: list[tuple[Part, ...]]) -> bool:
    """Do to ``stack`` what a step does; False where that is not known, or another step may be next."""
    taken = taken_by(step)
    if taken is None or step.onward is None or step.jump is not None or taken > len(stack):
        return False
    parts = stack[len(stack) - taken :]
    del stack[len(stack) - taken :]
    made: tuple[Part, ...] = (None,)
    if step.name == "BUILD_STRING":
        made = tuple(part for text in parts for part in text)
    elif step.name in FORMATTING:
        made = (step.offset,)
    elif step.name == "LOAD_CONST" and type(step.value) is str:
        made = (step.value,)
    count = step.onward + taken
    stack += [(None,)] * (count - 1) + [made] * (count > 0)
    return True
