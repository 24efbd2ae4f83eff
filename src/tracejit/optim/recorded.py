"""Optimizer steps inside a recorded function: the update as tensor operations, its numbers as inputs of the program.

What changes from step to step besides tensors (the learning rate of a schedule, bias corrections) is computed in Python
before every replay exactly as an eager step computes it, and handed to the program in cells. Step counts move after the
program ran. Which parameters are updated by which formula is state that the recording depends on.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import is_not
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dtypes
from ..modes import MODES
from ..nn.structure import STRUCTURE_VERSION
from ..tensor import Tensor
from ..trace.state.checks import Bind, Check
from ..trace.state.optimizers import attributes_set
from ..varying import is_varying, plain
from .counters import CountSteps, EqualCounts
from .set_inside import SETTING, Overrides, cells_of
from .step_hooks import GLOBAL, after_step, before_step

if TYPE_CHECKING:
    from .group import ParamGroup
    from .optimizer import Optimizer


#: The hyperparameters that schedules of the package set, and those of which some go through cycles.
RATES = frozenset({"lr"})
CYCLED = RATES | {"momentum", "betas"}


class Row:
    """The numbers of one group's update rule at one step count: ``cells`` are 0-d tensors that ``refresh`` fills."""

    def __init__(
        self,
        optimizer: Optimizer,
        group: ParamGroup,
        follows: tuple[Tensor, ...],
        ahead: int,
        dtype: dtypes.DType,
    ) -> None:
        self.optimizer = optimizer
        self.overrides = Overrides(group)
        self.follows = follows
        self.ahead = ahead
        key = (id(optimizer), id(group), *map(id, follows), ahead, dtype.short)
        self.key = (*key, self.overrides.key)
        values = self.values(1, [*map(plain, self.overrides.varying.values())])
        self.buffer = np.zeros(len(values), dtype.np)
        self.fill(values)
        self.pack = struct.Struct(f"={len(values)}{dtype.np.char}").pack_into
        self.cells = tuple(
            Tensor._wrap(self.buffer[i : i + 1].reshape(())) for i in range(len(values))
        )

    def values(self, ahead: int, numbers: Sequence[Any] = ()) -> tuple[float, ...]:
        """The numbers for the step that comes ``ahead`` of what is found, with ``numbers`` for those that vary."""
        found = tuple([float(x.array) for x in self.follows])
        return self.optimizer._numbers_of(self.overrides.now(numbers), found, ahead)

    def fill(self, values: tuple[float, ...]) -> None:
        """Round the numbers once, into the cells."""
        with np.errstate(all="ignore"):
            self.buffer[:] = values

    def refresh(self) -> None:
        """Set the cells for the step that is about to be made."""
        values = self.values(self.ahead)
        try:
            self.pack(self.buffer.data, 0, *values)  # as ``fill``, quicker
        except OverflowError:
            self.fill(values)


def recorded_rows(
    optimizer: Optimizer, group: ParamGroup, params: Sequence[Tensor]
) -> list[tuple[Any, ...]]:
    """The cells with each parameter's numbers; parameters that made equal numbers of steps share them."""
    recorder = MODES.recorder
    if id(optimizer) in recorder.scheduled:
        recorder.unsupported("an optimizer step after its learning rate was scheduled in one call")
    for value in group.values():
        if isinstance(value, Tensor) and recorder.is_changed(value):
            recorder.unsupported("a hyperparameter that is computed inside a compiled function")
    if len(set(params)) != len(params):
        recorder.unsupported("a step of an optimizer that has a parameter twice")
    follows = [optimizer._follows(group, p) for p in params]
    rows: dict[Any, tuple[Any, ...]] = {}
    found = []
    for parameter, owner in zip(params, _owners(follows), strict=True):
        half = parameter.dtype.itemsize == 2
        dtype = dtypes.float32 if half else parameter.dtype.to_real()
        key = (*map(id, owner), dtype)
        if key not in rows:
            row = Row(optimizer, group, owner, _made(owner) + 1, dtype)
            if row.overrides and hasattr(optimizer, "_carried"):
                recorder.unsupported(SETTING)  # what it carries is moved on when the call ends
            if row.overrides.varying and recorder.failure is None:
                values = partial(row.values, row.ahead)
                cells = cells_of(optimizer, row.overrides, row.key, values, dtype)
                for cell, value in zip(row.cells, cells, strict=True):
                    recorder.adopt(cell, value)
            else:
                recorder.numbers(row)
            rows[key] = row.cells
        found.append(rows[key])
    if optimizer._counts:
        _again(optimizer, group, follows)
    return found


