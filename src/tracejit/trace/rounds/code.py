"""A user's bytecode as a graph: which instructions a loop comes around, and what lives on when it does.

A ``while`` loop that reads a tensor comes back to the same instruction with Python in the same state, if nothing that
Python goes on with differs. What a frame goes on with are its live local variables and what lies on its value stack.
The former can be looked at; the latter cannot, but the instructions of the loop tell whether they leave it alone.
"""

from __future__ import annotations

import dis
import math
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from inspect import CO_OPTIMIZED
from types import CodeType

from ...bytecode import TESTS, Unfollowed, at_offset, steps_of

#: Steps that call Python and leave one result.
_CALLS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})
#: Steps that change a container further down on the stack, by how many values they take for it.
_COLLECT = {"LIST_APPEND": 1, "SET_ADD": 1, "MAP_ADD": 2}
#: Steps between what is computed and the truth that is read of it.
_TO_TRUTH = frozenset(
    {"CALL", "COMPARE_OP", "LOAD_ATTR", "LOAD_CONST", "LOAD_FAST", "LOAD_GLOBAL", "LOAD_METHOD"}
    | {"PUSH_NULL", "UNARY_NOT"}
)
#: Steps that read a truth and leave it to the next one.
_PASSES_TRUTH = frozenset({"TO_BOOL", "UNARY_NOT"})
#: Functions that read local variables without naming them.
_READERS = frozenset({"locals", "vars", "eval", "exec", "dir", "_getframe", "currentframe"})


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
        self._reads: dict[tuple[str, int], bool] = {}
        self._mentions: dict[str, list[int]] = {}
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

    def ways_on(self, number: int) -> list[int] | None:
        """Where the truth leads that is read at an instruction, or made of what it leaves; None if it is kept."""
        while True:
            step = self.steps[number]
            after = [target for target, effect in self.next[number] if effect is not None]
            if step.takes_truth and step.name not in _PASSES_TRUTH:
                return after
            if len(after) != 1:
                return None
            (number,) = after
            if self.steps[number].name == "STORE_FAST":
                read = self._read_next(number)
                if read is None:
                    return None
                number = read
            elif self.steps[number].name not in _TO_TRUTH | TESTS:
                return None

    def _read_next(self, number: int) -> int | None:
        """Where what a step stores is read, if nothing is decided until then."""
        name = self.steps[number].value
        for _ in self.steps:
            after = [target for target, effect in self.next[number] if effect is not None]
            if len(after) != 1:
                return None
            (number,) = after
            if self.steps[number].names_local(name):
                return number if self.steps[number].name == "LOAD_FAST" else None
        return None

    def uses(self, name: str, number: int) -> Iterator[int]:
        """The steps that read, or delete, what a local variable holds after a step."""
        seen: set[int] = set()
        waiting = [number]
        while waiting:
            for target, _ in self.next[waiting.pop()]:
                if target in seen:
                    continue
                seen.add(target)
                step = self.steps[target]
                if step.names_local(name):
                    if step.name == "STORE_FAST":
                        continue
                    yield target
                waiting.append(target)

    def comes_to(self, start: int, end: int, but: int) -> bool:
        """May ``end`` run from ``start`` on, before ``but`` does?"""
        seen, waiting = {start}, [start]
        while waiting:
            number = waiting.pop()
            if number == end:
                return True
            if number != but:
                found = [target for target, _ in self.next[number] if target not in seen]
                seen.update(found)
                waiting += found
        return False

    def reads(self, name: str, start: int) -> bool:
        """May the present value of a local variable be read from ``start`` on? Every round asks that again."""
        if (name, start) not in self._reads:
            step = self.steps[start]
            named = step.names_local(name)
            self._reads[name, start] = (
                step.name != "STORE_FAST" if named else self._read(name, start)
            )
        return self._reads[name, start]

    def mentions(self, name: str) -> list[int]:
        """The steps that name a local variable."""
        if name not in self._mentions:
            steps = enumerate(self.steps)
            self._mentions[name] = [n for n, step in steps if step.names_local(name)]
        return self._mentions[name]

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
        return next(self.uses(name, number), None) is not None


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
