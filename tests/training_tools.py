"""Twins that train alike, one eager and one compiled, and everything a step can change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tracejit as tj
from tracejit import nn

lrs = tj.optim.lr_scheduler

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: tj.optim.SGD(p, lr=0.1),
    "momentum": lambda p: tj.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    "nesterov": lambda p: tj.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: tj.optim.Adam(p, lr=0.02),
    "amsgrad": lambda p: tj.optim.Adam(p, lr=0.02, amsgrad=True, weight_decay=0.1, maximize=True),
    "early": lambda p: tj.optim.Adam(p, lr=0.02, betas=(0.3, 0.9)),
    "adamw": lambda p: tj.optim.AdamW(p, lr=0.02, weight_decay=0.1),
    "rmsprop": lambda p: tj.optim.RMSprop(p, lr=0.02, centered=True, momentum=0.5),
    "adafactor": lambda p: tj.optim.Adafactor(p, lr=0.1, weight_decay=0.1),
    "adagrad": lambda p: tj.optim.Adagrad(p, lr=0.1, lr_decay=0.1),
}
SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "lambda": lambda o: lrs.LambdaLR(o, lambda epoch: 0.9**epoch),
    "step": lambda o: lrs.StepLR(o, step_size=3, gamma=0.5),
    "cosine": lambda o: lrs.CosineAnnealingLR(o, T_max=7),
    "cycle": lambda o: lrs.OneCycleLR(o, max_lr=0.1, total_steps=20),
    "sequence": lambda o: lrs.SequentialLR(
        o, [lrs.ConstantLR(o, 0.5, total_iters=2), lrs.ExponentialLR(o, 0.9)], milestones=[4]
    ),
}


class Job:
    """A model, an optimizer and a step; twins of equal seed train alike."""

    def __init__(
        self,
        optimizer: str = "adam",
        schedule: str | None = None,
        *,
        step: Callable[[Job, Any, Any], Any] | None = None,
        model: Callable[[], Any] | None = None,
        **options: Any,
    ) -> None:
        tj.manual_seed(3)
        self.model = (
            model() if model else nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
        )
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        self.schedule = SCHEDULES[schedule](self.optimizer) if schedule else None
        self.clip = options.get("clip")
        self.plain = (step or train).__get__(self)
        self.run: Any = self.plain

    def compiled(self, **options: Any) -> Job:
        self.run = tj.compile(self.plain, **options)
        return self

    @property
    def stats(self) -> Any:
        return self.run.stats


def train(job: Job, x: Any, y: Any) -> Any:
    job.optimizer.zero_grad()
    loss = nn.functional.cross_entropy(job.model(x), y)
    loss.backward()
    if job.clip is not None:
        nn.utils.clip_grad_norm_(job.model.parameters(), job.clip)
    job.optimizer.step()
    if job.schedule is not None:
        job.schedule.step()
    return loss


def batch(number: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(number)
    return tj.from_numpy(rng.standard_normal((6, 5)).astype(np.float32)), tj.from_numpy(
        rng.integers(0, 3, 6)
    )


def world(job: Job) -> dict[str, Any]:
    """Everything a step can change."""
    found: dict[str, Any] = {}
    for name, p in job.model.named_parameters():
        found[name] = p.detach().numpy().copy()
        found[f"{name}.grad"] = None if p.grad is None else p.grad.numpy().copy()
        found[f"{name}.version"] = p._version
        found[f"{name}.flags"] = (p.requires_grad, p.is_leaf)
        for key, value in job.optimizer.state.get(p, {}).items():
            found[f"{name}.{key}"] = value.numpy().copy()
    for name, b in job.model.named_buffers():
        found[name] = b.numpy().copy()
    found["numbers"] = [
        {k: v for k, v in group.items() if k != "params"} for group in job.optimizer.param_groups
    ]
    if job.schedule is not None:
        found["schedule"] = [job.schedule.last_epoch, job.schedule.get_last_lr()]
    return found


def assert_alike(eager: Job, compiled: Job, *, exact: bool = False) -> None:
    a, b = world(eager), world(compiled)
    assert a.keys() == b.keys()
    for key, value in a.items():
        if isinstance(value, np.ndarray):
            if exact:
                np.testing.assert_array_equal(b[key], value, err_msg=key)
            else:
                np.testing.assert_allclose(b[key], value, rtol=2e-4, atol=2e-6, err_msg=key)
        else:
            assert b[key] == value, key


def follow(eager: Job, compiled: Job, steps: int, start: int = 0) -> None:
    for number in range(start, start + steps):
        x, y = batch(number)
        expected, found = eager.run(x, y), compiled.run(x, y)
        np.testing.assert_allclose(found.item(), expected.item(), rtol=1e-4)
        assert_alike(eager, compiled)
