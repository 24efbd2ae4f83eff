"""Nodes that know their leaves as tensors, until somebody asks for edges.

A leaf has a node of its own only while a graph uses it, so a graph of a few nodes would make one for every leaf, and
most are never looked at: a pass that ends in leaves needs just the tensors.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .node import AccumulateGrad, Edge, Node

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = ["End", "LateNode", "end_of"]

#: Where a gradient goes: along an edge, or into a leaf.
End = Any
_numbers = itertools.count(1).__next__


def end_of(tensor: Tensor) -> End:
    """Where gradients for ``tensor`` go now: itself for a leaf, else as its edge says.

    >>> x = tj.ones(2, requires_grad=True)
    >>> end_of(x) is x, end_of(tj.ones(2)) is None, type(end_of(x * 2))
    (True, True, <class 'tuple'>)
    """
    if tensor._base is None and tensor._grad_fn is None:
        return tensor if tensor._requires_grad else None
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
            found = tuple([x if x is None or type(x) is tuple else _edge(x) for x in self.ends])
            self._edges = found
        return found

    @edges.setter
    def edges(self, ends: Sequence[End]) -> None:
        self.ends, self._edges = tuple(ends), None


def _edge(leaf: Tensor) -> Edge:
    """The edge to a leaf; a node made for it now has a lower number than any that could lead to it."""
    reference = leaf._accumulate
    node = None if reference is None else reference()
    if node is None:
        node = AccumulateGrad(leaf)
        node.sequence = -_numbers()
        leaf._accumulate = weakref.ref(node)
    return node, 0
