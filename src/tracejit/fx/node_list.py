"""The nodes of a graph as a sequence, and the place where new ones go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .node import Node

if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["InsertPoint", "NodeList"]


class NodeList:
    """The nodes of a graph, from the first on or from the last; nodes that are put in or taken out meanwhile count."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        assert direction in ("_next", "_prev"), (
            f"direction must be '_next' or '_prev', got {direction}"
        )
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def _walk(self, direction: str) -> Iterator[Node]:
        root = self.graph._root
        node = getattr(root, direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, direction)

    def __iter__(self) -> Iterator[Node]:
        return self._walk(self.direction)

    def __reversed__(self) -> Iterator[Node]:
        return self._walk("_next" if self.direction == "_prev" else "_prev")


class InsertPoint:
    """Where new nodes go; as a context, for as long as it lasts."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.before, graph._insert = graph._insert, insert

    def __enter__(self) -> None:
        """It is in force since it was made."""

    def __exit__(self, *_: object) -> None:
        self.graph._insert = self.before