def _made(follows: tuple[Tensor, ...]) -> int:
    """How many steps the recorded run has made of those that a parameter's numbers follow."""
    made: int = MODES.recorder.counted.get(id(follows[0]), (None, 0))[1] if follows else 0
    return made


def _again(optimizer: Optimizer, group: ParamGroup, follows: Sequence[tuple[Tensor, ...]]) -> None:
    """Count one step now, and in every replay."""
    recorder = MODES.recorder
    counters = tuple(tensors[0] for tensors in follows)
    for tensors in follows:
        recorder.counted[id(tensors[0])] = (tensors[0], _made(tensors) + 1)
    for change in (CountSteps(counters), optimizer._after_steps(group, follows)):
        if change is not None:
            change()
            recorder.again(change)


def _owners(follows: Sequence[tuple[Tensor, ...]]) -> list[tuple[Tensor, ...]]:
    """For every parameter's the first that show the same numbers; that they stay equal is checked."""
    groups: dict[tuple[float, ...], list[tuple[Tensor, ...]]] = {}
    shown = [tuple(float(x.array) for x in tensors) for tensors in follows]
    for values, tensors in zip(shown, follows, strict=True):
        groups.setdefault(values, []).append(tensors)
    for same in groups.values():
        if len(same) > 1:
            MODES.recorder.checks.extend(map(EqualCounts.of, zip(*same, strict=True)))
    return [groups[values][0] for values in shown]


class StepSchedule:
    """Steps a schedule of learning rates, which is ``told`` an epoch or a metric."""

    def __init__(self, schedule: Any, told: float | None) -> None:
        self.schedule = schedule
        self.told = plain(told)
        self.number: Any = None
        if is_varying(told):
            key, label = ("told", id(self)), "a number told"
            self.number = MODES.recorder.number_called(self.tell, [told], key, label)

    def tell(self, number: float) -> float:
        """Remember the number that a call hands to the step, until it is made."""
        self.told = number
        return float(number)

    def __call__(self) -> None:
        """Step."""
        self.schedule._advance(self.told)

    def saved(self) -> Callable[[], None]:
        """A function that takes the schedule and what it sets back to what they are now."""
        before = [(vars(s), dict(vars(s))) for s in self.parts(self.schedule)]
        groups = [(g, dict(g)) for g in self.schedule.optimizer.param_groups]

        def restore() -> None:
            for namespace, values in before:
                namespace.update(values)
            for group, values in groups:
                group.update(values)

        return restore

    def namespaces(self) -> Iterator[tuple[dict[str, Any], frozenset[str] | None]]:
        """Groups of the optimizer, and the attributes of the schedule."""
        yield from ((group, self.settings()) for group in self.schedule.optimizer.param_groups)
        for schedule in self.parts(self.schedule):
            own = vars(schedule)
            kind: type = type(schedule)
            methods = any(callable(getattr(kind, name, None)) for name in own)
            yield own, None if methods else attributes_set(kind, False)

    def settings(self) -> frozenset[str] | None:
        """The hyperparameters that a step may set; None is any."""
        parts = list(self.parts(self.schedule))
        kinds: list[type] = [type(part) for part in parts]
        if any(attributes_set(kind, False) is None for kind in kinds):
            return None
        return CYCLED if any(getattr(part, "cycle_momentum", False) for part in parts) else RATES

    def parts(self, schedule: Any) -> Iterator[Any]:
        """A schedule and those it is made of."""
        yield schedule
        for inner in getattr(schedule, "_schedulers", ()):
            yield from self.parts(inner)


