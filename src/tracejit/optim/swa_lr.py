"""The learning rate of weight averaging: from what it is to a constant, along a cosine or a line."""

from __future__ import annotations

import math
from typing import Any

from .optimizer import Optimizer
from .scheduler_base import LRScheduler

__all__ = ["SWALR"]


def _share(strategy: str, t: float) -> float:
    """How much of the way lies behind at ``t`` of 1."""
    return t if strategy == "linear" else (1 - math.cos(math.pi * t)) / 2


class SWALR(LRScheduler):
    """Goes to ``swa_lr`` (one number, or one for each group) in ``anneal_epochs`` steps, and stays there.

    Raises ``ValueError`` for another ``anneal_strategy`` than "cos" and "linear", for a negative or fractional number
    of epochs, and for a list of learning rates that does not fit the groups.

    >>> import tracejit as tj
    >>> optimizer = tj.optim.SGD([tj.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = tj.optim.swa_utils.SWALR(optimizer, 0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> optimizer.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float] | tuple[float, ...],
        anneal_epochs: Any = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        count = len(optimizer.param_groups)
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * count
        if len(rates) != count:
            raise ValueError(
                f"swa_lr must have the same length as optimizer.param_groups: "
                f"swa_lr has {len(rates)}, optimizer.param_groups has {count}"
            )
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        for rate, group in zip(rates, optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """``swa_lr * share + start * (1 - share)``, the start computed back from the rate before."""
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = (
            _share(self._anneal_strategy, max(0.0, min(1.0, s / max(1, self.anneal_epochs))))
            for s in (step - 1, step)
        )
        rates = []
        for group in self.optimizer.param_groups:
            end = group["swa_lr"]
            start = end if before == 1 else (group["lr"] - before * end) / (1 - before)
            rates.append(end * now + start * (1 - now))
        return rates
