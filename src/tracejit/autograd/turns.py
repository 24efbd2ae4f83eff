"""Whose turn it is among leaves that somebody watches.

The walk goes by numbers, and the number of a leaf's node depends on who has made one before: a graph that is kept, or
compiled code. What hooks of leaves do must not depend on that. Where a pass comes to a leaf with hooks, each leaf has
its turn as soon as no node still to run leads to it, and those that are ready together in the order they were reached.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .node import AccumulateGrad

if TYPE_CHECKING:
    from .node import Node

__all__ = ["Turns", "is_watched"]


def is_watched(node: Node) -> bool:
    """Is this the end at a leaf with hooks?

    >>> x = tj.ones(2, requires_grad=True)
    >>> end = (x * 2).grad_fn.next_functions[0][0]
    >>> handle = x.register_hook(print)
    >>> is_watched(end)
    True
    """
    if type(node) is not AccumulateGrad:
        return False
    leaf = node.variable
    return bool(node.hooked or leaf._hooks or leaf._post_accumulate_hooks)


class Turns:
    """How many edges from nodes still to run lead to each leaf."""

    def __init__(self, waiting: Iterable[Node], useful: set[Node] | None) -> None:
        self.useful = useful
        self.owed: dict[Node, int] = {}
        stack = [n for n in waiting if type(n) is not AccumulateGrad]
        seen = set(stack)
        while stack:
            for edge in stack.pop().edges:
                if edge is None or (useful is not None and edge[0] not in useful):
                    continue
                if type(edge[0]) is AccumulateGrad:
                    self.owed[edge[0]] = self.owed.get(edge[0], 0) + 1
                elif edge[0] not in seen:
                    seen.add(edge[0])
                    stack.append(edge[0])

    def ran(self, node: Node) -> None:
        """A node has handed on its gradients."""
        for edge in node.edges:
            if edge is not None and edge[0] in self.owed:
                self.owed[edge[0]] -= 1

    def due(self, reached: Iterable[Node]) -> list[Node]:
        """The leaves among the nodes reached that nothing more comes to."""
        return [n for n in reached if type(n) is AccumulateGrad and not self.owed.get(n)]
