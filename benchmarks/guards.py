"""What guards cost: ``python benchmarks/guards.py [--quick] [--json FILE]``.

A compiled call checks first that the Python state it was recorded under is still there: modules, attributes, globals,
captured tensors, the optimizer. Printed is that check for models of 1 to 100 layers, without and with an optimizer in
reach, and the share it has of a compiled call of a 4-layer MLP at batch 32. Times are CPU times of the calling thread
(kernels may still be compiled behind it), the best of several rounds.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tracejit as tj
from tracejit import nn
from tracejit.cli import output

LAYERS = (1, 10, 50, 100)
WIDTH = 16
BATCH = 32


@dataclass(frozen=True)
class Settings:
    """How often to measure."""

    rounds: int
    repeats: int

    def best(self, function: Callable[[], Any]) -> float:
        """Seconds a call, in the best round."""
        found = []
        for _ in range(self.rounds):
            start = time.thread_time()
            for _ in range(self.repeats):
                function()
            found.append((time.thread_time() - start) / self.repeats)
        return min(found)


@dataclass(frozen=True)
class Row:
    """The guard of one compiled function, in seconds."""

    what: str
    layers: int
    captured: int
    guard: float


def stack(layers: int) -> nn.Sequential:
    """Linear layers with activations in between."""
    return nn.Sequential(*(m for _ in range(layers) for m in (nn.Linear(WIDTH, WIDTH), nn.ReLU())))


def guard_of(compiled: Any) -> Any:
    """The one entry of a compiled function."""
    (entry,) = (e for entries in compiled.entries.values() for e in entries)
    return entry


def captured(entry: Any) -> int:
    """How many tensors an entry knows that are no arguments."""
    return sum(source.kind == "captured" for source in entry.signature.sources)


def forward(layers: int, settings: Settings) -> Row:
    """The guard of a model alone."""
    model, x = stack(layers), tj.randn(4, WIDTH)
    compiled = tj.compile(lambda x: model(x))
    for _ in range(3):
        compiled(x)
    entry = guard_of(compiled)
    return Row("model", layers, captured(entry), settings.best(entry.guard.holds))


def training(layers: int, settings: Settings) -> Row:
    """The guard of a training step: a model, its gradients, Adam and its state."""
    model, x = stack(layers), tj.randn(4, WIDTH)
    optimizer = tj.optim.Adam(model.parameters(), lr=1e-3)

    def step(x: tj.Tensor) -> tj.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    compiled = tj.compile(step)
    for _ in range(4):
        compiled(x)
    entry = guard_of(compiled)
    return Row("step", layers, captured(entry), settings.best(entry.guard.holds))


def share(settings: Settings) -> tuple[float, float]:
    """Guard and whole compiled call of a 4-layer MLP."""
    sizes = [64, 128, 128, 128, 10]
    layers = [m for a, b in itertools.pairwise(sizes) for m in (nn.Linear(a, b), nn.ReLU())]
    model, x = nn.Sequential(*layers[:-1]), tj.randn(BATCH, sizes[0])
    compiled = tj.compile(lambda x: model(x))
    for _ in range(4):
        compiled(x)
    return settings.best(guard_of(compiled).guard.holds), settings.best(lambda: compiled(x))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    chosen = parser.parse_args(arguments)
    settings = Settings(3, 200) if chosen.quick else Settings(9, 2000)
    rows = [measure(n, settings) for measure in (forward, training) for n in LAYERS]
    first = {row.what: row.guard for row in reversed(rows)}
    output.table(
        "guard of a compiled call",
        ("of", "layers", "captured tensors", "time", "times that of 1 layer"),
        [
            (
                r.what,
                str(r.layers),
                str(r.captured),
                output.duration(r.guard),
                f"{r.guard / first[r.what]:.2f}",
            )
            for r in rows
        ],
    )
    guard, call = share(settings)
    output.pairs(
        [
            (f"guard of a 4-layer MLP, batch {BATCH}", output.duration(guard)),
            ("its compiled call", output.duration(call)),
            ("share", f"{guard / call:.2%}"),
        ]
    )
    if chosen.json:
        figures = {"rows": [asdict(r) for r in rows], "mlp": {"guard": guard, "call": call}}
        output.write_json(chosen.json, figures)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
