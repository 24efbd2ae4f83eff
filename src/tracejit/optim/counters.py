"""Step counts: made side by side, so that those of many parameters are counted and compared at once.

Every parameter has a step count of its own, a 0-d tensor in its state. Compiled steps add one to all of them and rely
on their being equal; one by one that would cost more than the step of a small model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cuda.arrays import address_of
from ..modes import MODES
from ..tensor import Tensor
from ..tensor_core import REBOUND
from ..trace.state.checks import Bind, Check
from .conventions import _get_scalar_dtype

_BLOCK = 1024


class Counters:
    """Makes step counts in blocks of memory, for an optimizer that was asked to be ``fused`` or not."""

    def __init__(self, fused: bool | None) -> None:
        self.kind = _get_scalar_dtype(fused).np.type
        self.block = np.zeros(0, self.kind)
        self.used = 0

    def make(self, count: float = 0.0) -> Tensor:
        """A new step count."""
        if self.used == len(self.block):
            self.block, self.used = np.zeros(_BLOCK, self.kind), 0
        place = self.block[self.used : self.used + 1]
        self.used += 1
        place[0] = count
        return Tensor._wrap(place.reshape(()))


def runs_of(counters: Sequence[Tensor]) -> list[np.ndarray]:
    """The memory of step counts, neighbours together: writing to it writes to them."""
    found: list[np.ndarray] = []
    end, owner = 0, None
    for counter in counters:
        array = counter.array
        address = address_of(array)
        base = array.base
        if not isinstance(base, np.ndarray) or base.ndim != 1 or base.dtype != array.dtype:
            owner = None
            found.append(array.reshape(1))
            continue
        position = (address - address_of(base)) // array.itemsize
        if base is owner and address == end:
            found[-1] = base[position - len(found[-1]) : position + 1]
        else:
            found.append(base[position : position + 1])
        end, owner = address + array.itemsize, base
    return found


class Runs:
    """The memory of some step counts, looked up again when a tensor may have been given other memory."""

    def __init__(self, counters: tuple[Tensor, ...]) -> None:
        self.counters = counters
        for counter in counters:
            counter._watch()
        self.seen = -1
        self.found: list[np.ndarray] = []

    def now(self) -> list[np.ndarray]:
        """What :func:`runs_of` gives."""
        seen = REBOUND[0]
        if self.seen != seen:
            self.found = runs_of(self.counters)
            self.seen = seen
        return self.found


def saved_numbers(tensors: Iterable[Tensor]) -> Callable[[], None]:
    """A function that takes state tensors of one number each back to what they are now."""
    before = [(x, x.array.item(), x._writes.value) for x in tensors]

    def restore() -> None:
        for tensor, value, version in before:
            tensor.array.fill(value)
            tensor._writes.value = version

    return restore


class CountSteps:
    """Adds one to step counters."""

    def __init__(self, counters: tuple[Tensor, ...]) -> None:
        self.counters = counters
        self.runs = Runs(counters)

    def __call__(self) -> None:
        """Count."""
        MODES.before_write()
        for run in self.runs.now():
            run += 1
        for counter in self.counters:
            counter._writes.value += 1

    def saved(self) -> Callable[[], None]:
        """A function that takes the counts back to what they are now."""
        return saved_numbers(self.counters)

    def namespaces(self) -> tuple[()]:
        """None: counters are tensors."""
        return ()


@dataclass(eq=False, slots=True)
class EqualCounts(Check):
    """Parameters that shared numbers of the update rule have still made equal numbers of steps."""

    runs: Runs

    @classmethod
    def of(cls, counters: tuple[Tensor, ...]) -> EqualCounts:
        """The check for these step counts."""
        return cls(counters, "the step counts of parameters", Runs(counters))

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        return f"{bind(self.differ)}()"

    def differ(self) -> bool:
        """Are there two different counts?"""
        runs = self.runs.now()
        first: Any = runs[0].item(0)
        for run in runs:
            raw = run.tobytes()
            if run.item(0) != first or raw != raw[: run.itemsize] * len(run):
                return True
        return False

    def difference(self) -> str | None:
        """What changed, or None."""
        return f"{self.name} were equal and are not" if self.differ() else None
