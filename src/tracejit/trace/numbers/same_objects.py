"""Code that asks whether numbers are one object (``n is 2``, ``i is last``): small ints are, so the answer is known.

What stands for a number that varies is no other object, and nobody is asked about ``is``. Such numbers are constants.
"""

from __future__ import annotations

import dis
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from ...bytecode import Step, Unfollowed, steps_of
from ...numpy_numbers import NUMBERS
from ..state.checks import Check, Read
from .numbers import UnfitError

_IS = dis.opmap["IS_OP"]
#: Steps that read what checks of Python state tell of, by its name there.
_READING = frozenset({"LOAD_ATTR", "LOAD_GLOBAL", "LOAD_NAME"})

#: The names by which two things are compared, each with: is it read from Python state?
_Sides = tuple[tuple[str, bool], ...]


def check_same_objects(
    codes: Iterable[CodeType], names: Collection[str], checks: Iterable[Check]
) -> None:
    """Raise :class:`UnfitError` where code compares a number, or what has one of these names, by ``is``.

    What is compared with something that is no number, by these ``checks``, is another object in any case.
    """
    others: set[str] | None = None
    for code in codes:
        numbers, compared = _compared(code)
        for sides in compared:
            if all(name not in names for name, _ in sides):
                continue
            if others is None:
                others = _no_numbers(checks).difference(names)
            numbers = numbers or not any(read and name in others for name, read in sides)
        if numbers:
            raise UnfitError("numbers are constants here, because the code compares one by 'is'")


def _no_numbers(checks: Iterable[Check]) -> set[str]:
    """Names by which a run has read things that are no numbers, and none that is."""
    read: dict[Any, bool] = {}
    for check in checks:
        if isinstance(check, Read) and type(check.key) is str:
            read[check.key] = read.get(check.key, True) and type(check.expected) not in NUMBERS
    return {name for name, other in read.items() if other}


@lru_cache(maxsize=4096)
def _compared(code: CodeType) -> tuple[bool, frozenset[_Sides]]:
    """Does code compare a literal number by ``is``, and the last names of what else it compares so?

    >>> numbers, compared = _compared((lambda a, b: (a is None, f(a).i is b.last, a is b)).__code__)
    >>> numbers, sorted(compared)
    (False, [(('b', False), ('a', False)), (('last', True), ('i', True))])
    """
    numbers, compared = False, set[_Sides]()
    for nested in code.co_consts:
        if isinstance(nested, CodeType):
            within = _compared(nested)
            numbers, compared = numbers or within[0], compared | within[1]
    if _IS not in code.co_code[::2]:
        return numbers, frozenset(compared)
    try:
        steps = steps_of(code)
    except Unfollowed:
        return True, frozenset(compared)
    for at, step in enumerate(steps):
        if step.name != "IS_OP":
            continue
        sides = steps[at - 1], steps[_before(steps, at - 1)]
        constants = [x.value for x in sides if x.name == "LOAD_CONST"]
        numbers = numbers or any(type(x) in NUMBERS for x in constants)
        if not constants:
            named = [x for x in sides if isinstance(x.value, str)]
            compared.add(tuple([(x.value, x.name in _READING) for x in named]))
    return numbers, frozenset(compared)


def _before(steps: Sequence[Step], end: int) -> int:
    """The position ahead of the steps that compute what the one at ``end`` leaves on the stack."""
    height = 0
    for at in range(end, 0, -1):
        onward = steps[at].onward
        if onward is None:
            break
        height += onward
        if height == 1:
            return at - 1
    return end
