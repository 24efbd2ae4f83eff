"""Teach an LSTM, written by hand, a grammar: strings of every length, and what was read first decides what comes last.

The embedded Reber grammar (Hochreiter and Schmidhuber, 1997): B, then T or P, then a string of Reber's grammar, then
the same T or P again, then E. Only a memory over the whole string can tell the last choice. The loop over time steps
is ordinary Python; batches are as long as their longest string.

    python examples/sequence_lstm.py
"""

from __future__ import annotations

import numpy as np

import tracejit as tj
from tracejit import nn

SYMBOLS = "BTPSXVE"
IGNORED = -100
#: Reber (1967): per state the symbols that may follow, and the state each leads to.
GRAMMAR = {
    0: {"B": 1},
    1: {"T": 2, "P": 3},
    2: {"S": 2, "X": 4},
    3: {"T": 3, "V": 5},
    4: {"X": 3, "S": 6},
    5: {"P": 4, "V": 6},
    6: {"E": 7},
}


def reber(rng: np.random.Generator) -> str:
    """A random string of the grammar."""
    text, state = "", 0
    while state in GRAMMAR:
        symbol = str(rng.choice(list(GRAMMAR[state])))
        text, state = text + symbol, GRAMMAR[state][symbol]
    return text


def embedded(rng: np.random.Generator, longest: int = 24) -> str:
    """A random string of the embedded grammar."""
    while True:
        branch = str(rng.choice(["T", "P"]))
        text = f"B{branch}{reber(rng)}{branch}E"
        if len(text) <= longest:
            return text


class LSTM(nn.Module):
    """One cell, applied symbol by symbol (Hochreiter and Schmidhuber, 1997; forget gates: Gers et al., 2000)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.embedding = nn.Embedding(len(SYMBOLS), size)
        self.gates = nn.Linear(2 * size, 4 * size)
        self.head = nn.Linear(size, len(SYMBOLS))

    def forward(self, symbols: tj.Tensor) -> tj.Tensor:
        """Scores of the symbol that follows each prefix: (batch, time) to (batch, time, symbols)."""
        hidden = cell = tj.zeros(symbols.shape[0], self.size)
        outputs = []
        for x in self.embedding(symbols).unbind(1):
            i, f, g, o = self.gates(tj.cat([x, hidden], dim=1)).chunk(4, dim=1)
            cell = (f + 1).sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
            outputs.append(hidden)
        return self.head(tj.stack(outputs, dim=1))


class Loss(nn.Module):
    """Cross entropy of the next symbol."""

    def __init__(self, lstm: LSTM) -> None:
        super().__init__()
        self.lstm = lstm

    def forward(self, symbols: tj.Tensor, following: tj.Tensor) -> tj.Tensor:
        """The mean over all positions that are not padding."""
        scores = self.lstm(symbols)
        return nn.functional.cross_entropy(
            scores.flatten(0, 1), following.flatten(), ignore_index=IGNORED
        )


def padded(texts: list[str]) -> tuple[tj.Tensor, tj.Tensor]:
    """Symbols and the symbols that follow, as numbers: (batch, longest - 1) each."""
    longest = max(map(len, texts))
    numbers = np.full((len(texts), longest), IGNORED)
    for row, text in zip(numbers, texts, strict=True):
        row[: len(text)] = [SYMBOLS.index(symbol) for symbol in text]
    read = np.maximum(numbers[:, :-1], 0)
    return tj.from_numpy(read), tj.from_numpy(np.ascontiguousarray(numbers[:, 1:]))


class Experiment:
    """Batches of strings in order of length, so that lengths differ from batch to batch."""

    def __init__(self, compiled: bool, batch: int = 16) -> None:
        self.rng = np.random.default_rng(0)
        self.model = Loss(LSTM(size=24))
        self.loss = tj.compile(self.model) if compiled else self.model
        self.functions = (self.loss,)
        self.state = dict(self.model.named_parameters())
        self.optimizer = tj.optim.Adam(self.model.parameters(), lr=0.01, fused=compiled)
        self.batch = batch
        self.batches: list[list[str]] = []

    def next_batch(self) -> list[str]:
        """Strings of similar length."""
        if not self.batches:
            texts = sorted((embedded(self.rng) for _ in range(32 * self.batch)), key=len)
            found = [texts[i : i + self.batch] for i in range(0, len(texts), self.batch)]
            self.batches = [found[i] for i in self.rng.permutation(len(found))]
        return self.batches.pop()

    def step(self) -> list[float]:
        """One step of training: the loss."""
        symbols, following = padded(self.next_batch())
        self.optimizer.zero_grad()
        loss = self.loss(symbols, following)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return [loss.item()]


def remembered(lstm: LSTM, texts: list[str]) -> float:
    """Share of the strings whose last choice is foreseen: of T and P, the one read at the start scores higher."""
    symbols, _ = padded(texts)
    with tj.no_grad():
        last = lstm(symbols)[tj.arange(len(texts)), tj.tensor([len(text) - 3 for text in texts])]
    found = last[:, SYMBOLS.index("T")] > last[:, SYMBOLS.index("P")]
    return sum(a == (b[1] == "T") for a, b in zip(found.tolist(), texts, strict=True)) / len(texts)


def main() -> None:
    """Train, then test on strings the model has not seen."""
    tj.manual_seed(0)
    training = Experiment(compiled=True)
    for number in range(450):
        (loss,) = training.step()
        if number % 90 == 89:
            print(f"step {number + 1}: loss {loss:.3f}")
    rng = np.random.default_rng(1)
    share = remembered(training.model.lstm, [embedded(rng) for _ in range(200)])
    print(f"last choice foreseen in {share:.0%} of new strings")
    signatures = len(training.loss.explain().signatures)
    print(f"{signatures} lengths, {len(training.loss.kernels)} kernels, {training.loss.stats}")
    assert share > 0.95
    assert training.loss.stats.compiled_calls > 400


if __name__ == "__main__":
    main()
