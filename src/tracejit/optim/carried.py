"""Numbers that follow from those of the step before, kept as tensors beside the step count of a parameter.

A step reads them in double precision, as PyTorch does, and writes the next ones. Inside a compiled function they move
as step counts do: the program gets numbers computed before it runs, and the tensors are written after it ran.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from ..modes import MODES
from ..tensor import Tensor
from .counters import saved_numbers
from .group import ParamGroup
from .optimizer import Optimizer

__all__ = ["Carrying"]

Numbers = tuple[float, ...]


class Carrying(Optimizer):
    """An optimizer whose update needs the numbers ``_carried`` names, besides hyperparameters and the step count."""

    _counts = True
    _carried: ClassVar[tuple[str, ...]] = ()

    def _begin(self, group: ParamGroup) -> Numbers:
        """The carried numbers before the first step."""
        raise NotImplementedError(f"{type(self).__name__} does not define an update")

    def _carry(self, group: ParamGroup, step: float, before: Numbers) -> Numbers:
        """The carried numbers after step ``step``, in double precision."""
        raise NotImplementedError(f"{type(self).__name__} does not define an update")

    def _carried_after(self, group: ParamGroup, step: float, before: Numbers) -> Numbers:
        """The same as the state keeps them."""
        kind = self._counters_of(self._carried[0]).kind
        return tuple(float(kind(x)) for x in self._carry(group, step, before))

    def _from(self, group: ParamGroup, step: float, before: Numbers) -> Numbers:
        """The numbers of step ``step``, from the carried numbers before it."""
        raise NotImplementedError(f"{type(self).__name__} does not define an update")

    def _follows(self, group: ParamGroup, parameter: Tensor) -> tuple[Tensor, ...]:
        counter = self._counter(parameter)
        state = self.state[parameter]
        if any(name not in state for name in self._carried):
            for name, value in zip(self._carried, self._begin(group), strict=True):
                state.begin(name, self._counters_of(name).make(value))
        return (counter, *(state[name] for name in self._carried))

    def _numbers_of(self, group: ParamGroup, values: Numbers, ahead: int) -> Numbers:
        step, *rest = values
        carried = tuple(rest)
        for _ in range(ahead - 1):
            step += 1
            carried = self._carried_after(group, step, carried)
        return self._from(group, step + 1, carried)

    def _move(self, group: ParamGroup, parameter: Tensor) -> None:
        super()._move(group, parameter)
        self._carry_on(group, self._follows(group, parameter))

    def _carry_on(self, group: ParamGroup, tensors: Sequence[Tensor]) -> None:
        """Write the carried numbers of the step that was just counted."""
        MODES.before_write()
        step, *before = (float(x.array) for x in tensors)
        after = self._carried_after(group, step, tuple(before))
        for tensor, value in zip(tensors[1:], after, strict=True):
            tensor.array[...] = value
            tensor._writes.value += 1

    def _after_steps(
        self, group: ParamGroup, found: Sequence[tuple[Tensor, ...]]
    ) -> Callable[[], None]:
        return CarryOn(self, group, found)


class CarryOn:
    """Moves the carried numbers of some parameters on, after their steps were counted."""

    def __init__(
        self, optimizer: Carrying, group: ParamGroup, found: Sequence[tuple[Tensor, ...]]
    ) -> None:
        self.optimizer = optimizer
        self.group = group
        self.found = found

    def __call__(self) -> None:
        """Move on."""
        for tensors in self.found:
            self.optimizer._carry_on(self.group, tensors)

    def saved(self) -> Callable[[], None]:
        """A function that takes the numbers back to what they are now."""
        return saved_numbers(x for tensors in self.found for x in tensors[1:])

    def namespaces(self) -> tuple[()]:
        """None: the numbers are tensors."""
        return ()
