"""Divide the work: a gate sends every example to the two experts it trusts most; the others are not asked.

Sparsely-gated mixture of experts (Shazeer et al., 2017) on a function that is another one in each region of the plane.
The gate's choice is data: each example is multiplied with the weights of its own two experts.

    python examples/mixture_of_experts.py
"""

from __future__ import annotations

import math

import numpy as np

import tracejit as tj
from tracejit import nn


class Experts(nn.Module):
    """Networks with one hidden layer, their weights stacked: expert first."""

    def __init__(self, count: int, inputs: int, hidden: int) -> None:
        super().__init__()
        self.w1 = nn.Parameter(tj.randn(count, hidden, inputs))
        self.b1 = nn.Parameter(tj.zeros(count, hidden))
        self.w2 = nn.Parameter(tj.randn(count, hidden) / math.sqrt(hidden))

    def forward(self, x: tj.Tensor, expert: tj.Tensor) -> tj.Tensor:
        """What ``expert`` (n, k) says about x (n, inputs): (n, k)."""
        hidden = (self.w1[expert] @ x[:, None, :, None]).squeeze(-1) + self.b1[expert]
        return (hidden.tanh() * self.w2[expert]).sum(dim=-1)


class Mixture(nn.Module):
    """The two best experts of each example, weighted by the gate."""

    def __init__(self, count: int = 8, inputs: int = 2, hidden: int = 16, chosen: int = 2) -> None:
        super().__init__()
        self.count, self.chosen = count, chosen
        self.gate = nn.Linear(inputs, count)
        self.experts = Experts(count, inputs, hidden)

    def forward(self, x: tj.Tensor) -> tuple[tj.Tensor, tj.Tensor, tj.Tensor]:
        """Results (n,), who was chosen (n, 2), and how uneven the work is divided (1 is even)."""
        scores = self.gate(x)
        if self.training:  # explore: experts that are never asked never learn
            scores = scores + 0.5 * tj.randn_like(scores)
        best, expert = scores.topk(self.chosen, dim=-1)
        weights = best.softmax(dim=-1)
        share = nn.functional.one_hot(expert, self.count).to(x.dtype).mean(dim=(0, 1))
        uneven = self.count * (share * scores.softmax(dim=-1).mean(dim=0)).sum()
        return (weights * self.experts(x, expert)).sum(dim=-1), expert, uneven


class Loss(nn.Module):
    """Squared error, and a little for uneven work."""

    def __init__(self, mixture: Mixture) -> None:
        super().__init__()
        self.mixture = mixture

    def forward(self, x: tj.Tensor, y: tj.Tensor) -> tj.Tensor:
        """The mean over a batch."""
        found, _, uneven = self.mixture(x)
        return ((found - y) ** 2).mean() + 0.01 * uneven


def target(x: np.ndarray) -> np.ndarray:
    """Another function in each quadrant."""
    a, b = x.T
    right, upper = a > 0, b > 0
    return np.select(
        [right & upper, right & ~upper, ~right & upper],
        [np.sin(3 * a), 1.5 * a * b, -b],
        np.cos(4 * b),
    ).astype(np.float32)


class Experiment:
    """Training on fresh points; batches of several sizes."""

    def __init__(self, compiled: bool) -> None:
        self.rng = np.random.default_rng(0)
        self.model = Loss(Mixture())
        self.loss = tj.compile(self.model) if compiled else self.model
        self.functions = (self.loss,)
        self.state = dict(self.model.named_parameters())
        self.optimizer = tj.optim.Adam(self.model.parameters(), lr=0.01, fused=compiled)

    def points(self, count: int) -> tuple[tj.Tensor, tj.Tensor]:
        """Uniform in a square, and the function there."""
        x = self.rng.uniform(-1, 1, (count, 2)).astype(np.float32)
        return tj.from_numpy(x), tj.from_numpy(target(x))

    def step(self) -> list[float]:
        """One step of training: the loss."""
        x, y = self.points(int(self.rng.choice([64, 128, 256])))
        self.optimizer.zero_grad()
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        return [loss.item()]


def main() -> None:
    """Train, test, and show who is asked where."""
    tj.manual_seed(0)
    training = Experiment(compiled=True)
    for number in range(1500):
        (loss,) = training.step()
        if number % 300 == 299:
            print(f"step {number + 1}: loss {loss:.4f}")
    mixture = training.model.mixture.eval()
    x, y = training.points(2000)
    with tj.no_grad():
        found, expert, _ = mixture(x)
    error = ((found - y) ** 2).mean().item() / y.var().item()
    for name, inside in {"left": x[:, 0] < 0, "right": x[:, 0] >= 0}.items():
        asked = expert[inside].flatten().bincount(minlength=mixture.count)
        print(f"asked on the {name:<6}{asked.tolist()}")
    print(f"unexplained variance {error:.3f}")
    print(training.loss.stats)
    assert error < 0.1
    assert training.loss.stats.compiled_calls > 1400


if __name__ == "__main__":
    main()
