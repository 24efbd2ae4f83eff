"""A user's bytecode as a graph: which instructions a loop comes around, and what lives on when it does.

A ``while`` loop that reads a tensor comes back to the same instruction with Python in the same state, if nothing that
Python goes on with differs. What a frame goes on with are its live local variables and what lies on its value stack.
The former can be looked at; the latter cannot, but the instructions of the loop tell whether they leave it alone.
"""

from __future__ import annotations

import dis
import math
import operator
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from inspect import CO_OPTIMIZED
from itertools import pairwise
from types import CodeType
from typing import Any

from ..bytecode import TESTS, Unfollowed, at_offset, steps_of

#: More rounds than any loop will do.
ENDLESS = 1 << 62

#: Steps that call Python and leave one result.
_CALLS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})
#: Steps that change a container further down on the stack, by how many values they take for it.
_COLLECT = {"LIST_APPEND": 1, "SET_ADD": 1, "MAP_ADD": 2}
#: Functions that read local variables without naming them.
_READERS = frozenset({"locals", "vars", "eval", "exec", "dir", "_getframe", "currentframe"})
_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


class Flow:
    """The steps of a code object, where each leads, and how high the value stack is before it."""

    def __init__(self, code: CodeType) -> None:
        if not code.co_flags & CO_OPTIMIZED:
            raise Unfollowed  # its variables are those of a namespace
        self.code = code
        self.steps = steps_of(code)
        first = {step.offset: n for n, step in reversed(list(enumerate(self.steps)))}
        self.next: list[list[tuple[int, int | None]]] = [[] for _ in self.steps]
        for number, step in enumerate(self.steps):
            if step.onward is not None and number + 1 < len(self.steps):
                self.next[number].append((number + 1, step.onward))
            if step.jump is not None:
                target, effect = step.jump
                if target not in first:
                    raise Unfollowed
                self.next[number].append((first[target], effect))
        self._handlers()
        self.depth = self._depths()
        self._reached: dict[int, frozenset[int]] = {}
        self._loops: dict[int, frozenset[int]] = {}
        self.hides = bool(_READERS.intersection(code.co_names))

    def _handlers(self) -> None:
        """Where errors lead; the height of the stack there is not needed."""
        if not self.code.co_exceptiontable:
            return
        parse = getattr(dis, "_parse_exception_table", None)
        if parse is None:
            raise Unfollowed
        for entry in parse(self.code):
            target = self.at(entry.target)
            for number in range(self.at(entry.start), self.at(entry.end - 2) + 1):
                self.next[number].append((target, None))

    def _depths(self) -> dict[int, int]:
        found = {0: 0}
        waiting = deque([0])
        while waiting:
            number = waiting.popleft()
            for target, effect in self.next[number]:
                if effect is not None and target not in found:
                    found[target] = found[number] + effect
                    waiting.append(target)
        return found

    def at(self, offset: int) -> int:
        """The number of the step that a frame is at."""
        return at_offset(self.steps, offset)

    def reached(self, number: int) -> frozenset[int]:
        """What may run after an instruction."""
        if number not in self._reached:
            self._reached[number] = self._walk(number)
        return self._reached[number]

    def _walk(self, number: int) -> frozenset[int]:
        found: set[int] = set()
        waiting = [number]
        while waiting:
            for target, _ in self.next[waiting.pop()]:
                if target not in found:
                    found.add(target)
                    waiting.append(target)
        return frozenset(found)

    def loop(self, number: int) -> frozenset[int]:
        """The instructions that may run between an instruction and itself."""
        if number not in self._loops:
            self._loops[number] = self._around(number) & self.reached(number)
        return self._loops[number]

    def _around(self, number: int) -> frozenset[int]:
        before: dict[int, list[int]] = {}
        for source, targets in enumerate(self.next):
            for target, _ in targets:
                before.setdefault(target, []).append(source)
        found: set[int] = set()
        waiting = [number]
        while waiting:
            for source in before.get(waiting.pop(), ()):
                if source not in found:
                    found.add(source)
                    waiting.append(source)
        return frozenset(found)

    def below(self, number: int) -> int:
        """How many values stay on the stack while an instruction calls Python, or asks for a truth."""
        step = self.steps[number]
        if number not in self.depth:
            raise Unfollowed
        if step.takes_truth:
            return self.depth[number] - 1
        if step.name not in _CALLS or step.onward is None:
            raise Unfollowed
        return self.depth[number] + step.onward - 1

    def mentions(self, name: str) -> list[int]:
        """The steps that name a local variable."""
        return [n for n, step in enumerate(self.steps) if step.names_local(name)]

    def live(self, number: int) -> frozenset[str]:
        """The local variables whose present values may be read after an instruction."""
        code = self.code
        if self.hides:
            return frozenset((*code.co_varnames, *code.co_cellvars, *code.co_freevars))
        found = {*code.co_cellvars, *code.co_freevars}
        for name in code.co_varnames:
            if name not in found and self._read(name, number):
                found.add(name)
        return frozenset(found)

    def _read(self, name: str, number: int) -> bool:
        seen: set[int] = set()
        waiting = [number]
        while waiting:
            for target, _ in self.next[waiting.pop()]:
                if target in seen:
                    continue
                seen.add(target)
                step = self.steps[target]
                if not step.names_local(name):
                    waiting.append(target)
                elif step.name != "STORE_FAST":
                    return True
        return False


@lru_cache(256)
def flow_of(code: CodeType) -> Flow | None:
    """The flow of a code object; None where it cannot be followed."""
    try:
        return Flow(code)
    except Unfollowed:
        return None


@lru_cache(1024)
def live_names(code: CodeType, number: int) -> frozenset[str] | None:
    """The live local variables at an instruction."""
    flow = flow_of(code)
    return None if flow is None else flow.live(number)


@lru_cache(1024)
def leaves_stack_alone(code: CodeType, number: int) -> bool:
    """Does nothing lie on the value stack at an instruction? For frames that are new in each round."""
    flow = flow_of(code)
    try:
        return flow is not None and flow.below(number) == 0
    except Unfollowed:
        return False


@lru_cache(1024)
def driver_of(code: CodeType, number: int) -> int | None:
    """What changes on the value stack while a loop comes back to an instruction: nothing (-1) or one iterator.

    Then the result is the number of the ``FOR_ITER`` that takes the next item. None where that cannot be told.
    """
    flow = flow_of(code)
    if flow is None:
        return None
    try:
        below = flow.below(number)
    except Unfollowed:
        return None
    inside = flow.loop(number)
    if below == 0:
        return -1
    if any(n not in flow.depth or flow.depth[n] < below for n in inside):
        return None
    if any(_collects(flow, n) < below for n in inside):
        return None
    takes = {n: flow.steps[n].name for n in inside if flow.depth[n] == below}
    if "SEND" in takes.values() or "END_FOR" in takes.values() or "POP_TOP" in takes.values():
        return None
    drivers = [n for n, name in takes.items() if name == "FOR_ITER"]
    return None if len(drivers) > 1 else drivers[0] if drivers else -1


def _collects(flow: Flow, number: int) -> float:
    """The place on the stack of a container that a step adds to; infinity for none."""
    step = flow.steps[number]
    if step.name not in _COLLECT:
        return math.inf
    return flow.depth[number] - _COLLECT[step.name] - step.argument


# --- counters ----------------------------------------------------------------------------------------------------


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
