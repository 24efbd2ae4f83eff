"""Compiled steps that read what schedules set in them, and go on with it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn, optim
from tracejit.optim import lr_scheduler as lrs


def warm_up(epoch: int, *, steps: int) -> float:
    return min(1.0, float(epoch + 1) / float(max(1, steps)))


class Warming:
    """A schedule's function that is an object of the user's."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, epoch: int) -> float:
        self.asked += 1
        return 0.5**epoch


MAKE: dict[str, Any] = {
    "steps": lambda o: lrs.StepLR(o, 3, 0.5),
    "cosine": lambda o: lrs.CosineAnnealingLR(o, 10),
    "restarts": lambda o: lrs.CosineAnnealingWarmRestarts(o, 3, 2),
    "one cycle": lambda o: lrs.OneCycleLR(o, max_lr=0.1, total_steps=100),
    "cyclic": lambda o: lrs.CyclicLR(o, 0.01, 0.1, 4),
    "warming up": lambda o: lrs.LambdaLR(o, partial(warm_up, steps=5)),
    "sequential": lambda o: lrs.SequentialLR(
        o, [lrs.ConstantLR(o, 0.1, 3), lrs.ExponentialLR(o, 0.9)], [3]
    ),
    "chained": lambda o: lrs.ChainedScheduler([lrs.LinearLR(o), lrs.ExponentialLR(o, 0.9)]),
}


class World:
    def __init__(self, make: Any) -> None:
        tj.manual_seed(0)
        self.model = nn.Linear(3, 2)
        self.opt = optim.SGD(self.model.parameters(), lr=0.1, momentum=0.5)
        self.plan = make(self.opt)
        self.lr, self.low, self.rates = 0.0, 0, list[float]()

    def train(self, x: Any) -> Any:
        self.opt.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.opt.step()
        self.plan.step()
        return loss.detach()

    # --- what steps do with rates ---

    def returned(self, x: Any) -> Any:
        return self.train(x), self.opt.param_groups[0]["lr"]

    def before(self, x: Any) -> Any:
        rate = self.opt.param_groups[0]["lr"]
        return self.train(x) * rate, rate

    def both(self, x: Any) -> Any:
        rate = self.opt.param_groups[0]["lr"]
        loss = self.train(x)
        return loss, self.opt.param_groups[0]["lr"] - rate

    def every(self, x: Any) -> Any:
        return self.train(x), [group["lr"] for group in self.opt.param_groups]

    def told(self, x: Any) -> Any:
        return self.train(x) * self.plan.get_last_lr()[0]

    def stored(self, x: Any) -> Any:
        loss = self.train(x)
        self.lr = self.opt.param_groups[0]["lr"]
        return loss

    def told_and_stored(self, x: Any) -> Any:
        loss = self.train(x)
        self.lr = self.plan.get_last_lr()[0]
        return loss

    def appended(self, x: Any) -> Any:
        loss = self.train(x)
        self.rates.append(self.opt.param_groups[0]["lr"])
        return loss

    def decided(self, x: Any) -> Any:
        loss = self.train(x)
        if self.opt.param_groups[0]["lr"] < 0.05:
            return loss * 2
        return loss

    def epochs(self, x: Any) -> Any:
        return self.train(x), getattr(self.plan, "last_epoch", 0)

    def several(self, x: Any) -> Any:
        """An epoch of three batches, each with a step of the schedule."""
        losses = [self.train(x * k) for k in (1, 2, 3)]
        return sum(losses), self.plan.get_last_lr()[0]

    def momentum(self, x: Any) -> Any:
        return self.train(x), self.opt.param_groups[0]["momentum"]


STEPS = [name for name in vars(World) if not name.startswith("_") and name != "train"]


def plain(x: Any) -> Any:
    if isinstance(x, tj.Tensor):
        return x.tolist()
    return [plain(v) for v in x] if isinstance(x, (list, tuple)) else x


def close(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, str):
        return bool(a == b)
    return type(a) is type(b) and a == pytest.approx(b, rel=1e-4, abs=1e-6)


def seen(step: str, make: Any, way: str, calls: int = 12) -> tuple[list[Any], Any, Any]:
    world, found = World(make), []
    run = f = getattr(world, step)
    if way != "eager":
        f = tj.compile(run, verify=way == "verify")
    for call in range(calls):
        made = plain(f(tj.ones(2, 3) * (call % 3 + 1)))
        group, plan = world.opt.param_groups[0], world.plan
        epoch = getattr(plan, "last_epoch", 0)  # which chained ones have none of
        state = [group["lr"], group["momentum"], epoch, plan._last_lr]
        found.append([made, world.lr, list(world.rates), *state])
        assert (type(group["lr"]), type(epoch)) == (float, int)
    return found, f, world


@pytest.mark.sampled(8)
@pytest.mark.parametrize("make", MAKE)
@pytest.mark.parametrize("step", STEPS)
def test_what_schedules_set_is_read_in_the_same_call(step: str, make: str) -> None:
    expected, *_ = seen(step, MAKE[make], "eager")
    found, f, _ = seen(step, MAKE[make], "compiled")
    assert close(found, expected)
    if step != "several" or "cycl" not in make:
        assert f.stats.compiled_calls >= 6, f.explain()


@pytest.mark.parametrize("step", ["both", "stored", "several", "told"])
def test_tried_steps_are_taken_back(step: str) -> None:
    found, *_ = seen(step, MAKE["cosine"], "verify")
    expected, *_ = seen(step, MAKE["cosine"], "eager")
    assert close(found, expected)


def test_a_function_of_the_users_is_asked_as_often_as_in_eager_code() -> None:
    for step in ("returned", "told", "several"):
        ways = []
        for way in ("eager", "compiled"):
            kept = Warming()
            found, *_ = seen(step, lambda o, kept=kept: lrs.LambdaLR(o, kept), way)
            ways.append((found, kept.asked))
        assert close(ways[1], ways[0])


def test_a_schedule_that_is_over_ends_the_call_where_it_steps() -> None:
    ways = []
    for way in (False, True):
        world = World(lambda o: lrs.OneCycleLR(o, max_lr=0.1, total_steps=5))
        f = tj.compile(world.returned) if way else world.returned
        found: list[Any] = []
        for _ in range(8):
            try:
                found.append(plain(f(tj.ones(2, 3))))
            except ValueError as error:
                found.append(str(error).partition("\n")[0])
            found += [world.opt.param_groups[0]["lr"], world.plan.last_epoch]
        ways.append(found)
    assert "Tried to step" in str(ways[0])
    assert close(ways[1], ways[0])


def test_rates_in_code_that_asks_for_types() -> None:
    ways = []
    for way in (False, True):
        world = World(MAKE["steps"])

        def step(x: Any, world: Any = world) -> Any:
            loss = world.train(x)
            return loss * sum(v for v in vars(world.plan).values() if type(v) is int)

        f = tj.compile(step) if way else step
        ways.append([f(tj.ones(2, 3)).item() for _ in range(6)])
    assert close(ways[1], ways[0])
