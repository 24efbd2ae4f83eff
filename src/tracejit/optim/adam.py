"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..tensor import Tensor
from .group import ParamGroup, check_at_least_zero, check_ways
from .maths import Mix, lerp, maximum, sqrt
from .optimizer import Optimizer
from .update import update

__all__ = ["Adam", "AdamW"]


def adam(
    p: Any,
    g: Any,
    state: tuple[Any, ...],
    h: tuple[Any, ...],
    *,
    decay: str,
    early: bool,
    maximize: bool,
) -> tuple[Any, tuple[Any, ...]]:
    """One step on moments ``state`` = (m, v) or, with AMSGrad, (m, v, largest v).

    ``decay`` is "none", "coupled" (through the gradient) or "decoupled"; ``early`` belongs to the mix of m.
    """
    step_size, root_correction, weight, rest, beta2, part2, eps, weight_decay, shrink = h
    if maximize:
        g = -g
    if decay == "decoupled":
        p = p * shrink
    elif decay == "coupled":
        g = g + p * weight_decay
    m = lerp(state[0], g, Mix(weight, rest, early))
    v = state[1] * beta2 + (g * part2) * g
    new: tuple[Any, ...] = (m, v)
    if len(state) == 3:
        v = maximum(state[2], v)
        new = (*new, v)
    return p - (m * step_size) / (sqrt(v) / root_correction + eps), new


def _check_tensors(group: Mapping[str, Any]) -> None:
    """Refuse rates that are tensors where steps over lists were asked for, and those of several elements."""
    rates = {"lr": group["lr"], **{f"betas[{i}]": beta for i, beta in enumerate(group["betas"])}}
    for name, rate in rates.items():
        if not isinstance(rate, Tensor):
            continue
        if group["foreach"] and not group["capturable"]:
            raise ValueError(
                f"{name} as a Tensor is not supported for capturable=False and foreach=True"
            )
        if rate.numel() != 1:
            raise ValueError(f"Tensor {name} must be 1-element")


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015): p -= lr * m̂ / (sqrt(v̂) + eps), moments with decay rates ``betas``.

    m̂ = m / (1 - beta1^t), v̂ = v / (1 - beta2^t). ``weight_decay`` adds to the gradient; ``amsgrad`` keeps the largest
    v (Reddi et al., 2018); ``maximize`` goes uphill. Half precision parameters are updated in float32 and rounded once.
    ``fused=True`` runs the step of all parameters as one compiled program with the same numbers, from the second step
    on; None does so on the host once steps have taken long enough, False never. ``foreach`` and ``capturable`` are
    accepted and change nothing. ``decoupled_weight_decay`` makes it AdamW. Raises ``ValueError`` for hyperparameters
    out of range, and for ``betas`` that are not both floats or both tensors.

    >>> import tracejit as tj
    >>> w = tj.tensor([1.0], requires_grad=True)
    >>> opt = tj.optim.Adam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([0.9000])
    """

    _counts = True

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)
        check_ways(defaults)
        if not any(all(isinstance(beta, kind) for beta in betas) for kind in (float, Tensor)):
            raise ValueError("betas must be either both floats or both Tensors")

    def _check(self, group: Mapping[str, Any]) -> None:
        _check_tensors(group)
        check_at_least_zero(group, lr="learning rate", eps="epsilon value")
        for index, beta in enumerate(group["betas"]):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {index}: {beta}")
        check_at_least_zero(group, weight_decay="weight_decay value")

    def _update_group(self, group: ParamGroup, params: list[Tensor]) -> None:
        names = ("exp_avg", "exp_avg_sq") + (("max_exp_avg_sq",) if group["amsgrad"] else ())
        hyper = self._rows(group, params)
        states = [tuple(self._slot(p, name) for name in names) for p in params]
        grads: list[Any] = [p._grad for p in params]
        decay = "none"
        if group["weight_decay"]:
            decay = "decoupled" if group["decoupled_weight_decay"] else "coupled"
        early = Mix.of(group["betas"][0]).early
        flags = {"decay": decay, "early": early, "maximize": bool(group["maximize"])}
        update(adam, params, grads, states, hyper, **flags, fused=group["fused"])

    def _numbers(self, group: ParamGroup, step: float) -> tuple[float, ...]:
        beta1, beta2 = group["betas"]
        lr, decay = group.number("lr"), group.number("weight_decay")
        mix = Mix.of(beta1)
        return (
            lr / (1.0 - beta1**step),
            sqrt(1.0 - beta2**step),
            mix.weight,
            mix.rest,
            beta2,
            1.0 - beta2,
            group.number("eps"),
            decay,
            1.0 - lr * decay,
        )


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019): p *= 1 - lr * weight_decay before the step.

    >>> import tracejit as tj
    >>> w = tj.tensor([1.0], requires_grad=True)
    >>> opt = tj.optim.AdamW([w], lr=0.1, weight_decay=0.5)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([0.8500])
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
