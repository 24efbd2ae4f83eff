"""Adadelta, Adamax, NAdam and RAdam: relatives of Adam."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ..tensor import Tensor
from .carried import Carrying, Numbers
from .group import ParamGroup, check_at_least_zero
from .maths import Mix, lerp, maximum, sqrt
from .optimizer import Optimizer
from .update import update

__all__ = ["Adadelta", "Adamax", "NAdam", "RAdam"]

State = tuple[Any, ...]


class _Momentum(Optimizer):
    """What these optimizers share: state tensors by name, weight decay, one rule."""

    _counts = True
    _names: ClassVar[tuple[str, ...]] = ("exp_avg", "exp_avg_sq")
    _rule: Any

    def _check(self, group: Mapping[str, Any]) -> None:
        check_at_least_zero(group, lr="learning rate", eps="epsilon value")
        for index, beta in enumerate(group["betas"]):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {index}: {beta}")
        check_at_least_zero(group, weight_decay="weight_decay value")

    def _update_group(self, group: ParamGroup, params: list[Tensor]) -> None:
        hyper = self._rows(group, params)
        states = [tuple(self._slot(p, name) for name in self._names) for p in params]
        grads: list[Any] = [p._grad for p in params]
        update(type(self)._rule, params, grads, states, hyper, **self._flags(group))

    def _flags(self, group: ParamGroup) -> dict[str, Any]:
        decay = "none"
        if group["weight_decay"]:
            decay = "decoupled" if group.get("decoupled_weight_decay") else "coupled"
        return {"decay": decay, "maximize": bool(group["maximize"])}


def _decayed(p: Any, g: Any, weight: Any, shrink: Any, decay: str, up: bool) -> tuple[Any, Any]:
    """Parameter and gradient after weight decay; the gradient turned round to go uphill."""
    g = -g if up else g
    if decay == "decoupled":
        return p * shrink, g
    return p, g + p * weight if decay == "coupled" else g


class Adadelta(_Momentum):
    """Adadelta (Zeiler, 2012): p -= lr * sqrt(E[Δ²] + eps) / sqrt(E[g²] + eps) * g, means with decay ``rho``.

    Raises ``ValueError`` for hyperparameters out of range.

    >>> import tracejit as tj
    >>> w = tj.tensor([1.0], requires_grad=True)
    >>> opt = tj.optim.Adadelta([w])
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([0.9968])
    """

    _names = ("square_avg", "acc_delta")

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _check(self, group: Mapping[str, Any]) -> None:
        check_at_least_zero(group, lr="learning rate")
        if not 0.0 <= group["rho"] <= 1.0:
            raise ValueError(f"Invalid rho value: {group['rho']}")
        check_at_least_zero(group, eps="epsilon value", weight_decay="weight_decay value")

    @staticmethod
    def _rule(
        p: Any, g: Any, state: State, h: State, *, decay: str, maximize: bool
    ) -> tuple[Any, State]:
        lr, rho, rest, eps, weight = h
        p, g = _decayed(p, g, weight, None, decay, maximize)
        square = state[0] * rho + (g * rest) * g
        delta = sqrt(state[1] + eps) / sqrt(square + eps) * g
        return p - delta * lr, (square, state[1] * rho + (delta * rest) * delta)

    def _numbers(self, group: ParamGroup, step: float) -> tuple[float, ...]:
        rho = group.number("rho")
        return group.number("lr"), rho, 1.0 - rho, group.number("eps"), group.number("weight_decay")


class Adamax(_Momentum):
    """Adamax (Kingma and Ba, 2015): p -= lr / (1 - beta1^t) * m / u, u = max(beta2 * u, |g| + eps).

    Raises ``ValueError`` for hyperparameters out of range.

    >>> import tracejit as tj
    >>> w = tj.tensor([1.0], requires_grad=True)
    >>> opt = tj.optim.Adamax([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([0.9000])
    """

    _names = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _rule(
        p: Any, g: Any, state: State, h: State, *, decay: str, maximize: bool
    ) -> tuple[Any, State]:
        step_size, weight, rest, beta2, eps, decay_weight = h
        p, g = _decayed(p, g, decay_weight, None, decay, maximize)
        m = lerp(state[0], g, Mix(weight, rest, True))
        u = maximum(state[1] * beta2, abs(g) + eps)
        return p - (m * step_size) / u, (m, u)

    def _numbers(self, group: ParamGroup, step: float) -> tuple[float, ...]:
        beta1, beta2 = group["betas"]
        mix = Mix.of(beta1)
        lr = group.number("lr") / (1.0 - beta1**step)
        return lr, mix.weight, mix.rest, beta2, group.number("eps"), group.number("weight_decay")


class NAdam(_Momentum, Carrying):
    """NAdam (Dozat, 2016): Adam with Nesterov momentum, mu_t = beta1 * (1 - 0.96^(t * momentum_decay) / 2).

    ``decoupled_weight_decay`` shrinks the parameter as AdamW does. Raises ``ValueError`` for hyperparameters out of
    range.

    >>> import tracejit as tj
    >>> w = tj.tensor([1.0], requires_grad=True)
    >>> opt = tj.optim.NAdam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([0.8944])
    """

    _carried = ("mu_product",)

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _check(self, group: Mapping[str, Any]) -> None:
        super()._check(group)
        check_at_least_zero(group, momentum_decay="momentum_decay value")

    @staticmethod
    def _rule(
        p: Any, g: Any, state: State, h: State, *, decay: str, maximize: bool
    ) -> tuple[Any, State]:
        of_grad, of_mean, correction, weight, rest, beta2, part2, eps, decay_weight, shrink = h
        p, g = _decayed(p, g, decay_weight, shrink, decay, maximize)
        m = lerp(state[0], g, Mix(weight, rest, True))
        v = state[1] * beta2 + (g * part2) * g
        below = sqrt(v / correction) + eps
        return p - (g * of_grad) / below - (m * of_mean) / below, (m, v)

    def _begin(self, group: ParamGroup) -> Numbers:
        return (1.0,)

    def _carry(self, group: ParamGroup, step: float, before: Numbers) -> Numbers:
        return (before[0] * _mu(group["betas"][0], group.number("momentum_decay"), step),)

    def _from(self, group: ParamGroup, step: float, before: Numbers) -> Numbers:
        beta1, beta2 = group["betas"]
        lr, decay = group.number("lr"), group.number("weight_decay")
        slow = group.number("momentum_decay")
        now, ahead = _mu(beta1, slow, step), _mu(beta1, slow, step + 1)
        (product,) = self._carried_after(group, step, before)
        mix = Mix.of(beta1)
        of_grad = lr * (1.0 - now) / (1.0 - product)
        of_mean = lr * ahead / (1.0 - product * ahead)
        moments = (1.0 - beta2**step, mix.weight, mix.rest, beta2, 1.0 - beta2)
        return (of_grad, of_mean, *moments, group.number("eps"), decay, 1.0 - lr * decay)


def _mu(beta1: float, decay: float, step: float) -> float:
    return float(beta1 * (1.0 - 0.5 * 0.96 ** (step * decay)))


class RAdam(_Momentum):
    """RAdam (Liu et al., 2020): Adam whose adaptive rate is rectified, and left out while its variance is unbounded.

    ``decoupled_weight_decay`` shrinks the parameter as AdamW does. Raises ``ValueError`` for hyperparameters out of
    range.

    >>> import tracejit as tj
    >>> w = tj.tensor([1.0], requires_grad=True)
    >>> opt = tj.optim.RAdam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([0.8000])
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _rule(
        p: Any, g: Any, state: State, h: State, *, decay: str, maximize: bool
    ) -> tuple[Any, State]:
        scale, root, below, weight, rest, beta2, part2, decay_weight, shrink = h
        p, g = _decayed(p, g, decay_weight, shrink, decay, maximize)
        m = lerp(state[0], g, Mix(weight, rest, True))
        v = state[1] * beta2 + (g * part2) * g
        return p - (m * scale) / (sqrt(v) * root + below), (m, v)

    def _numbers(self, group: ParamGroup, step: float) -> tuple[float, ...]:
        beta1, beta2 = group["betas"]
        lr, decay = group.number("lr"), group.number("weight_decay")
        mix = Mix.of(beta1)
        left1, left2 = 1.0 - beta1**step, 1.0 - beta2**step
        most = 2.0 / (1.0 - beta2) - 1.0
        now = most - 2.0 * step * beta2**step / left2 if step else 0.0
        scale, root, below = lr / left1 if step else 0.0, 0.0, 1.0
        if now > 5.0:
            rectified = (now - 4) * (now - 2) * most / ((most - 4) * (most - 2) * now)
            scale, root, below = scale * sqrt(rectified) * sqrt(left2), 1.0, group.number("eps")
        moments = (mix.weight, mix.rest, beta2, 1.0 - beta2)
        return (scale, root, below, *moments, decay, 1.0 - lr * decay)
