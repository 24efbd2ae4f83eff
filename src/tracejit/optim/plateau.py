"""ReduceLROnPlateau: smaller steps when a metric stops improving."""

from __future__ import annotations

import math
from typing import Any

from ..tensor import Tensor
from ..varying import as_number
from .optimizer import Optimizer
from .recorded import refuse_inside, schedule_made
from .scheduler_base import LRScheduler, put_lr, warn_of_epoch

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(LRScheduler):
    """Times ``factor`` after more than ``patience`` epochs without improvement of the metric given to ``step``.

    Better means lower (``mode="min"``) or higher ("max") by ``threshold``, relative ("rel") or absolute ("abs"); after
    a reduction, ``cooldown`` epochs do not count. Raises ``ValueError`` for a factor of one or more and unknown modes.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        count = len(optimizer.param_groups)
        schedule_made(self, optimizer)
        self.optimizer = optimizer
        self.factor = factor
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = list(min_lr) if isinstance(min_lr, (list, tuple)) else [min_lr] * count
        if len(self.min_lrs) != count:
            raise ValueError(f"expected {count} min_lrs, got {len(self.min_lrs)}")
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = self._lrs
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _init_is_better(self, mode: str, threshold: float, threshold_mode: str) -> None:
        """Say what counts as an improvement."""
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """True while epochs after a reduction do not count."""
        refuse_inside("in_cooldown of a schedule", self)
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Whether ``a`` improves on ``best`` by the threshold."""
        sign = 1.0 if self.mode == "max" else -1.0
        change = sign * self.threshold
        best = best * (1.0 + change) if self.threshold_mode == "rel" else best + change
        return a > best if self.mode == "max" else a < best

    def _is_better(self, a: float, best: float) -> bool:
        return self.is_better(a, best)

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take the metric of one more epoch, and reduce the learning rates if it is time."""
        if epoch is not None:
            warn_of_epoch()
            refuse_inside("ReduceLROnPlateau.step() to an epoch", self)
        current = as_number(metrics._number() if isinstance(metrics, Tensor) else metrics)
        if epoch is not None:
            self._take(current, epoch)
            return
        if len(self.min_lrs) != len(self.optimizer.param_groups):
            refuse_inside("ReduceLROnPlateau.step() after a group was added", self)
        self._step(current)

    def _advance(self, epoch: Any = None) -> None:
        """Take the metric of the next epoch, which is what steps of this schedule are told."""
        self._take(as_number(epoch), self.last_epoch + 1)

    def _take(self, current: float, epoch: int) -> None:
        self.last_epoch = epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(self.last_epoch)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._lrs

    def _reduce_lr(self, epoch: int) -> None:
        """Lower the learning rates; derived schedules do more here."""
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"min_lrs has {len(self.min_lrs)} values for {len(groups)} parameter groups: "
                    "add one for each group that was added to the optimizer"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            old = as_number(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                put_lr(group, new)
