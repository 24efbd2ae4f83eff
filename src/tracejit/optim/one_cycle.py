"""The one-cycle policy: up to a large learning rate and down to a tiny one, momentum the other way."""

from __future__ import annotations

import math
from typing import Any

from .optimizer import Optimizer
from .scheduler_base import LRScheduler

__all__ = ["OneCycleLR"]


class OneCycleLR(LRScheduler):
    """From max_lr / div_factor to ``max_lr`` and down to initial / final_div_factor (Smith and Topin, 2017).

    The length is ``total_steps`` or ``epochs * steps_per_epoch``; step once for every batch. Raises ``ValueError`` for
    a length, ``pct_start`` or ``anneal_strategy`` that cannot be, for stepping beyond the end, and for
    ``cycle_momentum`` on an optimizer without momentum.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.total_steps = _length(total_steps, epochs, steps_per_epoch)
        if not (0 <= pct_start <= 1):
            raise ValueError(f"Expected number between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        self.cycle_momentum = cycle_momentum
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        if last_epoch == -1:
            for group, peak in zip(
                optimizer.param_groups, _each("max_lr", optimizer, max_lr), strict=True
            ):
                group["initial_lr"] = peak / div_factor
                group["max_lr"] = peak
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            self._set_momentum_range(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _set_momentum_range(
        self, optimizer: Optimizer, low: Any, high: Any, last_epoch: int
    ) -> None:
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
            )
        self.use_beta1 = "betas" in optimizer.defaults
        if last_epoch != -1:
            return
        lows, highs = _each("base_momentum", optimizer, low), _each("max_momentum", optimizer, high)
        for group, base, peak in zip(optimizer.param_groups, lows, highs, strict=True):
            _set_momentum(group, peak)
            group["max_momentum"] = peak
            group["base_momentum"] = base

    def get_lr(self) -> list[Any]:
        """The learning rates of this step; sets the momenta on the way."""
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is {self.total_steps}"
            )
        start = 0.0
        for index, phase in enumerate(self._schedule_phases):
            end = phase["end_step"]
            if step <= end or index == len(self._schedule_phases) - 1:
                break
            start = end
        share = (step - start) / (end - start)
        lr_from, lr_to = phase["start_lr"], phase["end_lr"]
        m_from, m_to = phase["start_momentum"], phase["end_momentum"]
        values = []
        for group in self.optimizer.param_groups:
            values.append(self._between(group[lr_from], group[lr_to], share))
            if self.cycle_momentum:
                _set_momentum(group, self._between(group[m_from], group[m_to], share))
        return values

    def _between(self, start: float, end: float, share: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)


def _length(total: int | None, epochs: int | None, per_epoch: int | None) -> int:
    if total is not None:
        if int(total) != total or total <= 0:
            raise ValueError(f"Expected positive integer total_steps, but got {total}")
        return total
    if epochs is None or per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name, value in (("epochs", epochs), ("steps_per_epoch", per_epoch)):
        if int(value) != value or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return epochs * per_epoch


def _phases(total: int, share: float, three: bool) -> list[dict[str, Any]]:
    """Last step of each phase, and the group's values it goes between."""
    up = ("initial_lr", "max_lr", "max_momentum", "base_momentum")
    found: list[tuple[Any, ...]] = [(float(share * total) - 1, *up)]
    if three:
        found += [
            (float(2 * share * total) - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
            (total - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
        ]
    else:
        found.append((total - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"))
    names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
    return [dict(zip(names, phase, strict=True)) for phase in found]


def _each(name: str, optimizer: Optimizer, value: Any) -> list[float]:
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise ValueError(f"expected {count} values for {name}, got {len(value)}")
    return list(value)


def _set_momentum(group: Any, value: float) -> None:
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value
