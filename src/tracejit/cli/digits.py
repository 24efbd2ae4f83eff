"""The training job of the demo: a classifier of handwritten digits, eager and compiled from the same start.

The data are the 1797 images of 8 x 8 pixels of scikit-learn (UCI Optical Recognition of Handwritten Digits).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import output

_CLASSES, _PIXELS, _LEVELS = 10, 64, 16.0
_TEST_SHARE = 0.2


@dataclass(frozen=True)
class Settings:
    """What decides a training run."""

    epochs: int = 30
    hidden: int = 128
    batch: int = 64
    seed: int = 0
    lr: float = 0.1
    device: str = "cpu"


@dataclass(frozen=True)
class Digits:
    """Images (n, 64) of float32 from 0 to 1 and labels (n,) of int64, for training and for testing."""

    train_x: Any
    train_y: Any
    test_x: Any
    test_y: Any


@dataclass
class Run:
    """One training: the model, its objective, and what was measured step by step."""

    name: str
    model: Any
    objective: Callable[..., Any]
    optimizer: Any
    schedule: Any
    wait: Callable[[], None] | None = None  # until a device is done
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def step(self, x: Any, y: Any) -> None:
        """Forward, backward, update; the loss is read after the clock stops."""
        start = time.perf_counter()
        self.optimizer.zero_grad()
        loss = self.objective(self.model, x, y)
        loss.backward()
        self.optimizer.step()
        if self.wait is not None:
            self.wait()
        self.seconds.append(time.perf_counter() - start)
        self.losses.append(loss.item())


def load(seed: int) -> Digits:
    """Split the digits, every class in proportion. Ends with a message when scikit-learn is missing."""
    datasets = output.require("sklearn.datasets", "scikit-learn", "The demo")
    selection = output.require("sklearn.model_selection", "scikit-learn", "The demo")
    images, labels = datasets.load_digits(return_X_y=True)
    images = (images / _LEVELS).astype(np.float32)
    parts = selection.train_test_split(
        images, labels.astype(np.int64), test_size=_TEST_SHARE, random_state=seed, stratify=labels
    )
    train_x, test_x, train_y, test_y = parts
    return Digits(train_x, train_y, test_x, test_y)


def objective(model: Any, x: Any, y: Any) -> Any:
    """The cross entropy of the model's logits for a batch."""
    import tracejit as tj

    return tj.nn.functional.cross_entropy(model(x), y)


def start(settings: Settings) -> tuple[Run, Run]:
    """An eager and a compiled run whose models have the same parameters."""
    import tracejit as tj

    eager = _run("eager", settings, objective)
    compiled = _run("compiled", settings, tj.compile(objective))
    return eager, compiled


def _run(name: str, settings: Settings, function: Callable[..., Any]) -> Run:
    import tracejit as tj

    # A smooth activation and a falling learning rate: with ReLU, or at a rate that stays high, training amplifies the
    # last bit of one sum until two eager runs part too, and the comparison of the curves would say nothing.
    tj.manual_seed(settings.seed)
    model = tj.nn.Sequential(
        tj.nn.Linear(_PIXELS, settings.hidden),
        tj.nn.GELU(),
        tj.nn.Linear(settings.hidden, settings.hidden),
        tj.nn.GELU(),
        tj.nn.Linear(settings.hidden, _CLASSES),
    ).to(settings.device)
    optimizer = tj.optim.SGD(model.parameters(), lr=settings.lr, momentum=0.9, weight_decay=1e-4)
    schedule = tj.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=settings.epochs)
    wait = None if settings.device == "cpu" else tj.cuda.synchronize
    return Run(name, model, function, optimizer, schedule, wait)


def batches(data: Digits, settings: Settings, epoch: int) -> Iterator[tuple[Any, Any]]:
    """The batches of an epoch in an order that depends on seed and epoch only; the last may be smaller."""
    import tracejit as tj

    order = np.random.default_rng((settings.seed, epoch)).permutation(len(data.train_x))
    for low in range(0, len(order), settings.batch):
        chosen = order[low : low + settings.batch]
        x, y = tj.from_numpy(data.train_x[chosen]), tj.from_numpy(data.train_y[chosen])
        yield x.to(settings.device), y.to(settings.device)


def accuracy(run: Run, data: Digits) -> float:
    """The share of test images whose largest logit is at the right class."""
    import tracejit as tj

    run.model.eval()
    with tj.no_grad():
        device = next(iter(run.model.parameters())).device
        logits = run.model(tj.from_numpy(data.test_x).to(device)).cpu()
    run.model.train()
    return float(np.mean(logits.numpy().argmax(axis=1) == data.test_y))
