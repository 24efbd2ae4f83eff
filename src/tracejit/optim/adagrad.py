"""Adagrad: steps that shrink where gradients have been large."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..tensor import Tensor
from .group import ParamGroup, check_at_least_zero, check_ways
from .maths import both_parts, sqrt
from .optimizer import Optimizer
from .update import update

__all__ = ["Adagrad"]


def adagrad(
    p: Any,
    g: Any,
    state: tuple[Any, ...],
    h: tuple[Any, ...],
    *,
    decay: bool,
    maximize: bool,
) -> tuple[Any, tuple[Any, ...]]:
    """One step; ``state`` is (sum of squares,)."""
    lr, eps, weight_decay = h
    if maximize:
        g = -g
    if decay:
        g = g + p * weight_decay
    total = state[0] + g * g
    return p - (g * lr) / (sqrt(total) + eps), (total,)


class Adagrad(Optimizer):
    """Adagrad (Duchi et al., 2011): p -= lr_t * g / (sqrt(Σg²) + eps), lr_t = lr / (1 + (t - 1) * lr_decay).

    The sum starts at ``initial_accumulator_value``. Raises ``ValueError`` for negative hyperparameters.

    >>> import tracejit as tj
    >>> w = tj.tensor([1.0], requires_grad=True)
    >>> opt = tj.optim.Adagrad([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([0.9000])
    """

    _counts = True

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        check_ways(defaults)
        for group in self.param_groups:
            for p in group["params"]:
                self._counter(p)
                self._slot(p, "sum", both_parts(group.number("initial_accumulator_value"), p))

    def _check(self, group: Mapping[str, Any]) -> None:
        check_at_least_zero(
            group,
            lr="learning rate",
            lr_decay="lr_decay value",
            weight_decay="weight_decay value",
            initial_accumulator_value="initial_accumulator_value value",
            eps="epsilon value",
        )

    def _update_group(self, group: ParamGroup, params: list[Tensor]) -> None:
        hyper = self._rows(group, params)
        start = group.number("initial_accumulator_value")
        states = [(self._slot(p, "sum", both_parts(start, p)),) for p in params]
        grads: list[Any] = [p._grad for p in params]
        flags = {"decay": group["weight_decay"] != 0, "maximize": bool(group["maximize"])}
        update(adagrad, params, grads, states, hyper, **flags, fused=group["fused"])

    def _numbers(self, group: ParamGroup, step: float) -> tuple[float, ...]:
        lr = group.number("lr") / (1.0 + (step - 1.0) * group.number("lr_decay"))
        return lr, group.number("eps"), group.number("weight_decay")
