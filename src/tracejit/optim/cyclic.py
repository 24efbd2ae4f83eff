"""Schedules that begin again: cosine annealing with warm restarts, and triangles between two rates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .one_cycle import _each, _set_momentum
from .optimizer import Optimizer
from .scheduler_base import LRScheduler, put_lr
from .schedules import attributes_of

__all__ = ["CosineAnnealingWarmRestarts", "CyclicLR"]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine to ``eta_min`` in ``T_0`` epochs, again in ``T_mult`` times as many (Loshchilov, Hutter, 2017).

    ``step(epoch)`` takes fractions of epochs. Raises ``ValueError`` for lengths that are not positive integers.

    >>> import tracejit as tj
    >>> opt = tj.optim.SGD([tj.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = tj.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=2)
    >>> for _ in range(3): opt.step(); schedule.step()
    >>> round(opt.param_groups[0]["lr"], 4)
    0.5
    """

    _takes_epochs = True

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,  # noqa: N803
        T_mult: int = 1,  # noqa: N803
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The cosine at ``T_cur`` of ``T_i``."""
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def _advance(self, epoch: float | None = None) -> None:
        self._go(epoch)

    def _go(self, epoch: float | None = None) -> None:
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
            epoch = self.last_epoch + 1
        else:
            self._place(epoch)
        self.last_epoch = math.floor(epoch)
        self._set(self._asked(self.get_lr))

    def _place(self, epoch: float) -> None:
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        if epoch < self.T_0:
            self.T_cur, self.T_i = epoch, self.T_0
        elif self.T_mult == 1:
            self.T_cur, self.T_i = epoch % self.T_0, self.T_0
        else:
            round_ = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            before = self.T_0 * (self.T_mult**round_ - 1) / (self.T_mult - 1)
            self.T_cur, self.T_i = epoch - before, self.T_0 * self.T_mult**round_


class CyclicLR(LRScheduler):
    """Up from ``base_lr`` to ``max_lr`` and down again, a cycle after the other (Smith, 2017).

    ``mode`` scales the height of cycles: "triangular", "triangular2" (halved each time), "exp_range" (``gamma`` to the
    power of the step), or ``scale_fn`` of the cycle or of the iterations (``scale_mode``). Raises ``ValueError`` for
    another mode, and for ``cycle_momentum`` on an optimizer without momentum.

    >>> import tracejit as tj
    >>> opt = tj.optim.SGD([tj.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> schedule = tj.optim.lr_scheduler.CyclicLR(opt, 0.1, 1.1, step_size_up=2)
    >>> opt.step(); schedule.step(); round(opt.param_groups[0]["lr"], 4)
    0.6
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        for group, low in zip(
            optimizer.param_groups, _each("base_lr", optimizer, base_lr), strict=True
        ):
            if last_epoch == -1:
                put_lr(group, low)
        self.max_lrs = _each("max_lr", optimizer, max_lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up) + float(down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma = mode, gamma
        self._scale_fn_custom, self.scale_mode = scale_fn, scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._set_momenta(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = _each("base_lr", optimizer, base_lr)

    def _set_momenta(self, optimizer: Optimizer, low: Any, high: Any, last_epoch: int) -> None:
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
            )
        self.use_beta1 = "betas" in optimizer.defaults
        self.base_momentums = _each("base_momentum", optimizer, low)
        self.max_momentums = _each("max_momentum", optimizer, high)
        if last_epoch == -1:
            for group, base, most in zip(
                optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True
            ):
                _set_momentum(group, most)
                group["max_momentum"] = most
                group["base_momentum"] = base

    def scale_fn(self, x: float) -> float:
        """How high the cycle (or the step) number ``x`` goes."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / (2.0 ** (x - 1)) if self.mode == "triangular2" else float(self.gamma**x)

    def get_lr(self) -> list[Any]:
        """The triangle at ``last_epoch``; sets the momenta on the way."""
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        share = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True
            ):
                _set_momentum(group, high - (high - low) * share * height)
        return [
            low + (high - low) * share * height
            for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of a callable object its attributes, of a function nothing."""
        function = self._scale_fn_custom
        kept = None if function is None else attributes_of(function)
        return {**super().state_dict(), "_scale_fn_custom": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a saved schedule."""
        own = {k: v for k, v in state_dict.items() if k != "_scale_fn_custom"}
        super().load_state_dict(own)
        if state_dict["_scale_fn_custom"] is not None:
            vars(self._scale_fn_custom).update(state_dict["_scale_fn_custom"])
