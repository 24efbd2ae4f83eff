"""Adafactor: adaptive steps whose second moments are kept as one row and one column per matrix."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..number_limits import finfo
from ..ops.elementwise import cast
from ..tensor import Tensor
from .group import ParamGroup, check_at_least_zero
from .optimizer import Optimizer

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    """Adafactor (Shazeer and Stern, 2018): p -= α u / max(1, rms(u) / d), u = g / sqrt(v).

    v is the mean of g² that decays by ``1 - t**beta2_decay``; for two and more dimensions it is the product of the
    means of rows and columns. α is ``max(eps[1], rms(p)) * min(lr, 1 / sqrt(t))``; ``eps[0]``, the machine epsilon by
    default, keeps v from zero. Raises ``ValueError`` for impossible hyperparameters.

    >>> import tracejit as tj
    >>> w = tj.tensor([1.0], requires_grad=True)
    >>> opt = tj.optim.Adafactor([w], lr=0.1)
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
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _check(self, group: Mapping[str, Any]) -> None:
        check_at_least_zero(group, lr="learning rate", weight_decay="weight_decay value")
        low, high = group["eps"]
        if not group["beta2_decay"] <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {group['beta2_decay']}")
        if low is not None and not low >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {low}")
        if not high >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {high}")
        if not group["d"] >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {group['d']}")

    def _update_group(self, group: ParamGroup, params: list[Tensor]) -> None:
        low, high = group["eps"]
        for p, hyper in zip(params, self._rows(group, params), strict=True):
            if p.dtype.is_complex:
                raise RuntimeError("Adafactor does not support complex parameters")
            weight, rest, rate, kept, limit = hyper
            gradient: Any = p._grad
            g = -gradient if group["maximize"] else gradient
            floor = finfo(p.dtype).eps if low is None else low
            length = _root_mean_square(p).clamp(min=high) * rate
            whole = p * kept if group["weight_decay"] else p
            squares = self._factored if p.ndim > 1 else self._plain
            update = squares(p, g, weight, rest, floor).clamp(min=floor * floor).rsqrt() * g
            excess = (_root_mean_square(update) / limit).clamp(min=1.0)
            p._assign(cast(whole - update * (length / excess), dtype=p.dtype))

    def _factored(self, p: Tensor, g: Tensor, weight: Any, rest: Any, floor: float) -> Any:
        """The mean square as a product of those of rows and columns, both moved on."""
        means = []
        for name, dim in (("row_var", -1), ("col_var", -2)):
            mean = (g * g).mean(dim=dim, keepdim=True)
            means.append(self._mixed(p, name, mean, weight, rest))
        row, column = means
        return (row * column) / row.mean(dim=-2, keepdim=True).clamp(min=floor)

    def _plain(self, p: Tensor, g: Tensor, weight: Any, rest: Any, floor: float) -> Any:
        """The mean square of each element, moved on."""
        return self._mixed(p, "variance", g * g, weight, rest)

    def _mixed(self, p: Tensor, name: str, new: Any, weight: Any, rest: Any) -> Any:
        """The running mean ``name``, ``new`` mixed into it."""
        slot = self._slot(p, name, shape=new.shape)
        slot._assign(cast(slot * rest + new * weight, dtype=slot.dtype))
        return slot

    def _numbers(self, group: ParamGroup, step: float) -> tuple[float, ...]:
        lr = group.number("lr")
        weight = step ** group.number("beta2_decay")
        rate = min(lr, 1.0 / math.sqrt(step))
        kept = 1.0 - lr * group.number("weight_decay")
        return weight, 1.0 - weight, rate, kept, group.number("d")


def _root_mean_square(x: Any) -> Any:
    return x.norm() / math.sqrt(max(x.numel(), 1))
