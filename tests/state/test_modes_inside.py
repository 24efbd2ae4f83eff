"""compile(): functions that set the mode of layers, which others set to something else in between."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn

Functions = list[Any]


def in_turn(model: nn.Module) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A step and a test that set the mode of a model."""
    optimizer = tj.optim.SGD(model.parameters(), 0.1)

    def step(x: Any) -> Any:
        model.train()
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    def test(x: Any) -> Any:
        model.eval()
        with tj.no_grad():
            return model(x)

    return step, test


def seen(model: nn.Module, run: Callable[[Callable[..., Any]], Any], rounds: int = 20) -> list[Any]:
    """What rounds of a step and a test give and leave."""
    step, test = map(run, in_turn(model))
    x = tj.arange(8.0).reshape(4, 2).sin()
    found: list[Any] = []
    for k in range(rounds):
        tj.manual_seed(k)
        found.append(step(x).item())
        found.append([m.training for m in model.modules()])
        found += test(x).flatten().tolist() if k % 4 != 2 else []
        found.append([m.training for m in model.modules()])
        if k == rounds - 4:
            list(model.children())[-1].p = 0.25
    return found


def alike(make: Callable[[], nn.Module], least: int) -> None:
    """Compiled functions do what eager ones do, and are compiled."""
    compiled: Functions = []

    def run(function: Any) -> Any:
        compiled.append(tj.compile(function))
        return compiled[-1]

    tj.manual_seed(0)
    eager = seen(make(), lambda function: function)
    tj.manual_seed(0)
    found = seen(make(), run)
    assert len(eager) == len(found)
    for before, now in zip(eager, found, strict=True):
        assert now == (pytest.approx(before, rel=1e-4) if isinstance(before, float) else before)
    assert all(f.stats.compiled_calls >= least for f in compiled), [f.explain() for f in compiled]


def plain() -> nn.Module:
    """Layers whose mode matters."""
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))


class Frozen(nn.Module):
    """Its ``train`` keeps a part as it is, and counts how often it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        self.head = nn.Dropout(0.5)
        self.calls = 0

    def train(self, mode: bool = True) -> Any:
        """Set the mode of the head."""
        super().train(mode)
        self.calls += 1
        self.body.eval()
        return self

    def forward(self, x: Any) -> Any:
        """The head of the body."""
        return self.head(self.body(x))


def test_a_step_and_a_test_take_turns() -> None:
    alike(plain, 8)


def test_layers_with_a_train_of_their_own() -> None:
    alike(Frozen, 6)


def test_the_mode_that_a_call_finds_decides() -> None:
    """Only what the call itself leaves is left: one layer is toggled, and others are as the program sets them."""
    ways = []
    for compiled in (False, True):
        model = plain()
        model[2].p = 1.0

        def step(x: Any, model: Any = model) -> Any:
            model[2].training = not model[2].training
            return model[2](x), model.training, model[1].training

        function = tj.compile(step) if compiled else step
        found = []
        for k in range(16):
            if k in (9, 12):
                model.train(k == 9)
            x, *modes = function(tj.ones(2))
            found.append((x.tolist(), modes, [m.training for m in model.modules()]))
        ways.append(found)
    assert ways[1] == ways[0]
    assert function.stats.compiled_calls >= 6


def test_errors_leave_the_mode_that_was_set_before() -> None:
    model = plain()

    @tj.compile
    def step(x: Any) -> Any:
        model.train()
        if x.sum() < 0:
            raise ValueError("below")
        model.eval()
        return x * 2

    for sign in (1, 1, 1, -1, 1, -1, -1, 1, 1):
        if sign > 0:
            step(tj.ones(2))
            assert not model[1].training
            continue
        with pytest.raises(ValueError, match="below"):
            step(-tj.ones(2))
        assert model[1].training
    assert step.stats.compiled_calls >= 1


def test_models_whose_mode_was_set_are_let_go() -> None:
    def step(model: nn.Module, x: Any) -> Any:
        model.train()
        return model(x)

    def test(model: nn.Module, x: Any) -> Any:
        model.eval()
        return model(x)

    functions = tj.compile(step), tj.compile(test)
    models = []
    for _ in range(24):
        model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
        for _ in range(2):
            for function in functions:
                for _ in range(4):
                    function(model, tj.ones(2))
        models.append(weakref.ref(model))
        del model
    gc.collect()
    assert sum(model() is not None for model in models) < 16
    assert all(f.stats.compiled_calls >= 24 for f in functions)
