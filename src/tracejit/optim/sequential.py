"""Schedules made of schedules: one after another, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from .optimizer import Optimizer
from .plateau import ReduceLROnPlateau
from .recorded import schedule_made
from .scheduler_base import LRScheduler, copied, put_lr

__all__ = ["ChainedScheduler", "SequentialLR"]


class SequentialLR(LRScheduler):
    """The first schedule until ``milestones[0]``, the second until ``milestones[1]``, and so on.

    Raises ``ValueError`` when there is not one milestone less than schedules, or a schedule is of another optimizer.

    >>> import tracejit as tj
    >>> from tracejit.optim import lr_scheduler as lrs
    >>> opt = tj.optim.SGD([tj.zeros(1, requires_grad=True)], lr=1.0)
    >>> warm, decay = lrs.ConstantLR(opt, 0.1, total_iters=2), lrs.ExponentialLR(opt, 0.9)
    >>> lrs.SequentialLR(opt, [warm, decay], milestones=[2]).get_last_lr()
    [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[Any],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        schedule_made(self, optimizer)
        if not schedulers:
            raise ValueError("SequentialLR expects at least one scheduler, but got no scheduler.")
        for index, scheduler in enumerate(schedulers):
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    "SequentialLR does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to "
                    f"be specified when calling `step`, but got one at index {index} in the given schedulers sequence."
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"SequentialLR expects all schedulers to belong to the same optimizer, but got scheduler at index "
                    f"{index} to be different from the optimizer passed in."
                )
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        self._schedulers = list(schedulers)
        self._milestones = list(milestones)
        self.optimizer = optimizer
        self.last_epoch = last_epoch + 1
        self._restart()

    def _restart(self) -> None:
        """Undo the first steps all schedules made when they were built; begin with the first."""
        for group in self.optimizer.param_groups:
            put_lr(group, copied(group["initial_lr"]))
        _undo(self._schedulers)
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._step_count = 0
        first.step()
        self._last_lr = first.get_last_lr()

    def _advance(self, epoch: int | None = None) -> None:
        """Step the schedule whose turn it is."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler._go(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, with the schedules' own states."""
        return _packed(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a saved schedule."""
        _unpack(self, state_dict)


class ChainedScheduler(LRScheduler):
    """Every schedule at every step, each on the learning rates the one before left."""

    def __init__(self, schedulers: Sequence[Any], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise ValueError(
                "ChainedScheduler expects at least one scheduler to be chained, but got none."
            )
        self.optimizer = optimizer or schedulers[0].optimizer
        schedule_made(self, self.optimizer)
        if any(s.optimizer is not self.optimizer for s in schedulers):
            raise ValueError(
                "ChainedScheduler expects all schedulers to belong to the same optimizer"
            )
        self._schedulers = list(schedulers)
        self._last_lr = self._lrs

    def _advance(self, epoch: int | None = None) -> None:
        """Step every schedule."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._lrs

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, with the schedules' own states."""
        return _packed(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a saved schedule."""
        _unpack(self, state_dict)


def _undo(schedulers: Sequence[Any]) -> None:
    """Step every schedule, also those inside others, back by one epoch."""
    for scheduler in schedulers:
        if hasattr(scheduler, "_schedulers"):
            _undo(scheduler._schedulers)
        else:
            scheduler.last_epoch -= 1


def _packed(schedule: Any) -> dict[str, Any]:
    own = {k: v for k, v in schedule.__dict__.items() if k not in ("optimizer", "_schedulers")}
    return {**own, "_schedulers": [s.state_dict() for s in schedule._schedulers]}


def _unpack(schedule: Any, values: dict[str, Any]) -> None:
    schedule.__dict__.update({k: v for k, v in values.items() if k != "_schedulers"})
    for scheduler, state in zip(schedule._schedulers, values["_schedulers"], strict=True):
        scheduler.load_state_dict(state)
