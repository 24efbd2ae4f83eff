"""compile(): training steps that set the hyperparameters of their optimizers, and that read what others set."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn
from training_tools import OPTIMIZERS, Job, assert_alike, batch, follow, train


def decay(job: Job) -> None:
    for group in job.optimizer.param_groups:
        group["lr"] *= 0.9


def counted(job: Job) -> None:
    job.count = getattr(job, "count", 0) + 1
    lr = 0.05 * (1 + math.cos(math.pi * job.count / 20))
    for group in job.optimizer.param_groups:
        group["lr"] = lr


def warmed_up(job: Job) -> None:
    job.count = getattr(job, "count", 0) + 1
    lr = 0.1 * job.count / 4 if job.count < 4 else 0.1 / math.sqrt(job.count)
    for group in job.optimizer.param_groups:
        group["lr"] = lr


def the_same(job: Job) -> None:
    for group in job.optimizer.param_groups:
        group.update(lr=0.05)


def weighted(job: Job) -> None:
    group = job.optimizer.param_groups[0]
    if "weight_decay" in group:
        group["weight_decay"] = 0.5 * group["lr"]


WAYS: dict[str, Callable[[Job], None]] = {
    f.__name__: f for f in (decay, counted, warmed_up, the_same, weighted)
}


@pytest.mark.sampled(36)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_numbers_set_before_a_step(optimizer: str, way: str) -> None:
    def step(job: Job, x: Any, y: Any) -> Any:
        WAYS[way](job)
        return train(job, x, y)

    eager, compiled = (Job(optimizer, step=step) for _ in range(2))
    if way == "the_same":
        for job in (eager, compiled):
            job.optimizer.param_groups[0]["lr"] = 0.05
    follow(eager, compiled.compiled(), 9)
    if not (way == "weighted" and optimizer in ("sgd", "momentum", "nesterov", "adam", "early")):
        assert compiled.stats.compiled_calls >= 4, compiled.run.explain()


def test_numbers_set_between_steps_and_read_again() -> None:
    def step(job: Job, x: Any, y: Any) -> Any:
        group = job.optimizer.param_groups[0]
        first = train(job, x, y)
        group["lr"] = group["lr"] * 0.5
        train(job, x, y)
        group["lr"] = group["lr"] * 1.5
        return first * group["lr"]

    eager, compiled = (Job("momentum", step=step) for _ in range(2))
    follow(eager, compiled.compiled(), 8)
    assert compiled.stats.compiled_calls >= 4, compiled.run.explain()


def test_steps_of_a_loop_with_a_number_that_varies() -> None:
    def step(job: Job, x: Any, y: Any) -> Any:
        for k in range(5):
            job.optimizer.param_groups[0]["lr"] = 0.1 / (
                job.optimizer.param_groups[0]["lr"] + k + 1
            )
            loss = train(job, x, y)
        return loss

    eager, compiled = (Job("adam", step=step) for _ in range(2))
    follow(eager, compiled.compiled(), 6)
    assert compiled.stats.compiled_calls >= 3, compiled.run.explain()


def test_each_group_has_its_own() -> None:
    def make() -> Any:
        tj.manual_seed(0)
        layer = nn.Linear(5, 3)
        groups = [{"params": [layer.weight]}, {"params": [layer.bias], "lr": 0.3}]
        optimizer = tj.optim.AdamW(groups, lr=0.1)

        def step(x: Any, y: Any, lr: float) -> Any:
            for i, group in enumerate(optimizer.param_groups):
                group["lr"] = lr * (i + 1)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(layer(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach(), [group["lr"] for group in optimizer.param_groups]

        return layer, step

    (one, eager), (other, plain) = make(), make()
    compiled = tj.compile(plain)
    for k in range(8):
        x, y = batch(k)
        (loss, rates), (found, others) = eager(x, y, 0.1 / (k + 1)), compiled(x, y, 0.1 / (k + 1))
        assert rates == others
        assert found.item() == pytest.approx(loss.item(), rel=1e-5)
        np.testing.assert_allclose(one.weight.detach(), other.weight.detach(), rtol=1e-4, atol=1e-6)
    assert compiled.stats.compiled_calls == 5


def test_numbers_that_others_set_are_read_without_a_recording_each() -> None:
    def step(job: Job, x: Any, y: Any) -> Any:
        return train(job, x, y) * job.optimizer.param_groups[0]["lr"]

    eager, compiled = (Job("adam", step=step) for _ in range(2))
    compiled.compiled()
    for k in range(10):
        for job in (eager, compiled):
            job.optimizer.param_groups[0]["lr"] = 0.1 / (k + 1)
        follow(eager, compiled, 1, start=k)
    assert compiled.stats.recordings <= 3
    assert compiled.stats.compiled_calls >= 7


def test_what_else_is_put_in_its_place_meanwhile_is_seen() -> None:
    eager, compiled = (
        Job("adam", step=lambda job, x, y: (the_same(job), train(job, x, y))[1]) for _ in range(2)
    )
    for job in (eager, compiled):
        job.optimizer.param_groups[0]["lr"] = 0.05
    follow(eager, compiled.compiled(), 3)
    for job in (eager, compiled):
        job.optimizer.param_groups[0]["lr"] = 0.5
    follow(eager, compiled, 4, start=3)


REFUSED = {
    "a pair": "group['betas'] = (0.5, 0.9)",
    "a flag": "group['amsgrad'] = True",
    "a new formula": "group['weight_decay'] = 0.3",
    "a tensor": "group['lr'] = tj.tensor(0.3)",
    "beside a schedule": "group['lr'] = group['lr'] * 0.5; plan.step()",
    "beside a schedule, ahead of a step": "group['lr'] = 0.3; plan.step(); loss = loss + train(job, x, y)",
    "carried": "group['lr'] = group['lr'] * 0.5; loss = loss + train(job, x, y)",
    "after a schedule": "plan.step(); group['lr'] = group['lr'] * 0.5",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_more_than_a_number_runs_eagerly(what: str) -> None:
    ways = []
    for compiled in (False, True):
        job = Job("adam")
        if what == "carried":
            job.optimizer = tj.optim.ASGD(job.model.parameters(), lr=0.1)
        plan = tj.optim.lr_scheduler.ExponentialLR(job.optimizer, 0.9)
        space = {"job": job, "train": train, "tj": tj, "plan": plan}
        text = (
            "def step(x, y):\n    loss = train(job, x, y)\n"
            f"    group = job.optimizer.param_groups[0]\n    {REFUSED[what]}\n    return loss"
        )
        exec(text, space)
        run: Any = tj.compile(space["step"]) if compiled else space["step"]
        for k in range(5):
            run(*batch(k))
        ways.append(job)
        if compiled and ("schedule" in what or what in ("a tensor", "carried")):
            assert run.stats.compiled_calls == 0, run.explain()
    assert_alike(*ways)
