"""RMSprop: steps divided by a running root mean square of the gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..tensor import Tensor
from .group import ParamGroup, check_at_least_zero
from .maths import Mix, lerp, sqrt
from .optimizer import Optimizer
from .update import update

__all__ = ["RMSprop"]


def rmsprop(
    p: Any,
    g: Any,
    state: tuple[Any, ...],
    h: tuple[Any, ...],
    *,
    decay: bool,
    centered: bool,
    early: bool,
    with_momentum: bool,
    maximize: bool,
) -> tuple[Any, tuple[Any, ...]]:
    """One step; ``state`` is (mean square[, velocity][, mean])."""
    lr, alpha, weight, rest, eps, weight_decay, momentum = h
    if maximize:
        g = -g
    if decay:
        g = g + p * weight_decay
    square = state[0] * alpha + (g * weight) * g
    means: tuple[Any, ...] = ()
    spread = square
    if centered:
        mean = lerp(state[-1], g, Mix(weight, rest, early))
        means = (mean,)
        spread = square - mean * mean
    root = sqrt(spread) + eps
    if not with_momentum:
        return p - (g * lr) / root, (square, *means)
    velocity = state[1] * momentum + g / root
    return p - velocity * lr, (square, velocity, *means)


class RMSprop(Optimizer):
    """RMSprop (Hinton, 2012): p -= lr * g / (sqrt(E[g²]) + eps), the mean decaying with ``alpha``.

    ``centered`` uses the variance E[g²] - E[g]² (Graves, 2013); ``momentum`` adds a velocity. Raises ``ValueError`` for
    negative hyperparameters.

    >>> import tracejit as tj
    >>> w = tj.tensor([1.0], requires_grad=True)
    >>> opt = tj.optim.RMSprop([w], lr=0.05)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([0.5000])
    """

    _counts = True

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _check(self, group: Mapping[str, Any]) -> None:
        check_at_least_zero(
            group,
            lr="learning rate",
            eps="epsilon value",
            momentum="momentum value",
            weight_decay="weight_decay value",
            alpha="alpha value",
        )

    def _update_group(self, group: ParamGroup, params: list[Tensor]) -> None:
        centered, with_momentum = bool(group["centered"]), group["momentum"] > 0
        names = ["square_avg"]
        names += ["momentum_buffer"] if with_momentum else []
        names += ["grad_avg"] if centered else []
        hyper = self._rows(group, params)
        states = [tuple(self._slot(p, name) for name in names) for p in params]
        grads: list[Any] = [p._grad for p in params]
        update(
            rmsprop,
            params,
            grads,
            states,
            hyper,
            decay=group["weight_decay"] != 0,
            centered=centered,
            early=Mix.of(group["alpha"]).early,
            with_momentum=with_momentum,
            maximize=bool(group["maximize"]),
        )

    def _numbers(self, group: ParamGroup, step: float) -> tuple[float, ...]:
        alpha = group.number("alpha")
        mix = Mix.of(alpha)
        names = ("eps", "weight_decay", "momentum")
        eps, decay, momentum = (group.number(name) for name in names)
        return group.number("lr"), alpha, mix.weight, mix.rest, eps, decay, momentum
