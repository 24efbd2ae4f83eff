"""Outputs of one node of which some were computed from others, while somebody watches these.

In eager code such outputs have nodes of their own, and what comes to one by way of another is there when its hooks run.
A node for all of them (that of compiled code) is split for a pass in which that can be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ..ops.elementwise import add

if TYPE_CHECKING:
    from ..tensor import Tensor
    from .engine import Gradients
    from .node import Node

__all__ = ["Split", "visit_split", "watched_outputs"]


class Split(Protocol):
    """A pass through a node, from its outputs that nobody watches to those watched, and on from each of these.

    ``order`` are the numbers of the latter: what was computed from others comes before them.
    """

    order: Sequence[int]

    def arrived(self, number: int) -> Tensor | None:
        """What has come to an output from others."""

    def go_on(self, number: int, gradient: Tensor | None) -> None:
        """Pass on the whole gradient of an output."""

    def apply(self, grads: Gradients) -> Sequence[Tensor | None]:
        """The gradients of the node's inputs, in the end; ``grads`` are all of its outputs'."""

    def apply_part(self, grads: Gradients, wanted: Sequence[bool]) -> Sequence[Tensor | None]:
        """The same."""


def watched_outputs(node: Node, capture: set[Any] | None) -> list[int]:
    """The outputs of a node whose gradients are looked at: by hooks, by ``retain_grad``, or because they are asked for.

    >>> import tracejit as tj
    >>> y = tj.ones(2, requires_grad=True) * 2
    >>> y.retain_grad()
    >>> watched_outputs(y.grad_fn, None), watched_outputs(y.grad_fn, {(y.grad_fn, 0)})
    ([0], [0])
    """
    found = {number for number, hooks in (node.tensor_hooks or {}).items() if hooks}
    found |= {number for number, tensor in (node.retained or {}).items() if tensor() is not None}
    if capture is not None:
        found |= {number for number in range(node.n_outputs) if (node, number) in capture}
    return sorted(found)


def visit_split(walk: Any, node: Node, grads: Gradients, split: Split) -> None:
    """Bring the gradients of watched outputs together, show them to whoever watches, and pass them on.

    >>> import tracejit as tj
    >>> def function(x):
    ...     y = x * 2
    ...     return y, (y * y).sum()
    >>> y, total = tj.compile(function)(tj.ones(2, requires_grad=True))
    >>> y.retain_grad()
    >>> total.backward()
    >>> y.grad
    tensor([4., 4.])
    """
    for number in split.order:
        inner, present = split.arrived(number), grads[number]
        if inner is not None:
            grads[number] = inner if present is None else add(present, inner)
        walk.run_tensor_hooks(node, grads, (number,))
        split.go_on(number, grads[number])
