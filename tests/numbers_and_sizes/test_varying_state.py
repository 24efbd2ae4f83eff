"""Numbers in attributes, globals, closures and containers that vary from call to call, or that a call changes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tracejit as tj

nn = tj.nn

SCALE = 1.0
SETTINGS = {"rate": 0.5, "steps": [1, 2]}


class Holder:
    """Numbers in attributes."""

    def __init__(self) -> None:
        self.rate = 0.1
        self.steps = 0


class Slotted:
    """Numbers in slots."""

    __slots__ = ("__steps", "rate")


def close(ours, theirs) -> bool:
    return np.allclose(ours.tolist(), theirs.tolist(), rtol=1e-6)


def test_globals() -> None:
    global SCALE

    def function(x):
        return x * SCALE + SETTINGS["rate"] * SETTINGS["steps"][1]

    f = tj.compile(function)
    try:
        for i in range(20):
            SCALE = 0.5 * i
            SETTINGS["rate"], SETTINGS["steps"][1] = 1.0 / (i + 1), i
            assert close(f(tj.ones(2)), function(tj.ones(2)))
            assert type(SCALE) is float
            assert [*map(type, SETTINGS["steps"])] == [int, int]
    finally:
        SCALE, SETTINGS["rate"], SETTINGS["steps"][1] = 1.0, 0.5, 2
    assert f.stats.recordings == 2
    assert "varies: global 'SCALE'" in str(f.explain())


def test_closures_and_attributes() -> None:
    holder, beta = Holder(), 0.5

    def function(x):
        return x * holder.rate - beta**2

    def change(value):
        nonlocal beta
        holder.rate, beta = value, value + 1

    f = tj.compile(function)
    for i in range(20):
        change(0.1 * i)
        x = tj.ones(2, requires_grad=True)
        ours, theirs = f(x), function(x)
        assert close(ours, theirs)
        assert close(*(tj.autograd.grad(y.sum(), [x])[0] for y in (ours, theirs)))
    assert type(holder.rate) is float
    assert f.stats.recordings == 2


def test_slots() -> None:
    holder = Slotted()
    holder._Slotted__steps = 0

    def function(x):
        holder.rate, holder._Slotted__steps = holder.rate * 0.5, holder._Slotted__steps + 2
        return x * holder.rate + holder._Slotted__steps

    f = tj.compile(function)
    for i in range(8):
        holder.rate, steps = float(i), holder._Slotted__steps
        assert close(f(tj.ones(2)), tj.ones(2) * (i / 2) + steps + 2)
        assert (holder.rate, holder._Slotted__steps) == (i / 2, steps + 2)
        assert (type(holder.rate), type(holder._Slotted__steps)) == (float, int)
    assert f.stats.recordings == 2


def test_a_change_of_type_is_another_recording() -> None:
    holder = Holder()

    def function(x):
        return x * holder.rate

    f = tj.compile(function)
    for value in (0.5, 1.5, 2.5, 2, 3, "2", 2.5, True, 7):
        holder.rate = value
        if value == "2":
            with pytest.raises(TypeError):
                f(tj.ones(2))
            continue
        ours = f(tj.ones(2, dtype=tj.int64))
        assert (ours.dtype, ours.tolist()) == (
            function(tj.ones(2, dtype=tj.int64)).dtype,
            [value] * 2,
        )


class Counting(nn.Module):
    """Counts its calls and divides by a temperature."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.temperature = 1.0
        self.count = 0

    def forward(self, x):
        self.count += 1
        return self.linear(x) / self.temperature + 1 / self.count


def test_modules() -> None:
    tj.manual_seed(0)
    module = Counting()
    compiled = tj.compile(module)
    x = tj.ones(1, 3)
    for i in range(20):
        module.temperature = 1.0 + i
        ours = compiled(x)
        assert module.count == i + 1
        assert type(module.count) is int
        assert close(ours, module.linear(x) / module.temperature + 1 / module.count)
    assert compiled.stats.recordings == 2
    module.linear = nn.Linear(3, 2)
    assert close(compiled(x), module.linear(x) / module.temperature + 1 / module.count)


