"""Nodes that know their leaves as tensors, until somebody asks for edges.

A leaf has a node of its own only while a graph uses it, so a graph of a few nodes would make one for every leaf, and
most are never looked at: a pass that ends in leaves needs just the tensors. The number of the leaf's node is settled
when a late node takes the leaf, so that whenever it is made, numbers fall along every path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .node import AccumulateGrad, Edge, Node, next_number

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = ["End", "LateNode", "end_of"]

#: Where a gradient goes: along an edge, or into a leaf.
End = Any


def end_of(tensor: Tensor) -> End:
    """Where gradients for ``tensor`` go now: itself for a leaf, else as its edge says.

    >>> x = tj.ones(2, requires_grad=True)
    >>> end_of(x) is x, end_of(tj.ones(2)) is None, type(end_of(x * 2))
    (True, True, <class 'tuple'>)
    """
    if tensor._base is None and tensor._grad_fn is None:
        if not tensor._requires_grad:
            return None
        if tensor._end_number is None:  # below that of the node this is for
            tensor._end_number = next_number()
        return tensor
    return tensor._edge()


class LateNode(Node):
    """A node made of ``ends``; its edges are made from them at the first look."""

    ends: tuple[End, ...]
    _edges: tuple[Edge | None, ...] | None = None

    @property
    def edges(self) -> tuple[Edge | None, ...]:
        """Where the gradients of the inputs go."""
        found = self._edges
        if found is None:
            ends = self.ends
            found = self._edges = tuple(
                [x if x is None or type(x) is tuple else (AccumulateGrad.of(x), 0) for x in ends]
            )
        return found

    @edges.setter
    def edges(self, ends: Sequence[End]) -> None:
        self.ends, self._edges = tuple(ends), None
