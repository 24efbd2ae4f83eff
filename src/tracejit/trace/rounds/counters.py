"""Counters of loops: numbers that do nothing but count rounds, by a user's bytecode.

A ``for`` over a ``range``, or ``n += 1`` beside a comparison, makes a loop one of at most so many rounds. That holds
only while the counter is of no use once the loop is left; else what follows would hang on how many rounds there were.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import CodeType
from typing import Any

from ...bytecode import TESTS
from .code import Flow, flow_of

#: More rounds than any loop will do.
ENDLESS = 1 << 62

_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop in a frame: around which instruction, how variables are read, and which are not the same in each round.

    ``read`` gives a ("global" or "local") variable, ``driver`` is that of :func:`driver_of`.
    """

    code: CodeType
    number: int
    driver: int
    read: Callable[[str, str], Any]
    moving: Collection[str]

    def flow(self) -> Flow:
        """The steps of the code."""
        found = flow_of(self.code)
        assert found is not None
        return found

    def stored(self) -> set[Any]:
        """The variables that rounds set."""
        flow = self.flow()
        found = [flow.steps[n] for n in flow.loop(self.number)]
        return {step.value for step in found if "STORE" in step.name or "DELETE" in step.name}

    def integer(self, place: int) -> int | None:
        """The number that a step loads, the same in every round."""
        step = self.flow().steps[place]
        value: Any = None
        if step.name == "LOAD_CONST":
            value = step.value
        elif step.name == "LOAD_GLOBAL" and step.value not in self.stored():
            value = self.read("global", step.value)
        elif step.name == "LOAD_FAST" and step.value not in {*self.stored(), *self.moving}:
            value = self.read("local", step.value)
        return value if type(value) is int else None


def rounds_of_counter(loop: Loop, name: str, values: tuple[int, int]) -> int | None:
    """For how many rounds a loop's comparisons of a counter come out as in the first; None where it is none.

    The local variable ``name`` was the first of ``values`` at one visit of the loop's instruction and the second at
    the next. It is a counter if the loop does nothing but count it by a constant, once, and compare it with numbers
    that stay the same, and nothing afterwards reads it. A counter may be what a ``for`` over a ``range`` sets.
    """
    flow, code = loop.flow(), loop.code
    if flow.hides or name in code.co_cellvars or name in code.co_freevars:
        return None
    inside, after = flow.loop(loop.number), flow.reached(loop.number)
    first, step = values[0], values[1] - values[0]
    explained: set[int] = set()
    counted, found = 0, ENDLESS
    if loop.driver >= 0 and driven_name(loop) == name:
        found, counted = _left_of_range(loop, *values), 1
        explained.add(loop.driver + 1)
    for place in flow.mentions(name):
        if place not in inside:
            if place in after and flow.steps[place].name != "STORE_FAST":
                return None
            continue
        if place in explained:
            continue
        if _counts(flow, place, name) == step:
            counted += 1
            explained.add(place + 3)
            continue
        compared = _compares(loop, place)
        if compared is None:
            return None
        found = min(found, _unchanged(*compared, first, step))
    return found if counted == 1 and found > 0 else None


def ends_for_good(loop: Loop, names: Collection[str]) -> bool:
    """Does nothing that counts go on counting once a truth came out otherwise?

    Where both outcomes come around (``if done: continue``), what follows hangs on how many rounds there were.
    """
    flow = loop.flow()
    ways = flow.ways_on(loop.number)
    if ways is None:
        return False
    driven = [
        w for w in ways if loop.driver >= 0 and flow.comes_to(w, loop.driver, loop.driver - 1)
    ]
    return len(driven) <= 1 and all(sum(flow.reads(n, w) for w in ways) <= 1 for n in names)


def driven_name(loop: Loop) -> str | None:
    """The local variable that a ``for`` sets."""
    step = loop.flow().steps[loop.driver + 1]
    return str(step.value) if step.name == "STORE_FAST" else None


def _left_of_range(loop: Loop, first: int, second: int) -> int:
    """How many rounds a ``for`` over a ``range`` has after the one with the item ``first``; 0 if it is no range."""
    flow, driver = loop.flow(), loop.driver
    inside = flow.loop(loop.number)
    before = [n for n, found in enumerate(flow.next) if any(t == driver for t, _ in found)]
    if [n for n in before if n not in inside] != [driver - 1]:
        return 0
    call = driver - 2
    if flow.steps[driver - 1].name != "GET_ITER" or flow.steps[call].name != "CALL":
        return 0
    count = flow.steps[call].argument
    bounds = [loop.integer(n) for n in range(call - count, call)]
    called = flow.steps[call - count - 1]
    if called.name != "LOAD_GLOBAL" or called.value != "range" or not 1 <= count <= 3:
        return 0
    if loop.read("global", "range") is not range or None in bounds:
        return 0
    try:
        items = range(*[int(x or 0) for x in bounds])
        if first not in items or second != first + items.step:
            return 0
        return len(items) - 1 - items.index(first)
    except (ValueError, OverflowError):
        return 0


def _counts(flow: Flow, place: int, name: str) -> int | None:
    """By how much a statement such as ``name += 1`` counts."""
    four = flow.steps[place : place + 4]
    if [step.name for step in four] != ["LOAD_FAST", "LOAD_CONST", "BINARY_OP", "STORE_FAST"]:
        return None
    by, sign = four[1].value, four[2].value.rstrip("=")
    if four[3].value != name or type(by) is not int or sign not in ("+", "-"):
        return None
    return by if sign == "+" else -by


def _compares(loop: Loop, place: int) -> tuple[Callable[[int, int], bool], int] | None:
    """A comparison of a counter with a number: how, and with which one."""
    steps = loop.flow().steps
    if steps[place].name != "LOAD_FAST":
        return None
    for first, second in pairwise((place - 1, place, place + 1)):
        if first < 0 or second + 1 >= len(steps):
            continue
        relation = steps[second + 1]
        if first == place and steps[second].name in TESTS:
            return operator.ne, 0
        compare = _COMPARISONS.get(str(relation.value))
        if relation.name != "COMPARE_OP" or compare is None:
            continue
        limit = loop.integer(first if second == place else second)
        if limit is None:
            continue
        if second == place:
            return (lambda a, b, c=compare: c(b, a)), limit
        return compare, limit
    return None


def _unchanged(compare: Callable[[int, int], bool], limit: int, first: int, step: int) -> int:
    """In how many rounds a comparison comes out as in the first, whether it stands before or after the counting."""
    outcome, distance = compare(first, limit), limit - first
    if compare(first + step, limit) is not outcome:
        return 0
    if distance * step < 0:
        return ENDLESS  # it counts away from the limit
    for number in (-(-distance // step), distance // step + 1):  # at the limit, and beyond
        if number > 0 and compare(first + step * number, limit) is not outcome:
            return number - 1
    return ENDLESS
