"""Backwards of custom functions that must not be differentiated again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import AutogradError
from ..modes import MODES
from .node import Node
from .saved import alias_of

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = ["NotTwice", "once_differentiable"]


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a ``backward`` that must not be differentiated: doing so is a ``RuntimeError``.

    >>> import tracejit as tj
    >>> class Double(tj.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @once_differentiable
    ...     def backward(ctx, g):
    ...         return g * 2
    >>> x = tj.tensor(3.0, requires_grad=True)
    >>> tj.autograd.grad(Double.apply(x), x)
    (tensor(2.),)
    """

    @functools.wraps(function)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        recording = MODES.grad
        MODES.grad = False
        try:
            found = function(ctx, *grads)
        finally:
            MODES.grad = recording
        if not recording or not any(g is not None and g._requires_grad for g in grads):
            return found
        results = found if isinstance(found, tuple) else (found,)
        node = NotTwice([g._edge() for g in grads if g is not None and g._requires_grad])
        marked = tuple(_marked(node, r) for r in results)
        return marked if isinstance(found, tuple) else marked[0]

    wrapper.once_differentiable = True  # type: ignore[attr-defined]
    return wrapper


class NotTwice(Node):
    """Refuses to be differentiated."""

    always_runs = True

    def name(self) -> str:
        """PyTorch's name for it."""
        return "Error"

    def apply(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Raise."""
        raise AutogradError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )

    def come_by(self) -> Sequence[Tensor | None]:
        """Raise."""
        return self.apply([])


def _marked(node: Node, result: Any) -> Any:
    if result is None or not hasattr(result, "_edge"):
        return result
    alias = alias_of(result)
    alias._continue_from((node, 0))
    return alias
