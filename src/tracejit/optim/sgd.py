"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..tensor import Tensor
from .group import ParamGroup, check_at_least_zero, check_ways
from .optimizer import Optimizer
from .update import update

__all__ = ["SGD"]


def sgd(
    p: Any,
    g: Any,
    state: tuple[Any, ...],
    h: tuple[Any, ...],
    *,
    decay: bool,
    nesterov: bool,
    first: bool,
    maximize: bool,
) -> tuple[Any, tuple[Any, ...]]:
    """One step: v = momentum * v + (1 - dampening) * g, p = p - lr * v; ``state`` is empty without momentum."""
    lr, momentum, undamped, weight_decay = h
    if maximize:
        g = -g
    if decay:
        g = g + p * weight_decay
    if not state:
        return p - g * lr, ()
    v = g if first else state[0] * momentum + g * undamped
    g = g + v * momentum if nesterov else v
    return p - g * lr, (v,)


class SGD(Optimizer):
    """Gradient descent: g += weight_decay * p; v = momentum * v + (1 - dampening) * g; p -= lr * v.

    The first step sets v = g; Nesterov uses g + momentum * v (Sutskever et al., 2013). ``maximize`` goes uphill.
    ``fused=True`` runs the step of all parameters as one compiled program with the same numbers, from the second step
    on; None does so on the host once steps have taken long enough, False never. ``foreach`` is accepted and changes
    nothing. Raises ``ValueError`` for negative hyperparameters, or Nesterov without momentum or
    with dampening.

    >>> import tracejit as tj
    >>> w = tj.tensor([1.0], requires_grad=True)
    >>> opt = tj.optim.SGD([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([0.8000])
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        check_ways(defaults)

    def _check(self, group: Mapping[str, Any]) -> None:
        check_at_least_zero(
            group, lr="learning rate", momentum="momentum value", weight_decay="weight_decay value"
        )
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")

    def _update_group(self, group: ParamGroup, params: list[Tensor]) -> None:
        flags = {
            "decay": group["weight_decay"] != 0,
            "nesterov": bool(group["nesterov"]),
            "maximize": bool(group["maximize"]),
        }
        rows = self._rows(group, params)
        new = {p for p in params if self._is_first(p)}
        for first in (True, False):
            chosen = [(p, h) for p, h in zip(params, rows, strict=True) if (p in new) is first]
            if chosen:
                self._update(group, chosen, {**flags, "first": first})

    def _numbers(self, group: ParamGroup, step: float) -> tuple[float, ...]:
        names = ("momentum", "dampening", "weight_decay")
        momentum, dampening, decay = (group.number(name) for name in names)
        return group.number("lr"), momentum, 1.0 - dampening, decay

    def _is_first(self, parameter: Tensor) -> bool:
        return self.state.get(parameter, {}).get("momentum_buffer") is None

    def _update(
        self,
        group: ParamGroup,
        chosen: list[tuple[Tensor, tuple[Any, ...]]],
        flags: dict[str, Any],
    ) -> None:
        """Update parameters that all do, or all do not, make their first step."""
        with_momentum = group["momentum"] != 0
        params = [p for p, _ in chosen]
        states = [(self._slot(p, "momentum_buffer"),) if with_momentum else () for p in params]
        if with_momentum and flags["first"]:
            self._changed()  # the next step has another formula
        grads: list[Any] = [p._grad for p in params]
        hyper = [h for _, h in chosen]
        update(sgd, params, grads, states, hyper, **flags, fused=group["fused"])