@pytest.mark.parametrize("make", [Holder, Counting])
def test_a_counter_that_becomes_a_float_goes_on(make: type) -> None:
    tj.manual_seed(0)
    holder = make()
    holder.steps = 0

    def function(x):
        holder.steps += 1
        return x * holder.steps

    f = tj.compile(function)
    counted = 0
    for i in range(12):
        if i in (3, 8):
            counted = holder.steps = 2.5 if i == 3 else 7
        counted += 1
        assert f(tj.ones(2)).tolist() == [counted] * 2
        assert (holder.steps, type(holder.steps)) == (counted, type(counted))
    assert f.stats.recordings <= 7
    assert f.stats.compiled_calls >= 5


def test_other_functions_hear_of_what_a_replay_writes() -> None:
    module = Counting()
    compiled = tj.compile(module)
    reader = tj.compile(lambda x: x * module.count)
    for i in range(6):
        compiled(tj.ones(1, 3))
        assert reader(tj.ones(2)).tolist() == [i + 1] * 2


class Adam:
    """Adam as users write it."""

    def __init__(self, parameters, rate: float, betas=(0.9, 0.99)) -> None:
        self.parameters = parameters
        self.rate, self.steps = rate, 0
        self.beta1, self.beta2 = betas
        self.first = [tj.zeros_like(p) for p in parameters]
        self.second = [tj.zeros_like(p) for p in parameters]

    def step(self, gradients) -> None:
        self.steps += 1
        size = self.rate * math.sqrt(1 - self.beta2**self.steps) / (1 - self.beta1**self.steps)
        with tj.no_grad():
            for p, g, m, v in zip(self.parameters, gradients, self.first, self.second, strict=True):
                m.mul_(self.beta1).add_(g * (1 - self.beta1))
                v.mul_(self.beta2).add_(g * g * (1 - self.beta2))
                p.sub_(size * m / (v.sqrt() + 1e-8))


def training(compiled: bool, steps: int):
    weight = tj.tensor([0.5, -0.5], dtype=tj.float64)
    optimizer = Adam([weight], 0.1)

    def step(x):
        error = (weight * x).sum() - 1.0
        optimizer.step([error * 2 * x])
        return error

    f = tj.compile(step) if compiled else step
    losses = []
    for i in range(steps):
        optimizer.rate = 0.1 * (1 + math.cos(math.pi * i / steps)) / 2
        losses.append(f(tj.tensor([1.0, 0.5 + i % 3], dtype=tj.float64)).item())
    assert optimizer.steps == steps
    assert type(optimizer.steps) is int
    return weight, losses, f


def test_adam_written_by_hand_with_a_schedule() -> None:
    weight, losses, f = training(True, 1000)
    expected, wanted, _ = training(False, 1000)
    assert np.allclose(losses, wanted, rtol=1e-9)
    assert np.allclose(weight.tolist(), expected.tolist(), rtol=1e-9)
    assert f.stats.recordings == 2
    assert f.stats.compiled_calls == 998


def test_a_counter_that_decides() -> None:
    holder = Holder()

    def function(x):
        holder.steps += 1
        if holder.steps % 5 == 0:
            holder.rate *= 0.5
        return x * holder.rate

    f = tj.compile(function)
    expected = 0.1
    for i in range(1, 41):
        expected *= 0.5 if i % 5 == 0 else 1
        assert np.allclose(f(tj.ones(2)).tolist(), [expected] * 2)
        assert (holder.steps, holder.rate) == (i, expected)
    assert f.stats.recordings <= 5
    assert f.stats.compiled_calls >= 35


