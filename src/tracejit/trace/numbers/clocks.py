"""Clocks: ``time.perf_counter()`` in a step that measures itself is read anew by every call.

While a function is recorded, the names by which its code reaches clocks lead to functions that read as ever and hand
out a number that varies. A call reads a clock where it computes its numbers, in the order of the recorded run: before
the program of a segment where the run had computed nothing yet, after it where it had, so that what is measured is the
time that the program takes.
"""

from __future__ import annotations

import math
import time
import timeit
from collections.abc import Callable, Collection, Sequence
from functools import partial
from types import BuiltinFunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from ...modes import MODES
from ..state.purity import words
from .numbers import Number

if TYPE_CHECKING:
    from ..recording.inputs import Signature

__all__ = ["TRIALS", "Clock", "ClocksInside", "clock_like", "is_clock", "tell", "told_afterwards"]

_NAMES = words("monotonic perf_counter process_time thread_time time")
_CLOCKS: dict[Any, str] = {
    getattr(time, name): name
    for stem in _NAMES
    for name in (stem, f"{stem}_ns")
    if hasattr(time, name)
}
#: Operations on numbers that raise nothing.
_SAFE = frozenset({"abs", "add", "mul", "neg", "pos", "sub"})
#: How often a clock is read again that has not moved since it was read last.
TRIALS = 10_000


class Clock:
    """A clock that is read; ``after`` others did something that takes time."""

    __slots__ = ("after", "read")

    def __init__(self, read: Callable[[], Any], after: bool) -> None:
        self.read = read
        self.after = after

    def __call__(self) -> Any:
        """The time."""
        return self.read()


class _Time:
    """Stands for the module ``time``, with what programs have put there in place of its functions."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(time, name)
        return clock_like(found) or found


class _Timeit:
    """Stands for the module ``timeit`` in the same way."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(timeit, name)
        return clock_like(found) or found


_MODULES = {time: _Time(), timeit: _Timeit()}


def clock_like(value: Any) -> Any:
    """What stands for a clock, or a module with clocks, while a function is recorded; None for anything else.

    >>> clock_like(time.perf_counter)() > 0, clock_like(time.sleep)
    (True, None)
    """
    if type(value) is BuiltinFunctionType:
        return partial(read_clock, value) if value in _CLOCKS else None
    return _MODULES.get(value) if type(value) is ModuleType else None


def read_clock(clock: Callable[[], Any]) -> Any:
    """What a clock says, as a number that varies where a run is recorded.

    >>> read_clock(time.time) > 0
    True
    """
    recorder = MODES.recorder
    if recorder is None or recorder.failure is not None:
        return clock()
    return recorder.clock_read(clock, _CLOCKS[clock])


def told_afterwards(numbers: Sequence[Number], before: Collection[Number]) -> list[Number]:
    """Those of a segment's numbers for which its program need not wait: clocks read later, and what hangs on them.

    Not those that are needed ``before``, and none whose computation might end in an error, but for a division by what
    such a clock tells.

    >>> early, late = (Number("call", float, (), "", Clock(time.time, after)) for after in (False, True))
    >>> took = Number("sub", float, (late, early))
    >>> told_afterwards([early, late, took], ()) == [late, took]
    True
    >>> told_afterwards([early, late, took], [took])
    []
    """
    times: set[Number] = set()  # what only clocks tell, one of which is read later
    after: list[Number] = []
    for number in numbers:
        parts = [x for x in number.operands if isinstance(x, Number)]
        if is_clock(number):
            found = number.at.after
        else:
            found = not set(after).isdisjoint(parts)
            only = number.name in _SAFE and all(x in times or is_clock(x) for x in parts)
            times.update([number] if found and only else ())
        after += [number] if found else []
        times.update([number] if found and is_clock(number) else ())
    wanted = set(before)
    while True:
        _add_operands(wanted, numbers)
        left = [number for number in after if number not in wanted]
        unsafe = [x for x in left if not _is_safe(x, times.intersection(left))]
        if not unsafe:
            return left
        wanted.update(unsafe)


def _add_operands(wanted: set[Number], numbers: Sequence[Number]) -> None:
    """What numbers that are ``wanted`` are computed from is wanted, too."""
    for number in reversed(numbers):
        if number in wanted:
            wanted.update(x for x in number.operands if isinstance(x, Number))


def _is_safe(number: Number, times: Collection[Number]) -> bool:
    """Can a number be computed without an error, be it when clocks have moved by which it is divided?"""
    if number.name == "truediv":
        divisor = number.operands[1]
        return divisor in times or not isinstance(divisor, Number)
    return number.name in _SAFE or is_clock(number)


def is_clock(number: Number) -> bool:
    """Is this what a clock says?

    >>> is_clock(Number("argument", float))
    False
    """
    return number.name == "call" and type(number.at) is Clock


def tell(numbers: Sequence[Number], known: dict[Number, Any]) -> None:
    """Read clocks and compute what hangs on them; again where one has not moved, and something is divided by that.

    >>> known = {}
    >>> tell([Number("call", float, (), "", Clock(time.time, True))], known)
    >>> len(known)
    1
    """
    for trial in range(TRIALS) if numbers else ():
        try:
            for number in numbers:
                known[number] = number.evaluate(known)
            return
        except ZeroDivisionError:
            if trial == TRIALS - 1:
                raise


class ClocksInside:
    """The part of a recorder that knows of clocks."""

    stop_trial: Callable[[str], None]
    not_in_rounds: Callable[[], None]
    all_written: Callable[[], None]
    unsupported: Callable[[str], None]
    varying: Callable[[Number, Any], Any]
    signature: Signature
    path: dict[Any, None]
    _step: Callable[[Number], None]
    reads_clocks = True  # may calls read other times than eager ones beside them?

    def __init__(self) -> None:
        self.clocks: dict[Number, float] = {}  # those that were read, of so many times each

    def clock_read(self, clock: Callable[[], Any], name: str) -> Any:
        """What a clock says, now and in every call."""
        self.stop_trial("reads a clock")
        value = clock()
        if not self.reads_clocks:
            self.unsupported(f"it calls time.{name}()")
            return value
        self.not_in_rounds()
        self.all_written()
        after = any(not isinstance(x, Number) for x in self.path)
        key = ("clock", name, len(self.clocks), after)
        read = Clock(clock, after)
        number = self.signature.numbers.call(read, (), key, f"{name}()", type(value))
        self.clocks[number] = math.inf
        self._step(number)
        return self.varying(number, value)