@dataclass(eq=False, slots=True)
class OptimizerState(Check):
    """An optimizer still has its parameters, formula, state tensors and hooks; numbers and values may change."""

    seen: list[int]
    version: int
    state: Any
    groups: list[Any]
    params: list[Any]
    hooks: list[Any]

    @classmethod
    def of(cls, optimizer: Optimizer) -> OptimizerState:
        """The check for an optimizer as it is."""
        groups = list(optimizer.param_groups)
        return cls(
            optimizer,
            type(optimizer).__name__,
            [STRUCTURE_VERSION[0]],
            optimizer._version,
            optimizer.state,
            groups,
            [group["params"] for group in groups],
            _hooks(optimizer),
        )

    @property
    def objects(self) -> Iterator[Any]:
        """Every tensor a step reads besides gradients."""
        for group in self.groups:
            for parameter in group["params"]:
                yield parameter
                yield from self.state.get(parameter, {}).values()

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        optimizer, changed = bind(self.holder), f"{bind(self.difference)}() is not None"
        own = (f"{optimizer}._optimizer_step_{kind}_hooks" for kind in ("pre", "post"))
        hooks = " or ".join((*own, *map(bind, GLOBAL)))
        tests = [
            f"{bind(STRUCTURE_VERSION)}[0] != {bind(self.seen)}[0] and {changed}",
            f"{optimizer}.state is not {bind(self.state)}",
            f"({hooks} or {bool(self.hooks)}) and {changed}",
        ]
        each = f"{bind(map)}({bind(id)}, "
        groups = [*map(id, self.groups)]
        tests.append(f"[*{each}{optimizer}.param_groups)] != {bind(groups)}")
        pairs = zip(self.groups, self.params, strict=True)
        tests += [f"{bind(group)}['params'] is not {bind(params)}" for group, params in pairs]
        return f"({' or '.join(tests)})"

    def difference(self) -> str | None:
        """What changed, or None."""
        optimizer = self.holder
        count = STRUCTURE_VERSION[0]
        if optimizer._version != self.version:
            return f"the groups, flags or state tensors of {self.name} changed"
        groups = optimizer.param_groups
        if optimizer.state is not self.state or len(groups) != len(self.groups):
            return f"the groups or the state of {self.name} were replaced"
        if any(a is not b for a, b in zip(groups, self.groups, strict=True)):
            return f"a group of {self.name} was replaced"
        for group, params in zip(groups, self.params, strict=True):
            if group["params"] is not params:
                return f"the parameters of {self.name} changed"
        hooks = _hooks(optimizer)
        if len(hooks) != len(self.hooks) or any(map(is_not, hooks, self.hooks)):
            return f"the hooks of {self.name} changed"
        self.seen[0] = count
        return None


def _hooks(optimizer: Optimizer) -> list[Any]:
    pre, post = tuple(before_step(optimizer)), tuple(after_step(optimizer))
    return [*pre, None, *post] if pre or post else []


def made_inside(owner: object) -> bool:
    """Did the run that is being recorded make this optimizer, group, state or schedule?

    Then it is gone when the run ends, and all of it is Python like any other: its numbers are those of the path.
    """
    return MODES.recorder is not None and id(owner) in MODES.recorder.own


def belongs(part: object, owner: object) -> None:
    """``part`` was made by the recorded run if ``owner`` was."""
    if made_inside(owner):
        MODES.recorder.own[id(part)] = part


def refuse_inside(what: str, owner: object = None) -> None:
    """Say that a recorded function does what a replay cannot, to an ``owner`` from outside."""
    if MODES.recorder is not None and not made_inside(owner):
        MODES.recorder.unsupported(f"{what} inside a compiled function")


def schedule_made(schedule: object, optimizer: object) -> None:
    """A recorded run makes a schedule: of an optimizer that it made as well, then both are its own; of no other one."""
    refuse_inside("a schedule made", optimizer)
    belongs(schedule, optimizer)


def rates_inside(schedule: Any, rates: list[Any]) -> list[Any]:
    """The learning rates that a recorded run is told by a schedule from outside, which may have stepped in it."""
    recorder = MODES.recorder
    scheduled = id(schedule.optimizer) in recorder.scheduled
    outlook = recorder.outlooks.get(id(schedule.optimizer))
    if not all(type(rate) is float for rate in rates):
        recorder.unsupported("get_last_lr() of a schedule inside a compiled function")
        return rates
    found = []
    for i, rate in enumerate(rates):
        key, label = (id(schedule), i), "a learning rate"
        if outlook is not None and outlook.knows(vars(schedule)):
            found.append(outlook.number(vars(schedule), "_last_lr", i))
        elif scheduled:
            recorder.rates_told.add(id(schedule))
            found.append(recorder.late(LastRate(schedule, i), key, rate, label))
        else:
            number = recorder.number_called(LastRate(schedule, i), (), ("rate", *key), label)
            found.append(recorder.varying(number, rate))
    return found


@dataclass(frozen=True, eq=False, slots=True)
class LastRate:
    """Reads a learning rate that a schedule set last."""

    schedule: Any
    index: int

    def __call__(self) -> float:
        """The rate."""
        rate: float = self.schedule._last_lr[self.index]
        return rate


def refuse_copies(optimizer: Optimizer) -> None:
    """Say that the recorded run copied an optimizer: a replay would go on with the copy made while recording."""
    recorder = MODES.recorder
    if recorder is None or made_inside(optimizer):
        return
    if any(recorder.inside(p) for group in optimizer.param_groups for p in group["params"]):
        recorder.unsupported("a copy of an optimizer is used inside a compiled function")
