"""Schedules given by a formula of the epoch."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

from .optimizer import Optimizer
from .scheduler_base import LRScheduler

__all__ = [
    "ConstantLR",
    "CosineAnnealingLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "PolynomialLR",
    "StepLR",
]

Factor = Callable[[int], float]


class LambdaLR(LRScheduler):
    """The initial learning rate times ``lr_lambda(epoch)``; one function, or one for each group.

    >>> import tracejit as tj
    >>> opt = tj.optim.SGD([tj.zeros(1, requires_grad=True)], lr=1.0)
    >>> tj.optim.lr_scheduler.LambdaLR(opt, lambda epoch: 0.5 ** (epoch + 1)).get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Factor | Sequence[Factor], last_epoch: int = -1
    ) -> None:
        self.lr_lambdas = _one_each(lr_lambda, optimizer)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """initial * factor."""
        return [
            base * factor(self.last_epoch)
            for factor, base in zip(self.lr_lambdas, self.base_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of callable objects their attributes, of functions nothing."""
        hidden = ("optimizer", "lr_lambdas")
        own = {k: v for k, v in self.__dict__.items() if k not in hidden}
        return {**own, "lr_lambdas": [attributes_of(f) for f in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a saved schedule."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, values in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if values is not None:
                vars(function).update(values)


def attributes_of(function: Any) -> dict[str, Any] | None:
    """What a schedule saves of a function that it calls: None unless it is an object of a class of the user's."""
    return None if isinstance(function, FunctionType) else dict(vars(function))


class MultiplicativeLR(LambdaLR):
    """The learning rate before times ``lr_lambda(epoch)``."""

    def get_lr(self) -> list[Any]:
        """previous * factor."""
        if self._is_initial:
            return self._lrs
        factors = (factor(self.last_epoch) for factor in self.lr_lambdas)
        return [lr * factor for lr, factor in zip(self._lrs, factors, strict=True)]


def _one_each(functions: Any, optimizer: Optimizer) -> list[Factor]:
    count = len(optimizer.param_groups)
    if not isinstance(functions, (list, tuple)):
        return [functions] * count
    if len(functions) != count:
        raise ValueError(f"Expected {count} lr_lambdas, but got {len(functions)}")
    return list(functions)


class StepLR(LRScheduler):
    """Times ``gamma`` every ``step_size`` epochs."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Smaller at every ``step_size``-th epoch."""
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._lrs
        return [lr * self.gamma for lr in self._lrs]

    def _get_closed_form_lr(self) -> list[Any]:
        return [b * self.gamma ** (self.last_epoch // self.step_size) for b in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Times ``gamma`` at each of the ``milestones``."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Smaller at a milestone."""
        times = self.milestones[self.last_epoch]
        return [lr * self.gamma**times for lr in self._lrs] if times else self._lrs

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Times ``gamma`` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """previous * gamma."""
        return self._lrs if self.last_epoch == 0 else [lr * self.gamma for lr in self._lrs]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Times ``factor`` for the first ``total_iters`` epochs; ``ValueError`` unless 0 <= factor <= 1."""

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Reduced at the start, restored at the end."""
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._lrs]
        if self.last_epoch != self.total_iters:
            return self._lrs
        return [lr * (1.0 / self.factor) for lr in self._lrs]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self.factor if self.last_epoch < self.total_iters else 1.0
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """A factor that goes linearly from ``start_factor`` to ``end_factor`` in ``total_iters`` epochs.

    Raises ``ValueError`` unless 0 < start_factor <= 1 and 0 <= end_factor <= 1.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal to 1."
            )
        if not 0 <= end_factor <= 1:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The previous learning rate times the ratio of two factors."""
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self._lrs]
        if self.last_epoch > self.total_iters:
            return self._lrs
        slope = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * slope
        return [lr * (1.0 + slope / before) for lr in self._lrs]

    def _get_closed_form_lr(self) -> list[Any]:
        share = min(self.total_iters, self.last_epoch) / self.total_iters
        factor = self.start_factor + (self.end_factor - self.start_factor) * share
        return [base * factor for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Down to zero in ``total_iters`` epochs as (1 - t/T)^power."""

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The previous learning rate times the ratio of two factors."""
        if self.last_epoch == 0 or self.last_epoch > self.total_iters:
            return self._lrs
        here = 1.0 - self.last_epoch / self.total_iters
        before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return [lr * (here / before) ** self.power for lr in self._lrs]

    def _get_closed_form_lr(self) -> list[Any]:
        share = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (1.0 - share) ** self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial learning rate to ``eta_min`` in ``T_max`` epochs (Loshchilov, Hutter, 2017)."""

    def __init__(
        self,
        optimizer: Optimizer,
        T_max: int,  # noqa: N803
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The recursive form: later changes to the learning rate are kept."""
        if self.last_epoch == 0:
            return self._lrs
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                lr + (base - self.eta_min) * rise
                for base, lr in zip(self.base_lrs, self._lrs, strict=True)
            ]
        here = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        before = 1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        return [here / before * (lr - self.eta_min) + self.eta_min for lr in self._lrs]

    def _get_closed_form_lr(self) -> list[Any]:
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]
