"""Which nodes of the autograd graph lead to which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .node import Node

__all__ = ["leading_to", "leads_on"]


def leads_on(node: Node, useful: set[Node]) -> bool:
    """Does an edge of a node lead to a useful one?

    >>> y = tj.ones(2, requires_grad=True) * 2
    >>> leads_on(y.grad_fn, set())
    False
    """
    return any(edge is not None and edge[0] in useful for edge in node.edges)


def leading_to(roots: Sequence[Node], targets: set[Node], upwards: bool = True) -> set[Node]:
    """The nodes from which a target can be reached, targets included: found from the leaves upwards.

    Without ``upwards`` just the targets that can be reached.

    >>> x = tj.ones(2, requires_grad=True)
    >>> top, end = (x * 2).grad_fn, x.sin().grad_fn
    >>> leading_to([top], {end}), leading_to([top], {top}) == {top}
    (set(), True)
    """
    lowest = min((t.sequence for t in targets), default=0)
    seen: set[Node] = set(roots)
    stack = list(seen)
    parents: dict[Node, list[Node]] = {}
    while stack:
        node = stack.pop()
        for edge in node.edges:
            if edge is None or edge[0].sequence < lowest:
                continue
            parents.setdefault(edge[0], []).append(node)
            if edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])
    found = targets & seen
    stack = list(found) if upwards else []
    while stack:
        for parent in parents.get(stack.pop(), ()):
            if parent not in found:
                found.add(parent)
                stack.append(parent)
    return found
