"""Operators whose results a listener made: they are computed again in backward, for their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.node import FREED, Node
from ..autograd.saved import SavedTensor
from ..errors import AutogradError
from ..modes import MODES
from ..tensor import Tensor
from .history import differentiable, parts_of, row_like
from .stack import LISTENERS
from .wrappers import wrappers_in

__all__ = ["AgainNode", "again"]


class AgainNode(Node):
    """Stands where a listener made the result: the operator is computed again in backward, for its gradients."""

    def __init__(
        self, op: Any, args: Any, kwargs: Any, tensors: list[Any], edges: list[Any], n: int
    ) -> None:
        super().__init__(edges, n)
        self.op, self.args, self.kwargs = op, args, kwargs
        self.saved: list[SavedTensor] | None = [SavedTensor(x) for x in tensors]

    def name(self) -> str:
        """PyTorch's name of the node, as far as it is known."""
        return f"{self.op._opname.title().replace('_', '')}Backward0"

    def release(self) -> None:
        """Drop what was saved."""
        self.saved = None

    @property
    def keeps(self) -> bool:
        """Is there something that another pass would need?"""
        return True

    @property
    def freed(self) -> bool:
        """Was it dropped?"""
        return self.saved is None

    def apply(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """The gradients of all operands that have one."""
        from ..autograd import enable_grad, grad

        if self.saved is None:
            raise AutogradError(FREED)
        twice = MODES.grad
        own = [kept.values(self) for kept in self.saved]
        with enable_grad():
            given = [x if twice else x.detach().requires_grad_() for x in own]
            rest = iter(given)
            args, kwargs = _replaced((self.args, self.kwargs), lambda: next(rest))
            before = LISTENERS.quiet
            LISTENERS.quiet = True
            try:
                results = [
                    x for x in parts_of(self.op._function(*args, **kwargs)) if isinstance(x, Tensor)
                ]
            finally:
                LISTENERS.quiet = before
        pairs = [
            (x, g)
            for x, g in zip(results, grads, strict=False)
            if g is not None and x.requires_grad
        ]
        found = grad(
            [x for x, _ in pairs],
            given,
            [g for _, g in pairs],
            create_graph=twice,
            allow_unused=True,
        )
        return list(found)


class _Place:
    """Where a tensor that requires grad was among arguments."""


def _replaced(value: Any, next_one: Callable[[], Any]) -> Any:
    if isinstance(value, _Place):
        return next_one()
    if isinstance(value, (tuple, list)):
        return row_like(value, [_replaced(x, next_one) for x in value])
    if isinstance(value, dict):
        return {name: _replaced(x, next_one) for name, x in value.items()}
    return value


def again(op: Any, args: Any, kwargs: Any, result: Any) -> Any:
    """The result of an operator with a node that computes it again.

    >>> import tracejit as tj
    >>> x = tj.ones(2, requires_grad=True)
    >>> again(tj.ops.aten.exp.default, (x,), {}, tj.zeros(2)).grad_fn.name()
    'ExpBackward0'
    """
    if wrappers_in(args, kwargs):
        raise NotImplementedError(
            f"the derivative of {op} is not known for classes that answer for operators"
        )
    tensors: list[Any] = []

    def without(value: Any) -> Any:
        if isinstance(value, Tensor) and value.requires_grad:
            tensors.append(value)
            return _Place()
        if isinstance(value, (tuple, list)):
            return row_like(value, [without(x) for x in value])
        return value

    args, kwargs = tuple(map(without, args)), {name: without(x) for name, x in kwargs.items()}
    parts = [x._alias() if differentiable(x) else x for x in parts_of(result)]
    node = AgainNode(op, args, kwargs, tensors, [x._edge() for x in tensors], max(len(parts), 1))
    for number, x in enumerate(parts):
        if differentiable(x):
            x._requires_grad, x._grad_fn, x._output_nr = True, node, number
    return row_like(result, parts) if isinstance(result, (tuple, list)) else parts[0]
