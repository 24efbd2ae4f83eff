"""L-BFGS: steps along directions built from the last few changes of the gradient.

The direction is the two-loop recursion of Nocedal (1980); the optional line search ends at a point that meets the
strong Wolfe conditions (Nocedal and Wright, "Numerical Optimization", algorithms 3.5 and 3.6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..autograd.grad_mode import enable_grad
from ..tensor import Tensor
from ..varying import as_number
from .group import check_at_least_zero
from .optimizer import Optimizer
from .recorded import refuse_inside
from .wolfe import Evaluate, strong_wolfe

__all__ = ["LBFGS"]

_KEPT = ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")


class LBFGS(Optimizer):
    """L-BFGS; ``step(closure)`` makes up to ``max_iter`` iterations, each evaluating ``closure`` at least once.

    One group of parameters only. ``line_search_fn`` is None (steps of ``lr``) or "strong_wolfe". The iteration ends
    early below ``tolerance_grad`` (largest gradient) or ``tolerance_change`` (largest change), or after ``max_eval``
    evaluations (default: 5/4 of the iterations). Runs eagerly; the closure may be compiled. Raises ``ValueError`` for
    more than one group, ``RuntimeError`` for another line search.

    >>> import tracejit as tj
    >>> w = tj.tensor([3.0, -2.0], requires_grad=True)
    >>> opt = tj.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     opt.zero_grad()
    ...     loss = ((w - tj.tensor([1.0, 2.0])) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> _ = opt.step(closure)
    >>> w.detach().round(decimals=3)
    tensor([1., 2.])
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params: list[Tensor] = self.param_groups[0]["params"]

    def _check(self, group: Mapping[str, Any]) -> None:
        check_at_least_zero(group, lr="learning rate")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Iterate; returns the loss before the first iteration."""
        refuse_inside("a step of LBFGS")
        if closure is None:
            raise TypeError("step() of LBFGS needs a closure that computes the loss and gradients")
        group = self.param_groups[0]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        run = _Run(self, closure)
        run.iterate()
        return run.first

    # --- one flat vector of all parameters ------------------------------------------------------------------

    def _gather(self) -> Any:
        """The gradients, complex numbers as their parts; zeros where there is none."""
        parts = [
            np.zeros(p.numel(), p.dtype.np) if p.grad is None else p.grad.array.reshape(-1)
            for p in self._params
        ]
        return np.concatenate([x.view(x.real.dtype) for x in map(np.ascontiguousarray, parts)])

    def _values(self) -> list[Any]:
        return [p.array.copy() for p in self._params]

    def _put(self, values: list[Any], size: float, direction: Any) -> None:
        """Parameters = ``values`` + ``size`` * ``direction``."""
        at = 0
        for p, value in zip(self._params, values, strict=True):
            count = value.size * (2 if p.dtype.is_complex else 1)
            change = direction[at : at + count].astype(value.real.dtype, copy=False)
            at += count
            change = (change * change.dtype.type(size)).view(value.dtype).reshape(value.shape)
            p.array[...] = value + change
            p._writes.value += 1


class _Run:
    """One call of ``step``; what outlives it is kept in the state of the first parameter."""

    def __init__(self, optimizer: LBFGS, closure: Callable[[], Any]) -> None:
        self.optimizer = optimizer
        self.closure = closure
        self.group = optimizer.param_groups[0]
        self.state = optimizer.state[optimizer._params[0]]
        self.evaluations = 0
        self.first: Any = None
        for name in ("func_evals", "n_iter"):
            self.state.setdefault(name, 0)

    def evaluate(self) -> tuple[float, Any]:
        """Loss and gradient where the parameters are."""
        with enable_grad():
            loss = self.closure()
        if self.first is None:
            self.first = loss
        self.evaluations += 1
        self.state["func_evals"] += 1
        return float(loss), self.optimizer._gather()

    def iterate(self) -> None:
        """Go on until nothing moves or the budget is used."""
        group, state = self.group, self.state
        loss, grad = self.evaluate()
        if np.abs(grad).max(initial=0.0) <= group["tolerance_grad"]:
            return
        lr = group["lr"].item() if isinstance(group["lr"], Tensor) else group["lr"]
        kept = {name: state.get(name) for name in _KEPT}
        for number in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self.direction(grad, kept)
            size = lr
            if state["n_iter"] == 1:
                size = min(1.0, 1.0 / float(np.abs(grad).sum())) * lr
            slope = float(grad @ direction)
            kept.update(prev_flat_grad=_kept(grad.copy()), prev_loss=loss)
            kept.update(d=_kept(direction), t=size)
            before = loss
            if slope > -group["tolerance_change"]:
                break
            size, loss, grad = self.move(size, direction, loss, grad, slope, number)
            kept["t"] = size
            if self.done(grad, direction, size, loss - before, number):
                break
        state.update(kept)

    def done(self, grad: Any, direction: Any, size: float, change: float, number: int) -> bool:
        """Is the budget used, or does nothing move any more?"""
        group = self.group
        least = group["tolerance_change"]
        return bool(
            number == group["max_iter"]
            or self.evaluations >= group["max_eval"]
            or np.abs(grad).max(initial=0.0) <= group["tolerance_grad"]
            or np.abs(direction * size).max(initial=0.0) <= least
            or abs(change) < least
        )

    def move(
        self, size: float, direction: Any, loss: float, grad: Any, slope: float, number: int
    ) -> tuple[float, float, Any]:
        """Step along ``direction``: how far, and loss and gradient there."""
        optimizer = self.optimizer
        start = optimizer._values()
        if self.group["line_search_fn"] is None:
            optimizer._put(start, size, direction)
            if number == self.group["max_iter"]:  # nobody asks for the loss after the last step
                return size, loss, grad
            return size, *self.evaluate()

        def at(t: float) -> tuple[float, Any]:
            optimizer._put(start, t, direction)
            return self.evaluate()

        evaluate: Evaluate = at
        largest = float(np.abs(direction).max())
        least = float(self.group["tolerance_change"]) / largest if largest else 0.0
        most = self.group["max_eval"] - self.evaluations
        size, loss, grad = strong_wolfe(evaluate, size, direction, (loss, grad, slope), least, most)
        optimizer._put(start, size, direction)
        return size, loss, grad

    def direction(self, grad: Any, kept: dict[str, Any]) -> Any:
        """Minus the gradient times the inverse Hessian that the last changes suggest."""
        if self.state["n_iter"] == 1:
            kept.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return -grad
        history = self.group["history_size"]
        change = grad - kept["prev_flat_grad"].array
        moved = kept["d"].array * grad.dtype.type(as_number(kept["t"]))
        curvature = change @ moved
        pairs = [kept[name] for name in ("old_dirs", "old_stps", "ro")]
        if curvature > 1e-10:
            for values, new in zip(pairs, (change, moved, 1 / curvature), strict=True):
                if len(values) == history:
                    values.pop(0)
                values.append(_kept(np.asarray(new)))
            kept["H_diag"] = _kept(np.asarray(curvature / (change @ change)))
        scale = as_number(kept["H_diag"])
        dirs, steps, rates = ([x.array for x in values] for values in pairs)
        found, weights = _two_loops(grad, dirs, steps, rates, scale)
        shares = self.state.setdefault("al", [None] * history)
        shares[: len(weights)] = map(_kept, weights)
        return found


def _kept(array: Any) -> Tensor:
    """As the state holds it: what is in there can be saved."""
    return Tensor._wrap(array)


def _two_loops(
    grad: Any, changes: list[Any], steps: list[Any], rates: list[Any], scale: float
) -> tuple[Any, list[Any]]:
    """The direction, and the share that each pair had in it."""
    found = -grad
    weights = []
    pairs = list(zip(changes, steps, rates, strict=True))
    for y, s, rate in reversed(pairs):
        weight = np.asarray((s @ found) * rate)
        weights.append(weight)
        found = found - y * weight
    weights.reverse()
    found = found * found.dtype.type(scale)
    for (y, s, rate), weight in zip(pairs, weights, strict=True):
        found = found + s * (weight - (y @ found) * rate)
    return found, weights
