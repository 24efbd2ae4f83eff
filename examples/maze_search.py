"""Find the way: a search over a landscape runs until nothing improves, and its gradient is the path it found.

Every cell of a grid costs something to enter, walls cannot be entered. The cost of the cheapest way to every cell is
relaxed (Bellman, 1958; Ford, 1956) in a `while` loop, as many rounds as the maze needs; a goal nobody can reach is a
branch of its own. The derivative of the total cost with respect to a cell's cost says how often the way passes the
cell: once, or never.

    python examples/maze_search.py
"""

from __future__ import annotations

import heapq
import math

import numpy as np

import tracejit as tj

WALL = math.inf


def relaxed(total: tj.Tensor, cost: tj.Tensor) -> tj.Tensor:
    """One round: every cell is reached as it was, or from the best of its four neighbours."""
    padded = tj.pad(total, (1, 1, 1, 1), value=WALL)
    vertical = tj.minimum(padded[:-2, 1:-1], padded[2:, 1:-1])
    horizontal = tj.minimum(padded[1:-1, :-2], padded[1:-1, 2:])
    return tj.minimum(total, tj.minimum(vertical, horizontal) + cost)


def search(cost: tj.Tensor, start: tj.Tensor, goal: tj.Tensor) -> tj.Tensor | None:
    """The cost of the cheapest way from ``start`` to ``goal`` (row, column), or None where there is none."""
    total = tj.full(cost.shape, WALL).index_put((start[0], start[1]), tj.zeros(()))
    after = relaxed(total, cost)
    while (after < total).any():
        total, after = after, relaxed(after, cost)
    found = after[goal[0], goal[1]]
    if found == WALL:
        return None
    return found


def dijkstra(cost: np.ndarray, start: tuple[int, int], goal: tuple[int, int]) -> float:
    """The same by Dijkstra's method (1959), in Python."""
    best, queue = {start: 0.0}, [(0.0, start)]
    while queue:
        total, (row, column) = heapq.heappop(queue)
        if (row, column) == goal:
            return total
        for cell in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
            if min(cell) >= 0 and cell[0] < cost.shape[0] and cell[1] < cost.shape[1]:
                further = total + float(cost[cell])
                if further < best.get(cell, WALL):
                    best[cell] = further
                    heapq.heappush(queue, (further, cell))
    return WALL


def landscape(rng: np.random.Generator, size: int, walls: float) -> np.ndarray:
    """Random costs from 1 to 3, and random walls; start and goal, in opposite corners, are free."""
    cost = rng.uniform(1, 3, (size, size))
    cost[rng.random((size, size)) < walls] = WALL
    cost[0, 0] = cost[-1, -1] = 1.0
    return cost.astype(np.float32)


class Experiment:
    """One maze after the other."""

    def __init__(self, compiled: bool, size: int = 8, walls: float = 0.3) -> None:
        self.rng, self.size, self.walls = np.random.default_rng(0), size, walls
        self.search = tj.compile(search) if compiled else search
        self.functions = (self.search,)
        self.maze = landscape(self.rng, size, walls)
        self.state = {"cost": tj.from_numpy(self.maze)}

    def step(self) -> list[float]:
        """Solve a maze: the cost of the way (infinite where there is none), and the cells on it."""
        self.maze = landscape(self.rng, self.size, self.walls)
        cost = self.state["cost"] = tj.from_numpy(self.maze).requires_grad_()
        found = self.search(cost, tj.tensor([0, 0]), tj.tensor([self.size - 1, self.size - 1]))
        if found is None:
            return [WALL, 0.0]
        found.backward()
        return [found.item(), float((cost.grad > 0).sum())]


def picture(maze: np.ndarray, way: np.ndarray) -> str:
    """Walls, the way, and the rest."""
    signs = np.where(maze == WALL, "#", np.where(way > 0, "*", "."))
    signs[0, 0] = "*"
    return "\n".join(" ".join(row) for row in signs)


def main() -> None:
    """Solve mazes, compare with Dijkstra's method, show one."""
    solving = Experiment(compiled=True)
    start, goal = (0, 0), (solving.size - 1, solving.size - 1)
    solved, longest, shown = 0, 0.0, ""
    for _ in range(200):
        total, cells = solving.step()
        expected = dijkstra(solving.maze, start, goal)
        assert total == expected or abs(total - expected) < 1e-4 * expected
        solved += total < WALL
        if cells > longest:
            way = solving.state["cost"].grad.numpy()
            assert set(way.flatten().tolist()) == {0.0, 1.0}
            longest, shown = cells, picture(solving.maze, way)
    print(f"the longest of {solved} ways, {200 - solved} mazes had none:\n\n{shown}\n")
    paths = sum(s["paths"] for s in solving.search.explain().signatures)
    print(f"{paths} paths through the program, {solving.search.stats}")
    assert solved > 50
    assert solving.search.stats.compiled_calls > 150


if __name__ == "__main__":
    main()
