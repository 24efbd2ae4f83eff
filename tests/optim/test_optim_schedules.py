"""Learning-rate schedules against their formulae."""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn, optim
from tracejit.optim import lr_scheduler as lrs


def optimizer(lr: float = 1.0, **options):
    return optim.SGD([nn.Parameter(tj.tensor([1.0]))], lr=lr, **options)


def rates(schedule, steps: int = 12) -> list[float]:
    """The learning rate of every epoch, the first included."""
    opt = schedule.optimizer
    seen = [opt.param_groups[0]["lr"]]
    for _ in range(steps):
        opt.step()
        schedule.step()
        assert schedule.get_last_lr() == [opt.param_groups[0]["lr"]]
        seen.append(opt.param_groups[0]["lr"])
    return seen


def linear(epoch: int) -> float:
    return 0.25 + 0.5 * min(epoch, 8) / 8


FORMULAS = {
    "StepLR": (lambda o: lrs.StepLR(o, 3, 0.5), lambda e: 0.5 ** (e // 3)),
    "MultiStepLR": (
        lambda o: lrs.MultiStepLR(o, [2, 5, 5], 0.5),
        lambda e: 0.5 ** ((e >= 2) + 2 * (e >= 5)),
    ),
    "ExponentialLR": (lambda o: lrs.ExponentialLR(o, 0.9), lambda e: 0.9**e),
    "ConstantLR": (lambda o: lrs.ConstantLR(o, 0.5, 4), lambda e: 0.5 if e < 4 else 1.0),
    "LinearLR": (lambda o: lrs.LinearLR(o, 0.25, 0.75, 8), linear),
    "PolynomialLR": (lambda o: lrs.PolynomialLR(o, 12, 2.0), lambda e: (1 - e / 12) ** 2),
    "CosineAnnealingLR": (
        lambda o: lrs.CosineAnnealingLR(o, 4, 0.1),
        lambda e: 0.1 + 0.9 * (1 + math.cos(math.pi * e / 4)) / 2,
    ),
    "LambdaLR": (lambda o: lrs.LambdaLR(o, lambda e: 1 / (1 + e)), lambda e: 1 / (1 + e)),
    "MultiplicativeLR": (lambda o: lrs.MultiplicativeLR(o, lambda e: 0.8), lambda e: 0.8**e),
    "SequentialLR": (
        lambda o: lrs.SequentialLR(
            o, [lrs.ConstantLR(o, 0.1, 3), lrs.ExponentialLR(o, 0.5)], milestones=[3]
        ),
        lambda e: 0.1 if e < 3 else 0.5 ** (e - 3),
    ),
    "ChainedScheduler": (
        lambda o: lrs.ChainedScheduler([lrs.ConstantLR(o, 0.1, 3), lrs.ExponentialLR(o, 0.5)]),
        lambda e: 0.5**e * (0.1 if e < 3 else 1.0),
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name):
    build, formula = FORMULAS[name]
    expected = [formula(epoch) for epoch in range(13)]
    assert rates(build(optimizer())) == pytest.approx(expected, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("name", FORMULAS)
def test_state_dict_resumes(name):
    build, _ = FORMULAS[name]
    first = build(optimizer())
    head = rates(first, 5)
    second = build(optimizer())
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    assert second.optimizer.param_groups[0]["lr"] == head[-1]
    assert rates(second, 7) == rates(first, 7)


def test_one_cycle():
    opt = optimizer(momentum=0.9)
    values = rates(lrs.OneCycleLR(opt, 1.0, total_steps=12, pct_start=0.5), 11)
    assert values[0] == pytest.approx(1 / 25)
    assert max(values) == pytest.approx(1.0)
    assert values[-1] == pytest.approx(1 / 25 / 1e4)
    assert opt.param_groups[0]["momentum"] == pytest.approx(0.95)
    peak = values.index(max(values))
    assert values[: peak + 1] == sorted(values[: peak + 1])
    assert values[peak:] == sorted(values[peak:], reverse=True)


def test_one_cycle_cycles_beta1_and_ends():
    opt = optim.Adam([nn.Parameter(tj.tensor([1.0]))])
    schedule = lrs.OneCycleLR(opt, 0.5, epochs=2, steps_per_epoch=3, anneal_strategy="linear")
    assert opt.param_groups[0]["betas"] == (0.95, 0.999)
    rates(schedule, 6)
    with pytest.raises(ValueError, match="Tried to step 7 times"):
        schedule.step()


def test_plateau():
    opt = optimizer()
    schedule = lrs.ReduceLROnPlateau(opt, factor=0.5, patience=1, cooldown=1, min_lr=0.2)
    seen = []
    for metric in (1.0, 0.5, 0.5, tj.tensor(0.5), 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5):
        schedule.step(metric)
        seen.append(opt.param_groups[0]["lr"])
    assert seen == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2, 0.2]
    assert schedule.is_better(0.4, 0.5)
    assert not schedule.is_better(0.49999, 0.5)
    up = lrs.ReduceLROnPlateau(optimizer(), mode="max", threshold=0.1, threshold_mode="abs")
    assert up.is_better(1.2, 1.0)
    assert not up.is_better(1.05, 1.0)


def test_every_group_is_scheduled():
    opt = optim.SGD(
        [{"params": [nn.Parameter(tj.tensor([1.0]))], "lr": lr} for lr in (1.0, 2.0)], lr=1.0
    )
    schedule = lrs.LambdaLR(opt, [lambda e: 1.0, lambda e: 0.5**e])
    opt.step()
    schedule.step()
    assert schedule.get_last_lr() == [1.0, 1.0]


def test_errors_and_warnings():
    cases = [
        (lambda: lrs.StepLR(3, 1), TypeError, "int is not an Optimizer"),
        (lambda: lrs.StepLR(optimizer(), 1, last_epoch=3), KeyError, "initial_lr"),
        (lambda: lrs.LambdaLR(optimizer(), [abs, abs]), ValueError, "Expected 1 lr_lambdas"),
        (lambda: lrs.LinearLR(optimizer(), 3.0), ValueError, "Starting multiplicative factor"),
        (lambda: lrs.ConstantLR(optimizer(), 3.0), ValueError, "between 0 and 1"),
        (lambda: lrs.OneCycleLR(optimizer(), 1.0), ValueError, "You must define either"),
        (lambda: lrs.OneCycleLR(optimizer(), 1.0, -3), ValueError, "positive integer total_steps"),
        (
            lambda: lrs.OneCycleLR(optim.Adagrad([nn.Parameter(tj.tensor([1.0]))]), 1.0, 5),
            ValueError,
            "support momentum",
        ),
        (lambda: lrs.ReduceLROnPlateau(optimizer(), factor=2.0), ValueError, "Factor should be"),
        (lambda: lrs.ReduceLROnPlateau(optimizer(), "x"), ValueError, "mode x is unknown"),
        (lambda: lrs.SequentialLR(optimizer(), [], []), ValueError, "at least one scheduler"),
        (
            lambda: lrs.SequentialLR(optimizer(), [lrs.StepLR(optimizer(), 1)], []),
            ValueError,
            "same optimizer",
        ),
    ]
    for build, error, message in cases:
        with pytest.raises(error, match=message):
            build()
    schedule = lrs.StepLR(optimizer(), 1)
    with pytest.warns(UserWarning, match=r"before `optimizer.step\(\)`"):
        schedule.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.step()


class Own(lrs.LRScheduler):
    """Steps in its own way, and asks the formula when it is looked at."""

    asked: Any = None

    def get_lr(self) -> list[float]:
        self.asked = self._get_lr_called_within_step
        return [0.5 for _ in self.base_lrs]

    def step(self, epoch: Any = None) -> None:
        self.last_epoch += 1


def test_a_schedule_with_a_step_of_its_own_keeps_what_it_uses():
    schedule = Own(optim.SGD([tj.ones(1, requires_grad=True)], lr=0.1))
    assert list(schedule.state_dict()) == ["base_lrs", "last_epoch", "_step_count", "_is_initial"]
    lrs.LRScheduler.step(schedule)
    assert (schedule.asked, schedule.get_last_lr()) == (True, [0.5])
    schedule.get_lr()
    assert schedule.asked is False
    assert schedule.state_dict()["_get_lr_called_within_step"] is False