def test_numbers_of_tensors_kept_in_state() -> None:
    holder = Holder()
    holder.best, holder.mean = 1e9, 0.0

    def function(x):
        loss = (x * x).mean().item()
        if loss < holder.best:
            holder.best = loss
        holder.mean = 0.9 * holder.mean + 0.1 * loss
        return x / (loss + 1)

    f, best, mean = tj.compile(function), 1e9, 0.0
    for i in range(40):
        x = tj.tensor([1.0 / (i + 1), (i * 7 % 5) / 3], dtype=tj.float64)
        f(x)
        loss = float((x * x).mean())
        best, mean = min(best, loss), 0.9 * mean + 0.1 * loss
        assert (type(holder.best), type(holder.mean)) == (float, float)
        assert math.isclose(holder.best, best)
        assert math.isclose(holder.mean, mean)
    assert f.stats.recordings <= 5
    assert not f.reasons


def test_a_number_that_decides_always_is_a_constant_again() -> None:
    holder = Holder()

    def function(x):
        return tj.cat([x] * holder.steps) if holder.steps else x

    f = tj.compile(function)
    for steps in [1, 2, 3, 4, 5, 6] * 6:
        holder.steps = steps
        assert close(f(tj.ones(2)), function(tj.ones(2)))
    assert "decides what is computed at almost every call" in str(f.explain())
    assert f.stats.compiled_calls >= 12


def test_errors_leave_state_as_eager_execution_does() -> None:
    holder = Holder()

    def function(x):
        holder.steps += 1
        if holder.steps >= 5:
            raise ValueError("enough")
        return x * holder.steps

    f = tj.compile(function)
    for i in range(1, 5):
        assert f(tj.ones(1)).tolist() == [i]
    for i in range(5, 8):
        with pytest.raises(ValueError, match="enough"):
            f(tj.ones(1))
        assert holder.steps == i
        assert type(holder.steps) is int


def test_verification_compares_what_is_left_in_state() -> None:
    holder = Holder()

    def function(x):
        holder.steps += 1
        return x * holder.steps

    f = tj.compile(function, verify=True)
    for i in range(1, 7):
        assert f(tj.ones(1)).tolist() == [i]
        assert holder.steps == i
    assert f.stats.compiled_calls == 4


def test_code_that_needs_true_numbers_gets_them() -> None:
    import json

    holder, lines = Holder(), []

    def function(x):
        assert type(holder.rate) is float
        return x * holder.rate

    def writer(x):
        return x * len(json.dumps(holder.rate))

    for g in (function, writer):
        f = tj.compile(g)
        for i in range(5):
            holder.rate = 0.25 * i
            lines.append(f(tj.ones(2)).tolist() == g(tj.ones(2)).tolist())
        assert "numbers are constants here" in str(f.explain())
    assert all(lines)


def test_a_step_whose_counts_decide_in_many_ways() -> None:
    def trainer() -> Any:
        state = {"step": 0, "since": 0}

        def step(x):
            state["step"] += 1
            state["since"] += 1
            y = x * (0.5 if state["step"] > 3 else 1.0 / state["step"])
            if state["step"] % 2 == 0:
                y = y + 1
            if state["step"] > 5:
                y = y * 3
            if state["since"] >= 5:
                state["since"] = 0
                y = y - 2
            return y

        return step, state

    (step, ours), (eager, theirs) = trainer(), trainer()
    compiled = tj.compile(step)
    for i in range(50):
        x = tj.full((3,), float(i))
        assert compiled(x).tolist() == eager(x).tolist()
        assert ours == theirs
    assert compiled.stats.compiled_calls >= 35, str(compiled.explain())


def test_remainders_of_counts() -> None:
    """Rounds, and items of lists, told by the remainder of a count: a recording for each."""

    def trainer() -> Any:
        holder, rates = Holder(), [0.5, 1.5, 2.5]

        def step(x, n):
            holder.steps += 1
            for _ in range(holder.steps % 5):
                x = x * 0.75
            return x * rates[n % 3]

        return step

    step, eager = trainer(), trainer()
    compiled = tj.compile(step)
    for n in range(60):
        assert compiled(tj.ones(2), 7 * n).tolist() == eager(tj.ones(2), 7 * n).tolist()
    assert compiled.stats.compiled_calls >= 40, str(compiled.explain())
