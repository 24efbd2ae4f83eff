"""ASGD and Rprop: an average over all steps, and steps that look at signs only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..tensor import Tensor
from .carried import Carrying, Numbers
from .group import ParamGroup, check_at_least_zero
from .maths import both_parts, clamp, sign, where
from .optimizer import Optimizer
from .update import update

__all__ = ["ASGD", "Rprop"]

State = tuple[Any, ...]


def asgd(
    p: Any, g: Any, state: State, h: State, *, decay: bool, maximize: bool
) -> tuple[Any, State]:
    """One step; ``state`` is (average,)."""
    eta, shrink, rest, weight_decay = h
    g = -g if maximize else g
    if decay:
        g = g + p * weight_decay
    p = p * shrink - g * eta
    return p, (p - (p - state[0]) * rest,)


class ASGD(Carrying):
    """SGD that also keeps the average of its steps in ``state[p]["ax"]`` (Polyak and Juditsky, 1992).

    The rate of the next step, lr / (1 + lambd * lr * t)^alpha, and the share it will have in the average are kept
    in the state as ``eta`` and ``mu``; averaging begins after ``t0`` steps. Raises ``ValueError`` for a
    negative rate or decay.

    >>> import tracejit as tj
    >>> w = tj.tensor([1.0], requires_grad=True)
    >>> opt = tj.optim.ASGD([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([0.8000])
    """

    _carried = ("eta", "mu")

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _check(self, group: Mapping[str, Any]) -> None:
        check_at_least_zero(group, lr="learning rate", weight_decay="weight_decay value")

    def _update_group(self, group: ParamGroup, params: list[Tensor]) -> None:
        hyper = self._rows(group, params)
        states = [(self._slot(p, "ax"),) for p in params]
        grads: list[Any] = [p._grad for p in params]
        flags = {"decay": group["weight_decay"] != 0, "maximize": bool(group["maximize"])}
        update(asgd, params, grads, states, hyper, **flags)

    def _begin(self, group: ParamGroup) -> Numbers:
        return group.number("lr"), 1.0

    def _carry(self, group: ParamGroup, step: float, before: Numbers) -> Numbers:
        lr, lambd = group.number("lr"), group.number("lambd")
        eta = lr / (1.0 + lambd * lr * step) ** group.number("alpha")
        share = 1.0 / max(1.0, step - group.number("t0"))
        return eta, share

    def _from(self, group: ParamGroup, step: float, before: Numbers) -> Numbers:
        eta, share = before
        return eta, 1.0 - group.number("lambd") * eta, 1.0 - share, group.number("weight_decay")


def rprop(p: Any, g: Any, state: State, h: State, *, maximize: bool) -> tuple[Any, State]:
    """One step; ``state`` is (gradient before, size of the step)."""
    down, up, least, most = h
    g = -g if maximize else g
    agreement = g * state[0]
    size = where(agreement > 0, state[1] * up, where(agreement < 0, state[1] * down, state[1]))
    size = clamp(size, least, most)
    g = where(agreement < 0, g * 0.0, g)
    return p - sign(g) * size, (g, size)


class Rprop(Optimizer):
    """Rprop (Riedmiller and Braun, 1993): steps that grow while the gradient keeps its sign and shrink when it turns.

    ``etas`` are the factors for turning and for keeping on, ``step_sizes`` the least and the largest step. Raises
    ``ValueError`` for hyperparameters out of range.

    >>> import tracejit as tj
    >>> w = tj.tensor([1.0], requires_grad=True)
    >>> opt = tj.optim.Rprop([w], lr=0.1)
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
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _check(self, group: Mapping[str, Any]) -> None:
        check_at_least_zero(group, lr="learning rate")
        down, up = group["etas"]
        if not 0.0 < down < 1.0 < up:
            raise ValueError(f"Invalid eta values: {down}, {up}")

    def _update_group(self, group: ParamGroup, params: list[Tensor]) -> None:
        hyper = self._rows(group, params)
        start = group.number("lr")
        states = [
            (self._slot(p, "prev"), self._slot(p, "step_size", both_parts(start, p)))
            for p in params
        ]
        grads: list[Any] = [p._grad for p in params]
        update(rprop, params, grads, states, hyper, maximize=bool(group["maximize"]))

    def _numbers(self, group: ParamGroup, step: float) -> tuple[float, ...]:
        return (*map(float, group["etas"]), *map(float, group["step_sizes"]))
