"""Adam for tables of which few rows are looked up: the other rows stay as they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..ops.elementwise import cast, where
from ..tensor import Tensor
from .group import ParamGroup, check_at_least_zero
from .optimizer import Optimizer

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam on the rows that have a gradient: their means move and they do, all others keep both.

    Gradients are dense here, those of ``Embedding(sparse=True)`` included, so rows of zeros are what counts as rows
    without a gradient. Raises ``ValueError`` for hyperparameters out of range.

    >>> import tracejit as tj
    >>> table = tj.nn.Embedding(3, 1, sparse=True, _weight=tj.ones(3, 1))
    >>> opt = tj.optim.SparseAdam(table.parameters(), lr=0.1)
    >>> table(tj.tensor([1])).sum().backward()
    >>> opt.step()
    >>> table.weight.detach().flatten()
    tensor([1.0000, 0.9000, 1.0000])
    """

    _counts = True

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize}
        super().__init__(params, defaults)

    def _check(self, group: Mapping[str, Any]) -> None:
        check_at_least_zero(group, lr="learning rate")
        for name, what in (("lr", "learning rate"), ("eps", "epsilon value")):
            if not group[name] > 0.0:
                raise ValueError(f"Invalid {what}: {group[name]}")
        for index, beta in enumerate(group["betas"]):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {index}: {beta}")

    def _update_group(self, group: ParamGroup, params: list[Tensor]) -> None:
        for p, hyper in zip(params, self._rows(group, params), strict=True):
            rate, first, second, eps = hyper
            g: Any = p._grad
            if group["maximize"]:
                g = -g
            present = _rows_with_any(g)
            mean, square = (self._slot(p, name) for name in ("exp_avg", "exp_avg_sq"))
            new_mean = mean + (g - mean) * first
            new_square = square + (g * g - square) * second
            moved = p - (new_mean / (new_square.sqrt() + eps)) * rate
            for old, new in ((mean, new_mean), (square, new_square), (p, moved)):
                old._assign(cast(where(present, new, old), dtype=old.dtype))

    def _numbers(self, group: ParamGroup, step: float) -> tuple[float, ...]:
        first, second = group["betas"]
        rate = group.number("lr") * math.sqrt(1.0 - second**step) / (1.0 - first**step)
        return rate, 1.0 - first, 1.0 - second, group.number("eps")


def _rows_with_any(gradient: Any) -> Any:
    """Which rows are not all zeros, for (n, ...) gradients as (n, 1, ...)."""
    found = gradient != 0
    if gradient.ndim < 2:
        return found
    rows = gradient.shape[0]
    return found.reshape(rows, -1).any(1).reshape(rows, *(1,) * (gradient.ndim - 1))
