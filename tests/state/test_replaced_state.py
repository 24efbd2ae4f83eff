"""State that a program replaces from time to time: meters made for every epoch, sums that begin anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from tracejit.trace.numbers import uses

STEPS = 40


class Meter:
    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, value: float) -> None:
        self.total += value
        self.count += 1


class Trainer:
    def __init__(self, update: Callable[[Trainer, float], None]) -> None:
        self.update = update
        self.weight = tj.ones(3)
        self.begin()

    def begin(self) -> None:
        self.meter = Meter()
        self.sums = {"loss": 0.0, "count": 0}
        self.found: dict[str, float] = {}
        self.history: list[float] = []

    def step(self, x: Any) -> Any:
        loss = (self.weight * x).sum()
        self.update(self, loss.item())
        return loss


def of_meter(trainer: Trainer, value: float) -> None:
    trainer.meter.update(value)


def of_dict(trainer: Trainer, value: float) -> None:
    trainer.sums["loss"] += value
    trainer.sums["count"] += 1


def of_new_keys(trainer: Trainer, value: float) -> None:
    trainer.found["loss"] = trainer.found.get("loss", 0.0) + value


def of_list(trainer: Trainer, value: float) -> None:
    trainer.history.append(value)


def epochs(update: Callable[[Trainer, float], None], count: int) -> tuple[list[int], Any]:
    """How many calls of each epoch were compiled, and the compiled step."""
    trainer, other = Trainer(update), Trainer(update)
    step = tj.compile(trainer.step)
    found = []
    for _ in range(count):
        trainer.begin()
        other.begin()
        before = step.stats.compiled_calls
        for i in range(STEPS):
            x = tj.full((3,), float(i))
            assert step(x).item() == other.step(x).item()
        found.append(step.stats.compiled_calls - before)
        assert vars(trainer.meter) == vars(other.meter)
        for name in ("sums", "found", "history"):
            assert getattr(trainer, name) == getattr(other, name)
    return found, step


@pytest.mark.parametrize("update", [of_meter, of_dict, of_new_keys, of_list])
def test_every_epoch_is_compiled(update: Any) -> None:
    found, _ = epochs(update, 14)
    assert min(found) >= STEPS - 6


def test_more_epochs_than_places(monkeypatch: Any) -> None:
    monkeypatch.setattr(uses, "MAX_PLACES", 8)
    found, step = epochs(of_meter, 12)
    assert min(found) >= STEPS - 6
    assert len(step.uses.places) <= 8


def test_state_that_is_replaced_too_often_is_left_alone() -> None:
    trainer = Trainer(of_meter)
    step = tj.compile(trainer.step)
    for i in range(120):
        if i % 4 == 0:
            trainer.begin()
        step(tj.ones(3))
    assert step.stats.recordings < 30
