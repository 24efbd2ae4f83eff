"""Resident memory over many steps and many shapes: ``python benchmarks/memory.py`` (Linux).

Trains a small compiled classifier for 10,000 steps, then calls a compiled function with 1,000 distinct shapes, and
prints the resident memory before, on the way and after.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tracejit as tj
from tracejit import nn


def resident() -> float:
    """Resident memory of this process in MiB."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(s for s in text.splitlines() if s.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def steps(count: int) -> None:
    """Training steps of one compiled model."""
    tj.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 10))
    criterion = nn.CrossEntropyLoss()
    objective = tj.compile(lambda x, y: criterion(model(x), y))
    optimizer = tj.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    rng = np.random.default_rng(0)
    x = tj.tensor(rng.standard_normal((64, 64)).astype(np.float32))
    y = tj.tensor(rng.integers(0, 10, 64))
    for step in range(count + 1):
        optimizer.zero_grad()
        objective(x, y).backward()
        optimizer.step()
        if step in (100, count // 2, count):
            print(f"step {step}: {resident():.1f} MiB")


def shapes(count: int) -> None:
    """One compiled function at many shapes."""
    function = tj.compile(lambda x: (x * 2 + 1).tanh().sum())
    for size in range(1, count + 1):
        for _ in range(2):
            x = tj.ones(size, requires_grad=True)
            function(x).backward()
        if size in (count // 10, 300, count // 2, count):
            print(f"shape {size}: {resident():.1f} MiB")


if __name__ == "__main__":
    steps(10_000)
    shapes(1_000)
