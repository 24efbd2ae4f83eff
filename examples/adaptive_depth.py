"""Think until confident: a network repeats one layer until it is sure of every answer, so depth depends on the data.

Two spirals, one class each. After every round of thought, examples with a confident answer keep it; when nobody is
left, or patience runs out, thinking ends (an idea of Graves, 2016). The rounds become one loop, for any depth.

    python examples/adaptive_depth.py
"""

from __future__ import annotations

import numpy as np

import tracejit as tj
from tracejit import nn

PATIENCE = 12


class Thinker(nn.Module):
    """A recurrent thought about a point, and an opinion after every round."""

    def __init__(self, size: int = 32, confidence: float = 0.99) -> None:
        super().__init__()
        self.confidence = confidence
        self.see = nn.Linear(2, size)
        self.think = nn.Linear(size, size)
        self.norm = nn.LayerNorm(size)
        self.decide = nn.Linear(size, 2)

    def forward(self, x: tj.Tensor) -> tuple[tj.Tensor, tj.Tensor]:
        """Scores of the two classes (n, 2), and how many rounds each example took (n,)."""
        seen = self.see(x)
        thought = seen.tanh()
        scores = tj.zeros(x.shape[0], 2)
        rounds = tj.zeros(x.shape[0])
        open_ = tj.ones(x.shape[0], dtype=tj.bool)
        for _ in range(PATIENCE):
            thought = thought + self.norm(self.think(thought) + seen).tanh()
            opinion = self.decide(thought)
            scores = tj.where(open_.unsqueeze(1), opinion, scores)
            rounds = rounds + open_
            open_ = open_ & (opinion.softmax(dim=1).amax(dim=1) < self.confidence)
            if not open_.any():
                break
        return scores, rounds


class Loss(nn.Module):
    """Cross entropy of the final scores."""

    def __init__(self, thinker: Thinker) -> None:
        super().__init__()
        self.thinker = thinker

    def forward(self, x: tj.Tensor, labels: tj.Tensor) -> tuple[tj.Tensor, tj.Tensor]:
        """The mean over a batch, and the mean number of rounds."""
        scores, rounds = self.thinker(x)
        return nn.functional.cross_entropy(scores, labels), rounds.mean()


def spirals(
    rng: np.random.Generator, count: int, turns: float = 1.25
) -> tuple[tj.Tensor, tj.Tensor]:
    """Points on two spirals with a little noise, and which one each is on."""
    labels = rng.integers(0, 2, count)
    radius = np.sqrt(rng.uniform(0.05, 1, count))
    angle = 2 * np.pi * turns * radius + np.pi * labels
    points = radius * np.stack([np.cos(angle), np.sin(angle)])
    noisy = points.T + rng.normal(0, 0.02, (count, 2))
    return tj.from_numpy(noisy.astype(np.float32)), tj.from_numpy(labels)


class Experiment:
    """Training on fresh points."""

    def __init__(self, compiled: bool, batch: int = 64) -> None:
        self.rng, self.batch = np.random.default_rng(0), batch
        self.model = Loss(Thinker())
        self.loss = tj.compile(self.model) if compiled else self.model
        self.functions = (self.loss,)
        self.state = dict(self.model.named_parameters())
        self.optimizer = tj.optim.Adam(self.model.parameters(), lr=3e-3, fused=compiled)

    def step(self) -> list[float]:
        """One step of training: the loss, and the mean number of rounds."""
        self.optimizer.zero_grad()
        loss, rounds = self.loss(*spirals(self.rng, self.batch))
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return [loss.item(), rounds.item()]


def main() -> None:
    """Train, then look at who needed how long."""
    tj.manual_seed(0)
    training = Experiment(compiled=True)
    for number in range(1000):
        loss, rounds = training.step()
        if number % 200 == 199:
            print(f"step {number + 1}: loss {loss:.3f}, {rounds:.1f} rounds")
    x, labels = spirals(np.random.default_rng(1), 1000)
    with tj.no_grad():
        scores, rounds = training.model.thinker(x)
    right = scores.argmax(dim=1) == labels
    for number in range(1, int(rounds.max()) + 1):
        group = right[rounds == number]
        if len(group):
            print(
                f"{number:2} rounds: {len(group):4} examples, {group.float().mean().item():.1%} right"
            )
    accuracy = right.float().mean().item()
    print(f"test accuracy {accuracy:.1%}; {training.loss.stats}")
    assert accuracy > 0.95
    assert rounds.max() > rounds.min()
    assert training.loss.stats.compiled_calls > 950


if __name__ == "__main__":
    main()
