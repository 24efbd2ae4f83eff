"""compile(): numbers that a schedule sets, read in the call in which it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn
from tracejit.optim import lr_scheduler as lrs

READS = {
    "returned after": "plan.step(); r = opt.param_groups[0]['lr']",
    "a factor after": "plan.step(); r = x.sum() * opt.param_groups[0]['lr']",
    "a branch after": "plan.step(); r = x.sum() * (2 if opt.param_groups[0]['lr'] > 0.05 else 1)",
    "returned before": "r = opt.param_groups[0]['lr']; plan.step()",
    "the epoch after": "plan.step(); r = plan.last_epoch",
    "all of a group": "plan.step(); r = sum(v for v in opt.param_groups[0].values() if isinstance(v, float))",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("schedule", ["StepLR(opt, 2, 0.5)", "ExponentialLR(opt, 0.9)"])
def test_numbers_of_a_schedule_are_not_stale(read: str, schedule: str) -> None:
    ways = []
    for compiled in (False, True):
        tj.manual_seed(0)
        model = nn.Linear(3, 4)
        opt = tj.optim.SGD(model.parameters(), lr=0.1)
        space: dict[str, Any] = {"model": model, "opt": opt}
        exec(f"import tracejit as tj\nplan = tj.optim.lr_scheduler.{schedule}", space)
        text = (
            "def step(x):\n    opt.zero_grad()\n    model(x).square().mean().backward()\n    opt.step()\n"
            f"    {READS[read]}\n    return r"
        )
        exec(text, space)
        step = tj.compile(space["step"]) if compiled else space["step"]
        ways.append([float(step(tj.ones(2, 3) * (k % 3 + 1))) for k in range(9)])
    assert ways[1] == pytest.approx(ways[0], rel=1e-6)


def test_a_step_beside_a_schedule_that_nobody_reads_is_compiled() -> None:
    model = nn.Linear(3, 4)
    opt = tj.optim.SGD(model.parameters(), lr=0.1)
    plan = tj.optim.lr_scheduler.StepLR(opt, 2, 0.5)

    @tj.compile
    def step(x: tj.Tensor) -> tj.Tensor:
        opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        plan.step()
        return loss.detach()

    for _ in range(6):
        step(tj.ones(2, 3))
    assert step.stats.compiled_calls == 5
    assert opt.param_groups[0]["lr"] == pytest.approx(0.1 / 8)


EPOCHS = {"a fraction": "epoch + 0.25", "whole": "epoch", "an element": "(x.sum() / 6).item()"}


@pytest.mark.parametrize("told", EPOCHS)
@pytest.mark.parametrize("schedule", ["CosineAnnealingWarmRestarts(opt, 3, 2)", "StepLR(opt, 2)"])
@pytest.mark.filterwarnings("ignore:The epoch parameter")
def test_a_step_to_an_epoch_that_varies_goes_there(told: str, schedule: str) -> None:
    ways = []
    for compiled in (False, True):
        weight = tj.nn.Parameter(tj.ones(3))
        opt = tj.optim.SGD([weight], lr=0.1)
        space: dict[str, Any] = {"weight": weight, "opt": opt}
        exec(f"import tracejit as tj\nplan = tj.optim.lr_scheduler.{schedule}", space)
        text = (
            "def step(x, epoch):\n    opt.zero_grad()\n    (weight * x).square().mean().backward()\n    opt.step()\n"
            f"    plan.step({EPOCHS[told]})"
        )
        exec(text, space)
        step = tj.compile(space["step"]) if compiled else space["step"]
        seen = []
        for epoch in (1, 2, 4, 3, 7, 8):
            step(tj.full((2, 3), float(epoch)), epoch)
            last = space["plan"].last_epoch
            seen.append((opt.param_groups[0]["lr"], last, type(last)))
        ways.append(seen)
    assert ways[1] == ways[0]
    if compiled and told != "an element":
        assert step.stats.compiled_calls >= 3


METRICS = {
    "a tensor": ("plan.step(loss.detach())", True),
    "its number": ("plan.step(loss.item())", True),
    "a whole number": ("plan.step((loss * 4).long())", True),
    "an argument": ("plan.step(number)", True),
    "two steps": ("plan.step(loss); plan.step(2 * loss.item())", True),
    "a rate that is read after": ("plan.step(loss); r = plan.get_last_lr()", True),
    "not a number": ("plan.step(loss * float('nan'))", True),
    "what a step sets": ("plan.step(loss); r = plan.num_bad_epochs", True),
    "cooling down": ("plan.step(loss); r = plan.in_cooldown", False),
    "an epoch": ("plan.step(loss, 3)", False),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", ["patience=1, cooldown=2", "patience=0, mode='max'"])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.filterwarnings("ignore:The epoch parameter")
def test_plateaus_are_found_by_metrics_of_the_call(metric: str, options: str) -> None:
    done, compiles = METRICS[metric]
    ways = []
    for compiled in (False, True):
        weight = tj.nn.Parameter(tj.ones(3))
        opt = tj.optim.SGD([weight], lr=0.1)
        space: dict[str, Any] = {"weight": weight, "opt": opt}
        plan = tj.optim.lr_scheduler.ReduceLROnPlateau
        exec(f"plan = kind(opt, {options})", space | {"kind": plan}, space)
        text = (
            "def step(x, number):\n    r = None\n    opt.zero_grad()\n"
            "    loss = (weight * x).square().mean()\n    loss.backward()\n    opt.step()\n"
            f"    {done}\n    return r"
        )
        exec(text, space)
        step = tj.compile(space["step"]) if compiled else space["step"]
        seen = []
        for k in range(14):
            found = step(tj.full((3,), 1.0 + (k * 7 % 5) / 4), 1.0 + (k * 3 % 4))
            seen.append((found, opt.param_groups[0]["lr"], space["plan"].state_dict()))
        ways.append(seen)
        assert not compiled or (step.stats.compiled_calls > 9) is compiles
    assert str(ways[1]) == str(ways[0])


def test_a_plateau_with_a_bound_missing_is_an_error() -> None:
    weight, more = tj.nn.Parameter(tj.ones(3)), tj.nn.Parameter(tj.ones(1))
    opt = tj.optim.SGD([weight], lr=0.1)
    plan = tj.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1, min_lr=[0.01])

    @tj.compile
    def step(x: tj.Tensor) -> None:
        opt.zero_grad()
        (weight * x).sum().backward()
        opt.step()
        plan.step(2.0)

    for _ in range(2):
        step(tj.ones(3))
    opt.add_param_group({"params": [more]})
    for _ in range(3):
        with pytest.raises(RuntimeError, match="min_lrs has 1 values for 2"):
            step(tj.ones(3))


def chained(x: tj.Tensor, rate: float) -> tj.Tensor:
    optimizer = tj.optim.SGD([tj.nn.Parameter(tj.zeros(1))], lr=rate)
    decay = lrs.ExponentialLR(optimizer, 0.9)
    optimizer.step()
    lrs.ChainedScheduler([decay, lrs.ConstantLR(optimizer, 1.0)]).step()
    return x * optimizer.param_groups[0]["lr"]


def in_turn(x: tj.Tensor, rate: float) -> tj.Tensor:
    weight = tj.nn.Parameter(tj.zeros(1))
    optimizer = tj.optim.SGD([weight], lr=rate)
    parts = [lrs.ExponentialLR(optimizer, 0.9), lrs.ExponentialLR(optimizer, 0.5)]
    schedule = lrs.SequentialLR(optimizer, parts, milestones=[2])
    for _ in range(3):
        (weight * x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return weight.detach().clone()


class Own(lrs.LRScheduler):
    """A schedule that does all that the base class does when it is made."""

    def __init__(self, optimizer: tj.optim.Optimizer) -> None:
        self.optimizer, self.last_epoch, self._step_count = optimizer, 0, 1

    def get_lr(self) -> list[float]:
        return [group["lr"] * 0.5 for group in self.optimizer.param_groups]


def own(x: tj.Tensor, rate: float) -> tj.Tensor:
    optimizer = tj.optim.SGD([tj.nn.Parameter(tj.zeros(1))], lr=rate)
    schedule = Own(optimizer)
    optimizer.step()
    schedule.step()
    return x * optimizer.param_groups[0]["lr"]


@pytest.mark.parametrize("f", [chained, in_turn, own], ids=lambda f: f.__name__)
def test_schedules_made_inside_begin_anew_in_every_call(f: Callable[..., tj.Tensor]) -> None:
    compiled, x = tj.compile(f), tj.ones(1)
    for rate in (0.1, 0.1, 0.1, 1.0, 10.0, 0.1):
        np.testing.assert_allclose(compiled(x, rate).numpy(), f(x, rate).numpy(), rtol=1e-6)


def test_a_plateau_made_inside_for_an_optimizer_from_outside_begins_anew() -> None:
    found = []
    for compiled in (False, True):
        weight = tj.nn.Parameter(tj.zeros(1))
        optimizer = tj.optim.SGD([weight], lr=1.0)

        def f(x: tj.Tensor, optimizer: tj.optim.Optimizer = optimizer) -> tj.Tensor:
            plateau = lrs.ReduceLROnPlateau(optimizer, patience=1)
            plateau.step(1.0)
            plateau.step(2.0)
            return x * optimizer.param_groups[0]["lr"]

        run = tj.compile(f) if compiled else f
        found.append([run(tj.ones(1)).item() for _ in range(4)])
    assert found == [[1.0] * 4] * 2
