"""Hyperparameters that a compiled function sets itself: ``group["lr"] = ...`` before a step.

The place is one of those that hold numbers which vary (:mod:`..trace.numbers.places`): what is set there is stored
when the call ends. Steps after it use the number that was set: one that does not change is part of their row of
numbers, others are operands of the rule's numbers, which are then computed like any number that varies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..modes import MODES
from ..trace.numbers.numbers import outcome_key
from ..trace.state.checks import Bind, Check
from ..varying import is_varying, plain

if TYPE_CHECKING:
    from .group import ParamGroup
    from .optimizer import Optimizer

#: What a function cannot do to a group.
SETTING = "setting a hyperparameter inside a compiled function"


def is_number(value: Any) -> bool:
    """Is this a number, and no truth value?"""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def set_inside(group: ParamGroup, name: str, value: Any, alike: Callable[[], bool]) -> None:
    """``group[name] = value`` is about to happen in a recorded run; ``alike``: it leaves the formula as it is."""
    recorder = MODES.recorder
    before = group.get(name)
    numbers = is_number(before) and is_number(value)
    if not numbers or id(group) in recorder.scheduled or not alike():
        recorder.unsupported(SETTING)
    elif (id(group), name) in recorder.standing:
        recorder.set_hyper.add((id(group), name))
    elif is_varying(value) or type(value) is not type(before) or value != before:
        recorder.unsupported(
            SETTING
        )  # from the next recording on it is known that this place varies
    else:
        recorder.checks.append(StillSet(Setting(group, name), name, value))


@dataclass(frozen=True, eq=False)
class Setting:
    """A hyperparameter of a group."""

    group: ParamGroup
    name: str


@dataclass(eq=False, slots=True)
class StillSet(Check):
    """A hyperparameter has the value that the function sets it to."""

    expected: Any

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        return f"{bind(self.difference)}() is not None"

    def difference(self) -> str | None:
        """What changed, or None."""
        now = self.holder.group.get(self.name)
        if type(now) is type(self.expected) and outcome_key(now) == outcome_key(self.expected):
            return None
        return f"item {self.name!r} of a parameter group was {self.expected!r} and is {now!r}"


class Overrides:
    """The numbers of a group that a recorded run holds in another way than the group does when a call begins."""

    def __init__(self, group: ParamGroup) -> None:
        recorder = MODES.recorder
        self.group = group
        self.constants: dict[str, Any] = {}
        self.varying: dict[str, Any] = {}
        for name, value in group.items():  # of a schedule's, if one has stepped after it was set
            if is_varying(value):
                self.varying[name] = value
            elif (id(group), name) in recorder.set_hyper:
                self.constants[name] = value
        self.seen: Any = type(group)({}, group.plain)

    def __bool__(self) -> bool:
        return bool(self.constants or self.varying)

    @property
    def key(self) -> Any:
        """What two groups overridden alike have in common."""
        return tuple((name, outcome_key(x)) for name, x in self.constants.items())

    def now(self, numbers: Sequence[Any]) -> ParamGroup:
        """The group with these ``numbers`` for those that vary."""
        if not self:
            return self.group
        dict.update(self.seen, self.group)
        dict.update(self.seen, self.constants)
        dict.update(self.seen, zip(self.varying, numbers, strict=True))
        found: ParamGroup = self.seen
        return found


class VaryingRow:
    """The numbers of a rule that hang on numbers which vary: the first call for a step computes all of them."""

    def __init__(self, values: Callable[[Sequence[Any]], tuple[float, ...]]) -> None:
        self.values = values
        self.found: tuple[float, ...] = ()

    def first(self, *numbers: Any) -> float:
        """The first number."""
        self.found = tuple(map(float, self.values(numbers)))
        return self.found[0]

    def rest(self, first: float, index: int) -> float:
        """Another one of those computed together."""
        return self.found[index]


def cells_of(
    optimizer: Optimizer, overrides: Overrides, key: Any, values: Any, dtype: Any
) -> list[Any]:
    """The inputs of the graph for the numbers of a rule."""
    recorder = MODES.recorder
    row = VaryingRow(values)
    label = f"{type(optimizer).__name__}_number"
    operands = [*overrides.varying.values()]
    numbers = [recorder.number_called(row.first, operands, key, label)]
    count = len(values([*map(plain, operands)]))
    numbers += [
        recorder.number_called(row.rest, [numbers[0], i], (key, i), label) for i in range(1, count)
    ]
    return [recorder.signature.cell(number, dtype) for number in numbers]
