"""Read phrases as trees: a Tree-LSTM calls itself on the two halves of a phrase, and the tree is the program.

The binary Tree-LSTM of Tai, Socher and Manning (2015) on phrases of a small language of opinions. Each phrase has a
parse tree; its opinion follows from those of its parts: "not" turns one around, "very" makes it stronger, "but" lets
the second half win. The words are data; the tree, nested tuples, decides what is computed.

    python examples/tree_lstm.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tracejit as tj
from tracejit import nn

OPINIONS = {"awful": -2, "bad": -1, "dull": -1, "good": 1, "fine": 1, "superb": 2}
WORDS = [*OPINIONS, "not", "very", "and", "but"]
Tree = Any  # the number of a word, or a pair of trees


def phrase(rng: np.random.Generator, depth: int) -> tuple[Tree, int, int]:
    """A random tree over words, its opinion from -2 to 2, and how many words it has."""
    kind = rng.choice(["word", "not", "very", "and", "but"]) if depth else "word"
    if kind == "word":
        word = str(rng.choice(list(OPINIONS)))
        return WORDS.index(word), OPINIONS[word], 1
    right, opinion, count = phrase(rng, depth - 1)
    if kind == "not":
        return (WORDS.index("not"), right), -opinion, count + 1
    if kind == "very":
        return (WORDS.index("very"), right), int(np.clip(2 * opinion, -2, 2)), count + 1
    left, other, more = phrase(rng, depth - 1)
    if kind == "and":
        opinion = int(np.clip(opinion + other, -2, 2))
    return (left, (WORDS.index(str(kind)), right)), opinion, count + more + 1


def words_of(tree: Tree) -> list[int]:
    """The words from left to right."""
    return [tree] if isinstance(tree, int) else [w for half in tree for w in words_of(half)]


def shape_of(tree: Tree) -> Tree:
    """The tree without its words: one shape, one recording."""
    return None if isinstance(tree, int) else tuple(map(shape_of, tree))


class TreeLSTM(nn.Module):
    """State of a phrase from the states of its halves, with a forget gate for each half."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(WORDS), 2 * size)
        self.gates = nn.Linear(2 * size, 5 * size)
        self.head = nn.Linear(size, 5)

    def state(self, shape: Tree, leaves: Any) -> tuple[tj.Tensor, tj.Tensor]:
        """Hidden state and cell of a phrase; ``leaves`` are the embedded words still to be read."""
        if shape is None:
            cell, gate = next(leaves).chunk(2)
            return gate.sigmoid() * cell.tanh(), cell
        left, left_cell = self.state(shape[0], leaves)
        right, right_cell = self.state(shape[1], leaves)
        i, f, g, o, u = self.gates(tj.cat([left, right])).chunk(5)
        cell = i.sigmoid() * u.tanh() + f.sigmoid() * left_cell + g.sigmoid() * right_cell
        return o.sigmoid() * cell.tanh(), cell

    def forward(self, shape: Tree, words: tj.Tensor) -> tj.Tensor:
        """Scores of the five opinions."""
        hidden, _ = self.state(shape, iter(self.embedding(words).unbind(0)))
        return self.head(hidden)


class Loss(nn.Module):
    """Cross entropy of a phrase's opinion."""

    def __init__(self, model: TreeLSTM) -> None:
        super().__init__()
        self.model = model

    def forward(self, shape: Tree, words: tj.Tensor, opinion: tj.Tensor) -> tj.Tensor:
        """Of one phrase."""
        return nn.functional.cross_entropy(self.model(shape, words), opinion)


class Experiment:
    """Phrase by phrase: nothing is batched, because no two trees need to be alike."""

    def __init__(self, compiled: bool, depth: int = 2, batch: int = 8) -> None:
        self.rng, self.depth, self.batch = np.random.default_rng(0), depth, batch
        self.model = Loss(TreeLSTM(size=16))
        self.loss = tj.compile(self.model) if compiled else self.model
        self.functions = (self.loss,)
        self.state = dict(self.model.named_parameters())
        self.optimizer = tj.optim.Adam(self.model.parameters(), lr=0.01, fused=compiled)

    def step(self) -> list[float]:
        """Add up the gradients of a few phrases, then move."""
        self.optimizer.zero_grad()
        losses = []
        for _ in range(self.batch):
            tree, opinion, _ = phrase(self.rng, self.depth)
            loss = self.loss(shape_of(tree), tj.tensor(words_of(tree)), tj.tensor(opinion + 2))
            loss.backward()
            losses.append(loss.item())
        self.optimizer.step()
        return losses


def main() -> None:
    """Train, then test on phrases deeper than any in training."""
    tj.manual_seed(0)
    training = Experiment(compiled=True)
    for number in range(400):
        losses = training.step()
        if number % 100 == 99:
            print(f"step {number + 1}: loss {sum(losses) / len(losses):.3f}")
    rng, right, shown = np.random.default_rng(1), 0, 0
    with tj.no_grad():
        for _ in range(200):
            tree, opinion, count = phrase(rng, depth=3)
            scores = training.model.model(shape_of(tree), tj.tensor(words_of(tree)))
            found = int(scores.argmax()) - 2
            right += found == opinion
            if shown < 4 and count > 7:
                shown += 1
                print(f"{found:+d}  {' '.join(WORDS[w] for w in words_of(tree))}")
    shapes = len(training.loss.explain().signatures)
    print(f"opinion right for {right / 200:.0%} of new phrases, some deeper than in training")
    print(f"{shapes} tree shapes, {len(training.loss.kernels)} kernels, {training.loss.stats}")
    assert right > 150


if __name__ == "__main__":
    main()
