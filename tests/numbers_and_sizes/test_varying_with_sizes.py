"""Numbers that vary in functions that find sizes: one recording for all, whatever is found in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tracejit as tj


def inputs(count: int, size: int = 7, seed: int = 0) -> list[tj.Tensor]:
    rng = np.random.default_rng(seed)
    return [tj.tensor(rng.standard_normal(size).astype(np.float64)) for _ in range(count)]


def gradient(function: Callable[..., Any], x: tj.Tensor, *numbers: Any) -> tuple[Any, ...]:
    """The results of a call as plain values, and the gradient with respect to ``x``."""
    x = x.detach().clone().requires_grad_()
    results = function(x, *numbers)
    results = results if isinstance(results, tuple) else (results,)
    losses = [(r * r).sum() for r in results if isinstance(r, tj.Tensor) and r.requires_grad]
    sum(losses[1:], losses[0]).backward()
    values = [r.tolist() if isinstance(r, tj.Tensor) else r for r in results]
    return *values, x.grad.tolist()


def check(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Any:
    """Compiled calls give what eager ones give; the compiled function."""
    f = tj.compile(function)
    for x, *numbers in calls:
        ours, theirs = gradient(f, x, *numbers), gradient(function, x, *numbers)
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert type(a) is type(b)
            np.testing.assert_allclose(a, b, rtol=1e-10)
    return f


def test_argument_beside_a_found_size() -> None:
    def function(x, rate):
        chosen = x[x > 0.1]
        return chosen * rate, chosen.shape[0]

    rates = [0.1, 0.2, 0.3] * 8
    f = check(function, [(x, rate) for x, rate in zip(inputs(24), rates, strict=True)])
    assert f.stats.compiled_calls >= 22, str(f.explain())


def test_state_beside_a_found_size() -> None:
    state = {"rate": 0.5}

    def function(x):
        return x[x > 0] * state["rate"]

    f = tj.compile(function)
    for i, x in enumerate(inputs(16)):
        state["rate"] = 0.5 + i % 2
        assert f(x).tolist() == function(x).tolist()
    assert type(state["rate"]) is float
    assert f.stats.compiled_calls >= 14, str(f.explain())


def test_number_read_from_a_tensor_before_a_size_is_found() -> None:
    def function(x):
        level = (x.mean() * 2).round().item()
        return x[x > level] * (level + 1)

    f = check(function, [(x * 2,) for x in inputs(20)])
    assert f.stats.compiled_calls >= 18, str(f.explain())


def test_number_read_from_a_tensor_after_a_size_is_found() -> None:
    def function(x):
        chosen = x[x > -9]
        level = (chosen.mean() * 2).round().item()
        return chosen * (level + 1), level

    f = check(function, [(x * 2,) for x in inputs(20)])
    assert f.stats.recordings <= 3, str(f.explain())


def test_loop_until_a_number_is_small_whose_rounds_find_sizes() -> None:
    def function(x):
        level, rounds = 1.0, 0
        while level > 1e-2:
            x = x - 0.5 * x[x != 0].mean()
            level = x.mean().abs().item()
            rounds += 1
        return x, level

    f = check(function, [(x,) for x in inputs(12)] * 3)
    assert f.stats.compiled_calls >= 12, str(f.explain())


def test_sizes_from_a_list_beside_an_argument() -> None:
    def function(x, counts, rate):
        first, second = x.split(counts.tolist())
        return first * rate, second - rate

    counts = [tj.tensor([n, 7 - n]) for n in (2, 3, 4, 5)] * 4
    calls = [(x, c, 0.5 + i % 2) for i, (x, c) in enumerate(zip(inputs(16), counts, strict=True))]
    f = check(function, calls)
    assert f.stats.compiled_calls >= 14, str(f.explain())


def test_number_and_size_on_branches_of_their_own() -> None:
    def function(x):
        if x.sum() > 0:
            return x * x.max().item()
        return x[x < 0] * 2

    f = check(function, [(x,) for x in inputs(30)])
    assert f.stats.compiled_calls > 0


def test_plain_branch_beside_one_that_finds_a_size() -> None:
    def function(x):
        if x.sum() > 0:
            return x * 2
        return x[x < 0] * 3

    f = check(function, [(x,) for x in inputs(30)])
    assert f.stats.recordings <= 5, str(f.explain())
    assert f.stats.compiled_calls >= 25


def test_number_before_branches_of_which_one_finds_a_size() -> None:
    def function(x, rate):
        y = x * rate
        if y.sum() > 0:
            return y + rate
        return y[y < 0] * 3

    calls = [(x, 1.0 + i % 3) for i, x in enumerate(inputs(40))]
    f = check(function, calls)
    assert f.stats.compiled_calls > 20, str(f.explain())


def test_error_after_a_size_is_found_beside_a_number() -> None:
    def function(x, rate):
        chosen = x[x > 0]
        if chosen.sum() > rate:
            raise ValueError(f"too much for {rate}")
        return chosen * rate

    f = tj.compile(function)
    for i, x in enumerate(inputs(20)):
        rate = 1.0 + i % 3
        outcomes = []
        for call in (f, function):
            try:
                outcomes.append(call(x, rate).tolist())
            except ValueError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]


def test_a_number_goes_on_varying_where_no_size_is_found() -> None:
    def function(x, rate, choose):
        if choose:
            return x[x > 0] * 2
        return x * rate, rate + 1

    calls = [(x, 0.1 * i, i % 4 == 1) for i, x in enumerate(inputs(40))]
    f = check(function, calls)
    assert f.stats.compiled_calls >= 35, str(f.explain())


def test_numbers_and_found_sizes_are_computed_with_each_other() -> None:
    def function(x, share, limit):
        chosen = x[x > share - 0.5]
        count = chosen.shape[0]
        if count > limit:
            chosen = chosen[: max(1, int(count * share))]
        steps = tj.arange(count, dtype=tj.float64) * share
        return chosen * (count - limit) + share / (count + 1), steps[:limit], count * limit

    calls = [(x, (0.3, 0.6, 0.9)[i % 3], i % 5) for i, x in enumerate(inputs(60))]
    f = check(function, calls)
    assert f.stats.compiled_calls >= 45, str(f.explain())


class Trainer:
    """Steps that count themselves, on those rows of a batch that count."""

    def __init__(self, every: int) -> None:
        tj.manual_seed(0)
        self.layer = tj.nn.Linear(3, 2)
        self.slow = [p.detach().clone() for p in self.layer.parameters()]
        self.optimizer = tj.optim.SGD(self.layer.parameters(), lr=0.1)
        self.steps = self.since = 0
        self.every = every

    def step(self, x: tj.Tensor) -> tj.Tensor:
        self.optimizer.zero_grad()
        loss = self.layer(x)[x[:, 0] > 0].square().sum()
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        self.since += 1
        if self.since >= self.every:
            self.since = 0
            with tj.no_grad():
                for p, slow in zip(self.layer.parameters(), self.slow, strict=True):
                    slow.lerp_(p, 0.5 / self.steps)
                    p.copy_(slow)
        return loss.detach()


def test_steps_that_count_themselves_on_chosen_rows() -> None:
    ours, theirs = Trainer(3), Trainer(3)
    step = tj.compile(ours.step)
    for x in inputs(30, size=24):
        x = x.float().reshape(8, 3)
        np.testing.assert_allclose(step(x), theirs.step(x), rtol=1e-5)
    for p, q in zip(ours.layer.parameters(), theirs.layer.parameters(), strict=True):
        np.testing.assert_allclose(p.detach(), q.detach(), rtol=1e-5)
    assert (ours.steps, ours.since, type(ours.steps)) == (30, 0, int)
    assert step.stats.compiled_calls >= 25, str(step.explain())
