"""Who sided with whom: graph convolution on Zachary's karate club, over a graph that differs at every step.

A club of 34 members split in two (Zachary, 1977). From the side of the two leaders alone, a graph convolutional network
(Kipf and Welling, 2017) learns the side of everyone. In training a random part of the friendships is left out at each
step (DropEdge: Rong et al., 2020), so the number of edges differs from step to step.

    pip install networkx && python examples/karate_gcn.py
"""

from __future__ import annotations

import networkx as nx
import numpy as np

import tracejit as tj
from tracejit import nn

LEADERS = [0, 33]


def club() -> tuple[np.ndarray, np.ndarray]:
    """Friendships (2, edges), each once, and the side of every member."""
    graph = nx.karate_club_graph()
    sides = [int(graph.nodes[member]["club"] == "Officer") for member in graph]
    return np.array(list(graph.edges)).T, np.array(sides)


class Convolution(nn.Module):
    """Every node gets the mean of its neighbours, weighted by 1/sqrt of both degrees, after a linear map."""

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, outputs)

    def forward(self, x: tj.Tensor, source: tj.Tensor, target: tj.Tensor) -> tj.Tensor:
        """(nodes, features) to (nodes, outputs), along edges from source to target."""
        degree = tj.zeros(x.shape[0]).index_add(0, target, tj.ones(target.shape[0]))
        scale = degree.rsqrt()
        messages = self.linear(x)[source] * (scale[source] * scale[target]).unsqueeze(1)
        return tj.zeros(x.shape[0], messages.shape[1]).index_add(0, target, messages)


class Network(nn.Module):
    """Two convolutions over the members, who have no features but who they are."""

    def __init__(self, members: int, hidden: int = 16) -> None:
        super().__init__()
        self.first = Convolution(members, hidden)
        self.second = Convolution(hidden, 2)
        self.register_buffer("identity", tj.eye(members))
        self.dropout = nn.Dropout(0.5)

    def forward(self, edges: tj.Tensor) -> tj.Tensor:
        """Scores of the two sides for every member; ``edges`` (2, n) has each friendship once."""
        nodes = tj.arange(self.identity.shape[0])
        source = tj.cat([edges[0], edges[1], nodes])  # both ways, and everyone to themselves
        target = tj.cat([edges[1], edges[0], nodes])
        hidden = self.first(self.identity, source, target).relu()
        return self.second(self.dropout(hidden), source, target)


class Loss(nn.Module):
    """Cross entropy of the members whose side is known."""

    def __init__(self, network: Network, known: tj.Tensor, sides: tj.Tensor) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("known", known)
        self.register_buffer("sides", sides)

    def forward(self, edges: tj.Tensor) -> tj.Tensor:
        """Of one graph."""
        return nn.functional.cross_entropy(self.network(edges)[self.known], self.sides[self.known])


class Experiment:
    """Training on the two leaders."""

    def __init__(self, compiled: bool, keep: float = 0.8) -> None:
        self.rng, self.keep = np.random.default_rng(0), keep
        self.edges, sides = club()
        self.model = Loss(Network(len(sides)), tj.tensor(LEADERS), tj.from_numpy(sides))
        self.loss = tj.compile(self.model) if compiled else self.model
        self.functions = (self.loss,)
        self.state = dict(self.model.named_parameters())
        self.optimizer = tj.optim.AdamW(
            self.model.parameters(), lr=0.01, weight_decay=0.05, fused=compiled
        )

    def step(self) -> list[float]:
        """One step of training on a part of the friendships: the loss."""
        kept = self.edges[:, self.rng.random(self.edges.shape[1]) < self.keep]
        self.optimizer.zero_grad()
        loss = self.loss(tj.from_numpy(np.ascontiguousarray(kept)))
        loss.backward()
        self.optimizer.step()
        return [loss.item()]


def main() -> None:
    """Train on two members; ask for all of them."""
    tj.manual_seed(0)
    training = Experiment(compiled=True)
    for number in range(200):
        (loss,) = training.step()
        if number % 50 == 49:
            print(f"step {number + 1}: loss {loss:.4f}")
    network, sides = training.model.network.eval(), training.model.sides
    with tj.no_grad():
        found = network(tj.from_numpy(training.edges)).argmax(dim=1)
    wrong = [
        n for n, (a, b) in enumerate(zip(found.tolist(), sides.tolist(), strict=True)) if a != b
    ]
    print(f"{len(sides) - len(wrong)} of {len(sides)} members right, from two; wrong: {wrong}")
    signatures = len(training.loss.explain().signatures)
    print(
        f"{signatures} numbers of edges, {len(training.loss.kernels)} kernels, {training.loss.stats}"
    )
    assert len(wrong) <= 2
    assert training.loss.stats.compiled_calls > 150


if __name__ == "__main__":
    main()
