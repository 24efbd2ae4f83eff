"""LRScheduler: what all schedules share, counting steps and writing learning rates into the groups."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..modes import MODES
from ..tensor import Tensor
from ..varying import as_number
from .foreseen import as_they_are, foresee
from .optimizer import Optimizer
from .recorded import (
    StepSchedule,
    made_inside,
    rates_inside,
    refuse_copies,
    refuse_inside,
    schedule_made,
)

__all__ = ["LRScheduler"]


class LRScheduler:
    """Base class of schedules: ``get_lr`` gives the next learning rate of every group.

    Raises ``TypeError`` for anything but an optimizer and ``KeyError`` when resuming (``last_epoch`` of 0 or more) on
    groups without ``initial_lr``.
    """

    #: May ``step`` go to an epoch that is not the next one?
    _takes_epochs = False
    #: Is ``get_lr`` asked by a step, which puts what it says into effect?
    _get_lr_called_within_step = False
    _is_initial = False
    _last_lr: list[Any]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        schedule_made(self, optimizer)
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        for index, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{index}] when resuming "
                    "an optimizer: load the optimizer's state first, or start with last_epoch=-1"
                )
        self.optimizer = optimizer
        self.base_lrs = [copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self._is_initial = True
        self._initial_step()
        self._is_initial = False

    def _initial_step(self) -> None:
        """Set the learning rates of epoch 0; derived schedules may do so in another way."""
        self.step()

    def get_lr(self) -> list[Any]:
        """The learning rate of every group at ``last_epoch``, from those before."""
        raise NotImplementedError

    def get_last_lr(self) -> list[Any]:
        """The learning rates set last."""
        recorder = MODES.recorder
        if recorder is None or self._made_inside():
            return self._last_lr
        return rates_inside(self, self._last_lr)

    def _made_inside(self) -> bool:
        """Did the recorded run make this? One whose own ``__init__`` calls no other is known by its optimizer."""
        return made_inside(self) or made_inside(self.optimizer)

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch, or to ``epoch``, and set the learning rates.

        Inside a compiled function this is Python that every call runs, after its optimizer steps.
        """
        if epoch is not None and not self._takes_epochs:
            warn_of_epoch()
        self._step(epoch)

    def _step(self, told: float | None) -> None:
        """Advance by what a step is ``told``; every call of a compiled function does so again."""
        recorder = MODES.recorder
        if recorder is None or self._made_inside():
            self._advance(told)
            return
        refuse_copies(self.optimizer)
        groups = self.optimizer.param_groups
        recorder.scheduled.update(map(id, groups))
        if any((id(group), name) in recorder.set_hyper for group in groups for name in group):
            recorder.unsupported("a learning rate that is set and scheduled in one call")
        again = StepSchedule(self, told)
        if any(id(part) in recorder.rates_told for part in again.parts(self)):
            recorder.unsupported("a learning rate that is read between two steps of its schedule")
        known = (getattr(part, "base_lrs", groups) for part in again.parts(self))
        if any(
            len(rates) != len(groups) for rates in known
        ):  # its error ends the call at this step
            recorder.unsupported(
                "a schedule that knows other parameter groups than its optimizer has"
            )
        recorder.again(again)
        as_they_are(again.namespaces())
        MODES.recorder = None  # what it computes is not part of the recorded program
        try:
            again()
        finally:
            MODES.recorder = recorder
        foresee(recorder, again)

    def _advance(self, epoch: Any = None) -> None:
        """One step of the schedule."""
        known = type(self.optimizer).step is Optimizer.step  # others do not say when they step
        if self._step_count == 1 and known and not self.optimizer._stepped:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them in the opposite order: "
                "`optimizer.step()` before `lr_scheduler.step()`. Otherwise the first value of the "
                "schedule is skipped.",
                UserWarning,
                stacklevel=3,
            )
        self._step_count += 1
        self._go(epoch)

    def _go(self, epoch: int | None = None) -> None:
        """Set the learning rates of an epoch: the next one, if none is given."""
        closed = getattr(self, "_get_closed_form_lr", None)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set(self._asked(self.get_lr if epoch is None or closed is None else closed))

    def _asked(self, formula: Callable[[], list[Any]]) -> list[Any]:
        """What ``formula`` gives to a step: users' own warn whoever asks them at other times."""
        self._get_lr_called_within_step = True
        try:
            return formula()
        finally:
            self._get_lr_called_within_step = False

    def _set(self, values: list[Any]) -> None:
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            put_lr(group, value)
        self._last_lr = self._lrs

    @property
    def _lrs(self) -> list[Any]:
        return [copied(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        refuse_inside("state_dict() of a schedule", self)
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a saved schedule."""
        refuse_inside("load_state_dict() of a schedule", self)
        self.__dict__.update(state_dict)


def warn_of_epoch() -> None:
    """Say to the caller of ``step(epoch)`` that epochs count themselves."""
    warnings.warn(
        "The epoch parameter of `scheduler.step()` is deprecated: call `step()` once for every epoch.",
        UserWarning,
        stacklevel=3,
    )


def copied(value: Any) -> Any:
    """A number as it is, a tensor as another one: whoever changes that changes no learning rate."""
    return value.clone() if isinstance(value, Tensor) else value


def put_lr(group: Any, value: Any) -> None:
    """Set the learning rate of a group, in place if it is a tensor."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(as_number(value))
    else:
        group["lr"] = value
