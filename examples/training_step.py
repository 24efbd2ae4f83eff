"""A whole training step as one program: gradients, clipping, AdamW and a schedule inside one compiled function.

python examples/training_step.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tracejit as tj
from tracejit import nn

STEPS, BATCH = 400, 64


def spirals(count: int, seed: int) -> tuple[Any, Any]:
    """Points on two interleaved spirals, and which one each is on."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, count)
    turn = rng.uniform(0.3, 1.0, count)
    angle = 3 * np.pi * turn + np.pi * label
    points = np.stack([turn * np.cos(angle), turn * np.sin(angle)], 1)
    points += rng.normal(0, 0.02, points.shape)
    return tj.from_numpy(points.astype(np.float32)), tj.from_numpy(label)


def trainer(compiled: bool) -> tuple[Callable[[Any, Any], Any], Any]:
    """A step function and its model; twins start alike."""
    tj.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)
    )
    optimizer = tj.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = tj.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        return loss

    return (tj.compile(step) if compiled else step), model


def train(compiled: bool) -> tuple[Any, Any, float]:
    """Train on the same batches; the step, the model and the seconds of the last half."""
    step, model = trainer(compiled)
    start = 0.0
    for number in range(STEPS):
        if number == STEPS // 2:
            start = time.perf_counter()
        step(*spirals(BATCH, number))
    return step, model, time.perf_counter() - start


def main() -> None:
    """Train eager and compiled, and compare."""
    _, eager, slow = train(compiled=False)
    step, model, fast = train(compiled=True)
    x, y = spirals(1000, -1 % 2**32)
    right = [(m(x).argmax(1) == y).float().mean().item() for m in (eager, model)]
    print(step.explain())
    print(f"test accuracy: eager {right[0]:.3f}, compiled {right[1]:.3f}")
    print(f"{STEPS // 2} steps with their data: eager {slow:.2f} s, compiled {fast:.2f} s")
    assert step.stats.recordings == 1
    assert step.stats.compiled_calls == STEPS - 1
    assert min(right) > 0.97
    assert model[0].weight.grad is not None


if __name__ == "__main__":
    main()
