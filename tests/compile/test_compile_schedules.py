"""compile(): numbers that a schedule sets, read in the call in which it does."""

from __future__ import annotations

from typing import Any

import pytest

import tracejit as tj
from tracejit import nn

READS = {
    "returned after": "plan.step(); r = opt.param_groups[0]['lr']",
    "a factor after": "plan.step(); r = x.sum() * opt.param_groups[0]['lr']",
    "a branch after": "plan.step(); r = x.sum() * (2 if opt.param_groups[0]['lr'] > 0.05 else 1)",
    "returned before": "r = opt.param_groups[0]['lr']; plan.step()",
    "the epoch after": "plan.step(); r = plan.last_epoch",
    "all of a group": "plan.step(); r = sum(v for v in opt.param_groups[0].values() if isinstance(v, float))",
}


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
