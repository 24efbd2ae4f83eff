"""Numbers that ``%`` puts into text for ``print``: ``print("loss %.4f" % loss)`` with a number that varies.

Code in C asks the number for its value there, and no mark can stand for it (:mod:`.texts`). Where the bytecode shows
that the text is itself what ``print`` gets, what was formatted is noted, and found again when ``print`` is called.
"""

from __future__ import annotations

import functools
import gc
import re
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any

from ... import bytecode
from ...errors import user_frame
from ...varying import is_varying, plain
from .texts import PRINT, has_stand_in, in_calls_of_print, made_since

#: A part of a template that takes one value: no keys of a dict, and no width that is another value.
_PART = re.compile(r"(%%|%[-+ #0]*[0-9]*(?:\.[0-9]+)?[diouxXeEfFgGsr])")
_PLAIN = frozenset({bool, int, float, str})


class PercentsInside:
    """The part of a recorder that knows which numbers are in text that ``%`` made and ``print`` has not got yet."""

    unsupported: Callable[[str], None]

    def __init__(self) -> None:
        #: Texts, their pieces, and where in which code they were made of what.
        self.percents: list[tuple[str, tuple[Any, ...], tuple[CodeType, int], tuple[Any, ...]]] = []

    def is_only_printed(self, number: Any) -> bool:
        """Does ``%`` ask for the value of a number, to make text that ``print`` gets and nobody else?"""
        frame = user_frame(2)
        if frame is None or not has_stand_in(frame):
            return False
        found = printed_templates(frame.f_code).get(frame.f_lasti)
        if found is None:
            return False
        where = frame.f_code, frame.f_lasti
        if any(
            at == where and any(x is number for x in made_of) for _, _, at, made_of in self.percents
        ):
            return True
        operands = _operands(number, found[1])
        pieces = _pieces(found[0], operands)
        if pieces is None:
            return False
        self.percents.append((found[0] % tuple(map(plain, operands)), pieces, where, operands))
        return True

    def percents_in(self, values: Sequence[Any]) -> dict[int, tuple[Any, ...]] | None:
        """Which of the values that ``print`` gets are such texts, and their pieces; None where that is not sure."""
        noted, self.percents = self.percents, []
        found: dict[int, tuple[Any, ...]] = {}
        for whole in {text for text, *_ in noted}:
            places = [i for i, x in enumerate(values) if type(x) is str and x == whole]
            alike = [pieces for text, pieces, *_ in noted if text == whole]
            if len(places) != len(alike):
                return None
            found.update(zip(places, alike, strict=True))  # both from left to right
        return found

    def check_percents(self) -> None:
        """Refuse texts that ``print`` never got."""
        if self.percents:
            self.unsupported("it makes text of a number that varies")


def _operands(number: Any, count: int) -> tuple[Any, ...]:
    """The values that ``%`` has at hand: a tuple, or one number (``count`` 0); none where that is not sure."""
    if count == 0:
        return (number,)
    held = [t for t in gc.get_referrers(number) if type(t) is tuple and len(t) == count]
    held = [t for t in held if all(type(x) in _PLAIN or is_varying(x) for x in t)]
    return held[0] if len(held) == 1 else ()


def _pieces(template: str, operands: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """What a template becomes with numbers that vary; None for a template of another kind."""
    parts = _PART.split(template)
    taking = [part for part in parts[1::2] if part != "%%"]
    if "%" in "".join(parts[::2]) or len(operands) != len(taking):
        return None
    made: list[Any] = []
    values = iter(operands)
    for text, part in zip(parts[::2], [*parts[1::2], ""], strict=True):
        made.append(text)
        if part in ("%%", ""):
            made.append(part[:1])
            continue
        value = next(values)
        made.append((value, None, part) if is_varying(value) else part % (value,))
    return tuple(made)


@functools.lru_cache(maxsize=256)
def printed_templates(code: CodeType) -> Mapping[int, tuple[str, int]]:
    """Where code makes text by ``%`` that ``print`` gets: offset -> template, and how many values are in a tuple.

    >>> list(printed_templates((lambda x, y: print("%d %f" % (x, y), "%s" % y)).__code__).values())
    [('%d %f', 2), ('%s', 0)]
    >>> printed_templates((lambda x: print(len("%f" % x))).__code__)
    {}
    """
    if PRINT not in code.co_names:
        return {}
    try:
        steps = bytecode.steps_of(code)
    except bytecode.Unfollowed:
        return {}
    found = {}
    for at in sorted(in_calls_of_print(steps)):
        if steps[at].name == "BINARY_OP":
            template, before = steps[made_since(steps, at)].value, steps[at - 1]
            is_tuple = before.name == "BUILD_TUPLE"
            found[steps[at].offset] = template, before.argument if is_tuple else 0
    return found
