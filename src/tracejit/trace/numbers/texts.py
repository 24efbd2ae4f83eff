"""Numbers in text that is only printed: ``print(f"loss {loss:.4f}")`` with a number that varies, or ``format``.

Text has no place for a number that varies, so elsewhere a number that becomes text is a constant from there on. Where
the bytecode shows that a formatted number goes into text which ``print`` gets and nobody else sees, a mark stands in
the text for it; who prints takes the text apart at the marks.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from types import CodeType, FrameType
from typing import Any

from ... import bytecode
from ...errors import user_frame

#: A mark: a character, the number of the text, another one, the text as it is now, and one more, all for private use.
_FIRST, _SECOND, _LAST = "\U000f7a0e", "\U000f7a0f", "\U000f7a10"
_MARK = re.compile(f"{_FIRST}([0-9]+){_SECOND}([^{_LAST}]*){_LAST}")

#: What puts values on the stack and looks at none of those that are there.
_PUSHING = frozenset({"LOAD_CONST", "LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "PUSH_NULL", "NOP"})
#: What takes this many values from the stack, and puts some there.
_TAKING: Mapping[str, int] = {
    **dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD", "TO_BOOL", "CONVERT_VALUE"), 1),
    **dict.fromkeys(("UNARY_NEGATIVE", "UNARY_INVERT", "UNARY_NOT", "UNARY_POSITIVE"), 1),
    **dict.fromkeys(("BINARY_OP", "BINARY_SUBSCR", "COMPARE_OP"), 2),
    **dict.fromkeys(("IS_OP", "CONTAINS_OP", "FORMAT_WITH_SPEC"), 2),
    "FORMAT_SIMPLE": 1,
    "BINARY_SLICE": 3,
}
#: What takes as many values as its argument says.
_COUNTING = frozenset({"BUILD_STRING", "BUILD_TUPLE", "BUILD_LIST", "BUILD_SLICE"})
FORMATTING = frozenset({"FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC"})
#: Calls, and how many values they take besides their arguments.
_CALLS: Mapping[str, int] = {"CALL": 2, "CALL_KW": 3}
#: The bit of ``FORMAT_VALUE`` that says that there is a format.
_WITH_FORMAT = 4
#: The name of the function.
PRINT = "print"
#: Names by which code may read a variable that its steps do not load.
_READING = frozenset({"locals", "vars", "eval", "exec", "_getframe"})
#: So many steps at most make a text that is stored.
_LONGEST = 120


def text_of(pieces: tuple[Any, ...]) -> str:
    """The text made of pieces: of text, and of numbers with the formats in which they are shown.

    >>> text_of(("loss ", (0.25, ".1f")))
    'loss 0.2'
    """
    return "".join(x if type(x) is str else _text_of(*x) for x in pieces)


def _text_of(number: Any, spec: str | None, part: str = "") -> str:
    """A number as text, in a format or as a part of a template for ``%``."""
    return part % (number,) if spec is None else format(number, spec)


def pieces_of(recorder: Any, text: str) -> tuple[Any, ...]:
    """The pieces of a text with marks; without a recorder that knows them they are the text that they stand for.

    >>> pieces_of(None, "plain")
    ('plain',)
    """
    pieces: list[Any] = []
    at = 0
    for mark in _MARK.finditer(text):
        known = None if recorder is None else recorder.texts.get(int(mark[1]))
        pieces += [text[at : mark.start()], mark[2] if known is None else known]
        at = mark.end()
    return (*pieces, text[at:])


class TextsInside:
    """The part of a recorder that knows which numbers are in text that is going to be printed."""

    def __init__(self) -> None:
        self.texts: dict[int, tuple[Any, str]] = {}
        self.texts_so_far = 0

    def text_to_print(self, number: Any, spec: Any) -> str | None:
        """A mark for a number, if the text of it is about to be printed and nothing else; else None."""
        frame = user_frame(2)
        if frame is None or type(spec) is not str:
            return None
        if not has_stand_in(frame) or frame.f_lasti not in printed_formats(frame.f_code):
            return None
        text = format(number._value, spec)
        if _LAST in text:
            return None
        self.texts_so_far += 1
        self.texts[self.texts_so_far] = number, spec
        return f"{_FIRST}{self.texts_so_far}{_SECOND}{text}{_LAST}"


def has_stand_in(frame: FrameType) -> bool:
    """Does the name ``print`` lead to what notes what is printed, in the code of a frame?"""
    found = frame.f_globals.get(PRINT)
    stand_in = getattr(found.func if type(found) is functools.partial else found, "__module__", "")
    return bool(stand_in.endswith(".printed_lines"))


@functools.lru_cache(maxsize=256)
def printed_formats(code: CodeType) -> frozenset[int]:
    """Where code formats a value into text that only ``print`` gets: the offsets in the bytecode.

    >>> len(printed_formats((lambda x: print(f"{x:.1f} and {x}")).__code__))
    2
    >>> len(printed_formats((lambda x: print(len(f"{x:.1f}"))).__code__))
    0
    >>> bool(printed_formats((lambda x: print("{:.1f}".format(x))).__code__))
    True
    """
    if PRINT not in code.co_names:
        return frozenset()
    try:
        steps = bytecode.steps_of(code)
    except bytecode.Unfollowed:
        return frozenset()
    seen = in_calls_of_print(steps)
    for at in _kept_for(code, steps, seen):
        seen |= _stored(steps, at)
    return frozenset(offset for at in seen for offset in _offsets(steps, at))


def _offsets(steps: tuple[bytecode.Step, ...], at: int) -> Sequence[int]:
    """Where in the bytecode a step is, if it formats: a call is one of several instructions."""
    if steps[at].name in _CALLS:
        return range(steps[at].offset, steps[at + 1].offset)
    return (steps[at].offset,) if steps[at].name in FORMATTING else ()


def in_calls_of_print(steps: tuple[bytecode.Step, ...]) -> set[int]:
    """The steps that made, or loaded, text in the values that ``print`` gets.

    >>> in_calls_of_print(bytecode.steps_of((lambda x: print(x + 1)).__code__))
    set()
    """
    seen: set[int] = set()
    for start, step in enumerate(steps):
        if step.name == "LOAD_GLOBAL" and step.value == PRINT:
            seen |= _in_call(steps, start)
    return seen


def made_since(steps: tuple[bytecode.Step, ...], at: int) -> int:
    """Where the left operand of the operator at a step is loaded, if it is a text in the code; else -1.

    >>> made_since(bytecode.steps_of((lambda x: "%d" % x).__code__), 3)
    1
    """
    for start in range(at - 1, max(at - _LONGEST, -1), -1):
        stack: list[set[int]] = []
        if all(_follow(steps, here, stack) for here in range(start, at)) and len(stack) == 2:
            load = steps[start]
            return start if load.name == "LOAD_CONST" and type(load.value) is str else -1
    return -1


def _kept_for(code: CodeType, steps: tuple[bytecode.Step, ...], seen: set[int]) -> list[int]:
    """Where variables are set that are only read to print them, as their reads in ``seen`` tell."""
    if not _READING.isdisjoint(code.co_names):
        return []
    read = [(at, x.value) for at, x in enumerate(steps) if x.name == "LOAD_FAST"]
    printed = {steps[at].value for at in seen if steps[at].name == "LOAD_FAST"}
    kept = printed - {name for at, name in read if at not in seen}
    return [at for at, x in enumerate(steps) if x.name == "STORE_FAST" and x.value in kept]


def _stored(steps: tuple[bytecode.Step, ...], at: int) -> set[int]:
    """The steps that made the text which is stored in a variable at a step: those of one expression."""
    for start in range(at - 1, max(at - _LONGEST, -1), -1):
        stack: list[set[int]] = []
        if all(_follow(steps, here, stack) for here in range(start, at)) and len(stack) == 1:
            return stack[0]
    return set()


def _in_call(steps: tuple[bytecode.Step, ...], start: int) -> set[int]:
    """The steps that made the text for the call of the function that a step puts on the stack."""
    stack: list[set[int]] = []
    for at in range(start + 1, len(steps)):
        if steps[at].name in _CALLS and (taken_by(steps[at]) or 0) > len(stack):
            return set().union(*stack)  # the function itself is among what this takes
        if not _follow(steps, at, stack):
            break
    return set()


def _follow(steps: tuple[bytecode.Step, ...], at: int, stack: list[set[int]]) -> bool:
    """Do to ``stack`` what a step does; False where that is not known, or another step may be next.

    It has, for each value, the steps that formatted, or loaded, the text in it.
    """
    step, taken = steps[at], taken_by(steps[at])
    if taken is None or taken > len(stack) or step.onward is None or step.jump is not None:
        return False
    parts = stack[len(stack) - taken :]
    del stack[len(stack) - taken :]
    made: set[int] = set()  # whoever else takes a text sees it
    if step.name == "BUILD_STRING":
        made = set().union(*parts)
    elif _makes_text(steps, at, parts):
        made = {at}
    count = step.onward + taken
    stack += [set() for _ in range(count - 1)]
    if count > 0:
        stack.append(made)
    return True


def _makes_text(steps: tuple[bytecode.Step, ...], at: int, parts: list[set[int]]) -> bool:
    """Does a step format, or load, what may be text? ``parts``: the steps that made what it takes."""
    step = steps[at]
    if step.name in _CALLS:  # what is called comes first
        return any(_is_method(steps, x) for part in parts[:2] for x in part)
    if step.name == "BINARY_OP":
        return step.value == "%" and made_since(steps, at) >= 0
    return step.name in (*FORMATTING, "LOAD_FAST") or _is_method(steps, at)


def _is_method(steps: tuple[bytecode.Step, ...], at: int) -> bool:
    """Is this the method ``format`` of a text in the code?"""
    step, before = steps[at], steps[at - 1]
    known = step.name in ("LOAD_METHOD", "LOAD_ATTR") and before.name == "LOAD_CONST"
    return known and step.value == "format" and type(before.value) is str


def taken_by(step: bytecode.Step) -> int | None:
    """How many values a step takes from the stack; None where that is not known."""
    if step.name in _PUSHING:
        return 0
    if step.name == "FORMAT_VALUE":
        return 2 if step.argument & _WITH_FORMAT else 1
    if step.name in _COUNTING:
        return step.argument
    if step.name in _CALLS:
        return step.argument + _CALLS[step.name]
    return _TAKING.get(step.name)
