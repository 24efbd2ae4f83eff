"""Minimum cut of a directed graph with node prices: which nodes to keep so that all paths are interrupted.

Maximum flow by blocking flows along shortest paths (Dinic 1970), without recursion.
"""

from __future__ import annotations

from collections import deque

INFINITE = 1 << 60


class Network:
    """Edges with capacities between numbered nodes, in pairs: edge ``e`` and its reverse ``e ^ 1``."""

    def __init__(self, count: int) -> None:
        self.edges: list[list[int]] = [[] for _ in range(count)]
        self.target: list[int] = []
        self.capacity: list[int] = []

    def connect(self, source: int, target: int, capacity: int) -> None:
        """An edge from ``source`` to ``target``."""
        self.edges[source].append(len(self.target))
        self.edges[target].append(len(self.target) + 1)
        self.target += (target, source)
        self.capacity += (capacity, 0)

    def sink_side(self, source: int, sink: int) -> list[bool]:
        """For each node: does it still reach ``sink`` once the flow is maximal?

        Of all minimum cuts this is the one nearest to the sink.

        >>> n = Network(4)  # 0 -> 1 -> 2 -> 3
        >>> for a, price in enumerate((5, 2, 2)):
        ...     n.connect(a, a + 1, price)
        >>> n.sink_side(0, 3)
        [False, False, False, True]
        """
        while (level := self._levels(source, sink)) is not None:
            self._block(source, sink, level)
        side = [False] * len(self.edges)
        side[sink] = True
        waiting = deque([sink])
        while waiting:
            for edge in self.edges[waiting.popleft()]:
                other = self.target[edge]
                if not side[other] and self.capacity[edge ^ 1] > 0:
                    side[other] = True
                    waiting.append(other)
        return side

    def _levels(self, source: int, sink: int) -> list[int] | None:
        """Distances from ``source`` along edges with capacity left; None when ``sink`` is cut off."""
        level = [-1] * len(self.edges)
        level[source] = 0
        waiting = deque([source])
        while waiting:
            node = waiting.popleft()
            for edge in self.edges[node]:
                other = self.target[edge]
                if level[other] < 0 and self.capacity[edge] > 0:
                    level[other] = level[node] + 1
                    waiting.append(other)
        return level if level[sink] >= 0 else None

    def _block(self, source: int, sink: int, level: list[int]) -> None:
        """Send flow along every shortest path that has capacity left."""
        following = [0] * len(self.edges)
        path: list[int] = []
        node = source
        while True:
            if node == sink:
                node = self._send(path)
                continue
            edge = self._advance(node, level, following)
            if edge >= 0:
                path.append(edge)
                node = self.target[edge]
            elif path:
                node = self.target[path.pop() ^ 1]
                following[node] += 1
            else:
                return

    def _advance(self, node: int, level: list[int], following: list[int]) -> int:
        """The next edge of ``node`` towards the sink, -1 when there is none left."""
        edges = self.edges[node]
        while following[node] < len(edges):
            edge = edges[following[node]]
            if self.capacity[edge] > 0 and level[self.target[edge]] == level[node] + 1:
                return edge
            following[node] += 1
        return -1

    def _send(self, path: list[int]) -> int:
        """Use up the smallest capacity along ``path``; cut the path back to there and return its end."""
        amount = min(self.capacity[edge] for edge in path)
        for edge in path:
            self.capacity[edge] -= amount
            self.capacity[edge ^ 1] += amount
        first = next(i for i, edge in enumerate(path) if self.capacity[edge] == 0)
        node = self.target[path[first] ^ 1]
        del path[first:]
        return node
