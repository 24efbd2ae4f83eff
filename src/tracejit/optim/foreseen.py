"""Numbers that schedules set in a compiled function, known before they are set.

A schedule steps when everything else has run. What the function reads after the step (``group["lr"]``,
``get_last_lr()``, ``last_epoch``) hangs on nothing but the schedule: it is tried out on the state there is, looked at,
and taken back. In the recorded run such numbers stand in the places themselves, as varying ones.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

from ..trace.numbers.numbers import TypeChangedError
from ..trace.state import reads
from ..trace.state.optimizers import attributes_set
from ..trace.state.purity import words
from ..varying import is_varying, plain
from .set_inside import is_number

if TYPE_CHECKING:
    from .recorded import StepSchedule

#: Functions that give the same for the same numbers.
_CALM = frozenset({abs, bool, float, int, len, max, min, pow, range, round, sum})
#: How the names of instructions begin that do no more than to compute, and to read names.
_QUIET = tuple(
    words(
        """
        BINARY_ BUILD_TUPLE CACHE CALL COMPARE_OP CONTAINS_OP COPY EXTENDED_ARG IS_OP JUMP_ KW_NAMES LOAD_ NOP
        NOT_TAKEN POP_JUMP_ POP_TOP PRECALL PUSH_NULL RESUME RETURN_ STORE_FAST SWAP TO_BOOL UNARY_
        """
    )
)


class Foreseen:
    """What some steps of schedules, one after the other, will leave in the groups and in the schedules."""

    def __init__(self, steps: Sequence[StepSchedule]) -> None:
        self.steps = steps
        self.found: dict[int, dict[str, Any]] = {}

    def run(self, *told: float) -> float:
        """Try the steps; they know by now what they are ``told``."""
        restores = [step.saved() for step in self.steps]
        try:
            for step in self.steps:
                step()
            spaces = (space for step in self.steps for space, _ in step.namespaces())
            self.found = {id(space): dict(space) for space in spaces}
        finally:
            for restore in restores:
                restore()
        return 0.0

    def value(
        self, space: dict[str, Any], key: str, index: int | None, kind: type, _: float
    ) -> Any:
        """A number that they leave, or one of a list of them."""
        found = self.found[id(space)][key]
        found = found if index is None else found[index]
        if type(found) is not kind:
            raise TypeChangedError(f"{key} is {type(found).__name__}")
        return found


class Outlook:
    """What a recorded run shows of the numbers that the schedules of an optimizer have set."""

    def __init__(self, recorder: Any, steps: Sequence[StepSchedule]) -> None:
        self.recorder = recorder
        self.steps = steps
        told = [step.number for step in steps if step.number is not None]
        key = ("foreseen", *(id(step.schedule) for step in steps))
        label = "a number that schedules set"
        self.run = recorder.number_foreseen(Foreseen(steps).run, told, key, label)
        self.foreseen: Foreseen = self.run.at.__self__

    def knows(self, space: dict[str, Any]) -> bool:
        """Is this a namespace that the steps may have set numbers in?"""
        return any(space is one for step in self.steps for one, _ in step.namespaces())

    def number(self, space: dict[str, Any], key: str, index: int | None = None) -> Any:
        """What stands for a number that lies in ``space``, or in a list there."""
        value = space[key] if index is None else space[key][index]
        kind: type = type(value)
        read = partial(self.foreseen.value, space, key, index, kind)
        place = ("foreseen", id(space), key, index)
        number = self.recorder.number_foreseen(
            read, [self.run], place, f"{key} of a schedule", kind
        )
        return self.recorder.varying(number, value)


def foresee(recorder: Any, step: StepSchedule) -> None:
    """A ``step`` was made: from here on its numbers vary, in the places where they lie, if it can be tried out.

    Otherwise no step of the optimizer may follow in the call, and the rates can be returned, but not computed with.
    """
    optimizer = step.schedule.optimizer
    before = recorder.outlooks.get(id(optimizer))
    foreseeable = id(optimizer) not in recorder.scheduled and may_be_tried(step)
    if not foreseeable or recorder.follow_numbers() is not None:
        recorder.outlooks.pop(id(optimizer), None)
        recorder.scheduled.add(id(optimizer))
        return
    outlook = Outlook(recorder, [*(before.steps if before is not None else ()), step])
    recorder.outlooks[id(optimizer)] = outlook
    for space, names in step.namespaces():
        numbers = {key for key, value in space.items() if is_number(value)}
        for key in numbers if names is None else names & numbers:
            dict.__setitem__(space, key, outlook.number(space, key))
            recorder.foreseen[id(space), key] = space


def as_they_are(spaces: Iterable[tuple[dict[str, Any], Any]]) -> None:
    """Plain numbers in place of varying ones."""
    for space, _ in spaces:
        for key, value in list(space.items()):
            if is_varying(value):
                dict.__setitem__(space, key, plain(value))


def may_be_tried(step: StepSchedule) -> bool:
    """Can a step be made and taken back, with nobody seeing it?

    All code must be the package's, or functions that only compute, and learning rates numbers.
    """
    if not all(is_number(plain(group["lr"])) for group in step.schedule.optimizer.param_groups):
        return False
    for part in step.parts(step.schedule):
        kind: type = type(part)
        if attributes_set(kind, False) is None:
            return False
        for value in vars(part).values():
            if not all(map(is_calm, value if isinstance(value, list) else [value])):
                return False
    return True


def is_calm(value: Any) -> bool:
    """Is this no function, or one that only computes with numbers?

    >>> is_calm(0.5), is_calm(lambda epoch: 0.9 ** min(epoch, 10)), is_calm(print)
    (True, True, False)
    """
    if isinstance(value, partial):
        return is_calm(value.func) and all(map(is_calm, (*value.args, *value.keywords.values())))
    if not callable(value) or _only_computes(value):
        return True
    return isinstance(value, FunctionType) and all(map(_is_quiet, _followed(value)))


def _only_computes(value: Any) -> bool:
    """Is this a function of the package, or one of Python's that gives the same for the same numbers?"""
    function = getattr(value, "__func__", value)
    if isinstance(function, FunctionType):
        return reads.is_library_function(function)
    return any(value is one for one in _CALM) or getattr(value, "__self__", None) is math


def _followed(function: FunctionType) -> Iterator[Any]:
    """What each instruction of a function leads to: an object by a name, a number; None where nobody can tell."""
    code, found = function.__code__, None
    shared = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    names = {**vars(builtins), **function.__globals__}
    for operation, name in reads.steps(code):
        if not operation.startswith(_QUIET):
            found = None
        elif operation.startswith(("LOAD_ATTR", "LOAD_METHOD")):
            found = getattr(math, name, None) if found is math else None
        elif operation == "LOAD_GLOBAL":
            found = names.get(name)
        elif operation == "LOAD_DEREF" and name in shared:
            found = _content(shared[name])
        else:
            found = 0
        yield found


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _is_quiet(found: Any) -> bool:
    """Can code that only computes do anything with this but to compute?"""
    return found is math or is_number(found) or _only_computes(found)
