"""Muon: momentum whose matrices are made nearly orthogonal before every step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .. import dtypes
from ..ops.elementwise import cast
from ..tensor import Tensor
from .group import ParamGroup, check_at_least_zero
from .optimizer import Optimizer

__all__ = ["Muon"]

_RATIOS = ("original", "match_rms_adamw")


def _orthogonal(matrix: Any, coefficients: tuple[float, float, float], steps: int, eps: Any) -> Any:
    """``matrix`` (n, m) with singular values near one, in bfloat16: X <- aX + (bA + cA²)X with A = XXᵀ, repeated."""
    first, second, third = coefficients
    tall = matrix.shape[0] > matrix.shape[1]
    x = cast(matrix.T if tall else matrix, dtype=dtypes.bfloat16)
    x = x / x.norm().clamp(min=eps)  # the iteration converges for singular values up to one
    for _ in range(steps):
        gram = x @ x.T
        x = (gram.addmm(gram, gram, beta=second, alpha=third)).mm(x) + x * first
    return x.T if tall else x


class Muon(Optimizer):
    """Muon (Jordan et al., 2024): p <- p (1 - lr * weight_decay) - lr * ratio * orthogonal(momentum) for matrices p.

    The momentum is ``m <- momentum * m + (1 - momentum) * g``, with ``nesterov`` looked ahead once more. ``ratio`` is
    sqrt(max(1, n / m)) for (n, m) parameters, or 0.2 sqrt(max(n, m)) where ``adjust_lr_fn`` is "match_rms_adamw".
    Newton's iteration runs ``ns_steps`` times in bfloat16 with ``ns_coefficients``. Raises ``ValueError`` for
    parameters that are not matrices, negative hyperparameters and other names of ``adjust_lr_fn``.

    >>> import tracejit as tj
    >>> w = tj.eye(2).requires_grad_()
    >>> opt = tj.optim.Muon([w], lr=0.5, weight_decay=0.0)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> bool((w.detach().diagonal() < 0.7).all())
    True
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if ns_steps >= 100:
            raise ValueError("Number of steps must be less than 100 for computational efficiency")
        if len(ns_coefficients) != 3:
            raise ValueError("Coefficients must be a tuple of exactly 3 values")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)

    def _check(self, group: Mapping[str, Any]) -> None:
        check_at_least_zero(
            group, lr="learning rate", momentum="momentum value", weight_decay="weight_decay value"
        )
        if group["adjust_lr_fn"] not in (None, *_RATIOS):
            raise ValueError(
                f"Adjust learning rate function {group['adjust_lr_fn']} is not supported"
            )
        for p in group.get("params", ()):  # the defaults have none
            if p.ndim != 2:
                raise ValueError(
                    f"Muon only supports 2D parameters whereas we found a parameter with size: {p.shape}"
                )

    def _update_group(self, group: ParamGroup, params: list[Tensor]) -> None:
        for p, hyper in zip(params, self._rows(group, params), strict=True):
            if p.dtype.is_complex:
                raise RuntimeError("Muon does not support complex parameters")
            lr, kept, momentum, weight, eps = hyper
            g: Any = p._grad
            buffer = self._slot(p, "momentum_buffer")
            buffer._assign(cast(buffer * momentum + g * weight, dtype=buffer.dtype))
            ahead = g * weight + buffer * momentum if group["nesterov"] else buffer
            turned = _orthogonal(ahead, group["ns_coefficients"], group["ns_steps"], eps)
            moved = (cast(turned, dtype=p.dtype) * _ratio(group["adjust_lr_fn"], p)) * lr
            p._assign(cast(p * kept - moved, dtype=p.dtype))

    def _numbers(self, group: ParamGroup, step: float) -> tuple[float, ...]:
        lr, momentum = group.number("lr"), group.number("momentum")
        kept = 1.0 - lr * group.number("weight_decay")
        return lr, kept, momentum, 1.0 - momentum, group.number("eps")


def _ratio(rule: str | None, parameter: Tensor) -> float:
    """How much longer the steps of a matrix are for its shape."""
    rows, columns = parameter.shape
    if rule == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1.0, rows / columns))
