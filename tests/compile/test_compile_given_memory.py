"""compile(): steps that swap the memory of weights: sharpness-aware steps, weights put aside and put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn


class Sharpness(tj.optim.Optimizer):
    """Steps from where the loss is largest nearby, as published code has it: weights are kept in the state."""

    def __init__(self, params: Any, base: Any, rho: float = 0.05, **options: Any) -> None:
        super().__init__(params, {"rho": rho, **options})
        self.base = base(self.param_groups, **options)
        self.param_groups = self.base.param_groups

    @tj.no_grad()
    def first_step(self) -> None:
        for group in self.param_groups:
            norms = [p.grad.norm(p=2) for p in group["params"]]
            scale = group["rho"] / (tj.norm(tj.stack(norms), p=2) + 1e-12)
            for p in group["params"]:
                self.state[p]["old_p"] = p.data.clone()
                p.add_(p.grad * scale)
        self.zero_grad()

    @tj.no_grad()
    def second_step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p.data = self.state[p]["old_p"]
        self.base.step()
        self.zero_grad()


def network() -> nn.Module:
    tj.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


def batch(number: int) -> tuple[tj.Tensor, tj.Tensor]:
    random = np.random.default_rng(number)
    return tj.tensor(random.normal(size=(5, 3))), tj.tensor(random.normal(size=(5, 2)))


BASES: dict[str, Callable[[Any], Sharpness]] = {
    "momentum": lambda p: Sharpness(p, tj.optim.SGD, lr=0.1, momentum=0.9),
    "adam": lambda p: Sharpness(p, tj.optim.Adam, lr=0.1),
}


@pytest.mark.parametrize("base", BASES)
def test_sharpness_aware_steps_are_replayed(base: str) -> None:
    found = []
    for compiled in (False, True):
        net = network()
        optimizer = BASES[base](net.parameters())

        def step(x, y, net=net, optimizer=optimizer):
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.first_step()
            nn.functional.mse_loss(net(x), y).backward()
            optimizer.second_step()
            return loss.detach()

        run = tj.compile(step) if compiled else step
        seen = []
        for number in range(12):
            loss = run(*batch(number)).item()
            weights = [(p.tolist(), p._version, p.grad) for p in net.parameters()]
            old = [optimizer.state[p]["old_p"] for p in net.parameters()]
            shared = [
                o.data_ptr() == p.data_ptr() for o, p in zip(old, net.parameters(), strict=True)
            ]
            assert all(shared)
            seen.append((loss, weights, [(o.tolist(), o._version) for o in old]))
        found.append(seen)
    assert run.stats.recordings <= 5
    assert run.stats.compiled_calls >= 7
    assert_alike(*found)


def assert_alike(one: Any, other: Any) -> None:
    if isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_alike(a, b)
    elif isinstance(one, float):
        assert other == pytest.approx(one, rel=1e-9, abs=1e-12)
    else:
        assert other == one


def put_aside(w, x):
    """The gradient somewhere else, used where the weights were."""
    old = w.data
    w.data = w.data + 0.5 * x
    ((w * x).sin().sum()).backward()
    w.data = old
    with tj.no_grad():
        w.sub_(w.grad, alpha=0.1)
    w.grad = None
    return (w * x).sum()


def written_while_away(w, x):
    old = w.data
    w.data = w.data * 2
    with tj.no_grad():
        w.add_(x)
        w.mul_(0.5)
    y = (w * x).sum().detach()
    w.data = old
    return y + (w * x).sum()


def away_twice(w, x):
    old = w.data
    w.data = w.data + x
    y = (w * x).sum()
    w.data = w.data.exp()
    z = (w * x).sum()
    w.data = old
    w.data = w.data - 0.1 * x
    return (y + z).detach() + (w * x).sum()


def left_after_a_write(w, x):
    kept = w.data.clone()
    with tj.no_grad():
        w.add_(x)
    y = (w * x).sum().detach()
    w.data = kept
    with tj.no_grad():
        w.mul_(0.9)
    return y + (w * x).sum()


def written_and_back(w, x):
    old = w.data
    with tj.no_grad():
        w.add_(x)
    w.data = w.data * 3
    y = (w * x).sum().detach()
    w.data = old
    return y + (w * x).sum()


STEPS = [put_aside, written_while_away, away_twice, left_after_a_write, written_and_back]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("size", [3, 5])
def test_weights_are_put_aside_and_back(step: Callable[..., Any], size: int) -> None:
    found = []
    for run in (step, tj.compile(step, fullgraph=True)):
        w = nn.Parameter(tj.linspace(-1, 1, size * 2, dtype=tj.float64).reshape(size, 2))
        view = w.detach()  # of the memory that it has before
        values = []
        for number in range(5):
            w.grad = None
            y = run(w, tj.full((size, 2), 0.5 + number, dtype=tj.float64).tril())
            y.backward()
            ends = w.data_ptr() == view.data_ptr()
            values.append((y.item(), w.tolist(), w.grad.tolist(), w._version, view.tolist(), ends))
        found.append(values)
    assert_alike(*found)


@pytest.mark.parametrize("step", STEPS)
def test_such_steps_of_captured_weights_are_compiled(step: Callable[..., Any]) -> None:
    found = []
    for compiled in (False, True):
        w = nn.Parameter(tj.linspace(-1, 1, 6, dtype=tj.float64).reshape(3, 2))

        def plain(x, w=w):
            return step(w, x).detach()

        run = tj.compile(plain, strict=True) if compiled else plain
        found.append(
            [
                (run(tj.full((3, 2), 0.1 * n, dtype=tj.float64)).item(), w.tolist(), w._version)
                for n in range(5)
            ]
        )
    assert run.stats.compiled_calls >= 3
    assert_alike(*found)


def test_the_memory_that_was_left_keeps_what_was_written_to_it() -> None:
    """Whoever shows the old memory sees the write, at every call."""
    found = []
    for compiled in (False, True):
        w = nn.Parameter(tj.ones(3, dtype=tj.float64))
        run = tj.compile(left_after_a_write) if compiled else left_after_a_write
        seen = []
        for number in range(4):
            before = w.detach()
            run(w, tj.full((3,), 0.25 * number, dtype=tj.float64))
            seen.append((before.tolist(), w.tolist()))
        found.append(seen)
    assert_alike(*found)


def test_what_was_given_shows_the_tensor() -> None:
    def step(w, x):
        given = w.detach() * x
        row = given[0]
        w.data = given
        with tj.no_grad():
            w.add_(1.0)
        given.mul_(2.0)
        row[0] = 7.0
        return (w * x).sum().detach(), given

    found = []
    for compiled in (False, True):
        w = nn.Parameter(tj.linspace(0, 1, 6, dtype=tj.float64).reshape(3, 2))
        run = tj.compile(step, strict=True) if compiled else step
        seen = []
        for number in range(5):
            y, given = run(w, tj.full((3, 2), 0.2 + 0.1 * number, dtype=tj.float64))
            values = y.item(), given.tolist(), w.tolist()
            versions = w._version, given._version
            given.add_(0.5)
            seen.append((values, versions, w.tolist()))
        found.append(seen)
    assert run.stats.compiled_calls >= 3
    assert_alike(*found)


def kept_by_a_pass_inside(w, x):
    given = w.detach() * 0.9
    w.data = given
    y = (given * x).sum()
    with tj.no_grad():
        w.add_(1.0)
    y.backward()  # reads what is in the memory by now
    return y.detach()


def kept_by_a_pass_outside(w, x):
    given = w.detach() * 0.9
    w.data = given
    y = (given * x).sum()
    with tj.no_grad():
        w.add_(1.0)
    return y


@pytest.mark.parametrize("step", [kept_by_a_pass_inside, kept_by_a_pass_outside])
def test_backward_passes_read_what_was_given_as_it_is_by_then(step: Callable[..., Any]) -> None:
    found = []
    for run in (step, tj.compile(step)):
        w = nn.Parameter(tj.linspace(0, 1, 3, dtype=tj.float64))
        seen = []
        for number in range(4):
            x = tj.full((3,), 1.0 + number, dtype=tj.float64, requires_grad=True)
            y = run(w, x)
            if y.requires_grad:
                y.backward()
            seen.append((y.item(), x.grad.tolist(), w.tolist()))
        found.append(seen)
    assert_alike(*found)


def test_inputs_that_nothing_reads_may_share_memory_with_what_is_written() -> None:
    def step(w, other, x):
        with tj.no_grad():
            w.add_(x)
        if x.sum() > 10:
            return other.sum()
        return w.sum()

    run = tj.compile(step)
    for number in range(6):
        w = tj.ones(3)
        x = tj.full((3,), float(number))
        assert run(w, w.detach(), x).item() == 3 + 3 * number
        assert w.tolist() == [1.0 + number] * 3
    assert run.stats.compiled_calls == 3  # up to the calls that read what shares memory
    assert "shares memory with another input" in str(run.explain())
