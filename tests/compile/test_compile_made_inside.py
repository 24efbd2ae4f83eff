"""Parameters, modules, optimizers and schedules that a compiled function makes for itself."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from trap_tools import Stage, check

nn, F = tj.nn, tj.nn.functional


def model(seed: int = 0) -> Any:
    tj.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def batch(k: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(k)
    return tuple(tj.tensor(rng.standard_normal((5, n)).tolist()) for n in (3, 1))  # type: ignore[return-value]


def adapted(net: Any, x: Any, y: Any, make: Callable[[Any], Any], steps: int = 3) -> Any:
    """A copy of ``net`` after some steps of its own."""
    fast = copy.deepcopy(net)
    optimizer = make(fast.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        F.mse_loss(fast(x), y).backward()
        optimizer.step()
    return fast


@pytest.mark.parametrize("varying", [False, True])
def test_inner_loops(varying: bool) -> None:
    def scenario(stage: Stage) -> None:
        net = model()
        outer = tj.optim.Adam(net.parameters(), 1e-2)

        def step(x: Any, y: Any, rate: float) -> float:
            fast = adapted(net, x, y, lambda p: tj.optim.SGD(p, lr=rate, momentum=0.5))
            loss = F.mse_loss(fast(x + 1), y)
            grads = tj.autograd.grad(loss, list(fast.parameters()))
            outer.zero_grad()
            for p, g in zip(net.parameters(), grads, strict=True):
                p.grad = g
            outer.step()
            return loss.item()

        compiled = stage.compile(step)
        for k in range(8):
            stage.call(compiled, *batch(k), 0.1 + 0.01 * k * varying)
            stage.note("weights", list(net.parameters()))

    check(scenario, compiled=4)


NAMES = ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop")


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", [*NAMES, "Rprop", "ASGD", "Adafactor"])
def test_optimizers(name: str) -> None:
    def scenario(stage: Stage) -> None:
        net = model()

        def run(x: Any, y: Any) -> Any:
            fast = adapted(net, x, y, lambda p: getattr(tj.optim, name)(p, lr=0.05))
            return [p.detach() for p in fast.parameters()]

        compiled = stage.compile(run)
        for k in range(4):
            stage.call(compiled, *batch(k))

    check(scenario, compiled=3, recorded=1)


def test_optimizer_over_parameters_from_outside() -> None:
    def scenario(stage: Stage) -> None:
        net = model()

        def run(x: Any, y: Any) -> Any:
            optimizer = tj.optim.Adam(net.parameters(), lr=0.05)
            optimizer.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        compiled = stage.compile(run)
        for k in range(5):
            stage.call(compiled, *batch(k))
            stage.note("weights", list(net.parameters()))

    check(scenario, compiled=3)


@pytest.mark.parametrize("plateau", [False, True])
def test_schedules(plateau: bool) -> None:
    def scenario(stage: Stage) -> None:
        def run(x: Any, y: Any) -> Any:
            w = tj.zeros(3, 1, requires_grad=True)
            optimizer = tj.optim.SGD([w], lr=0.5)
            kinds = tj.optim.lr_scheduler
            plan: Any = (
                kinds.ReduceLROnPlateau(optimizer, patience=0)
                if plateau
                else kinds.CosineAnnealingLR(optimizer, 5)
            )
            rates = []
            for _ in range(4):
                optimizer.zero_grad()
                loss = ((x @ w - y) ** 2).mean()
                loss.backward()
                optimizer.step()
                plan.step(loss.item()) if plateau else plan.step()
                rates += plan.get_last_lr()
            optimizer.param_groups[0]["lr"] = 2.0
            return w.detach(), rates, optimizer.param_groups[0]["lr"]

        compiled = stage.compile(run)
        for k in (0, 1, 0, 1, 0, 1, 0, 1, 2, 0, 1, 2):
            stage.call(compiled, *batch(k))

    check(scenario, compiled=4)


def test_decisions_and_errors_on_the_way() -> None:
    """Branches of an inner loop are guards; an error in the middle leaves nothing behind."""

    def scenario(stage: Stage) -> None:
        net = model()
        seen = tj.zeros(())

        def run(x: Any, y: Any, limit: float) -> Any:
            weight = nn.Parameter(x.mean() * 2)
            optimizer = tj.optim.SGD([weight], lr=0.1)
            seen.add_(1)
            for _ in range(4):
                loss = (weight * net(x) - y).square().mean()
                if loss < limit:
                    break
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if x.sum() > 4:
                raise ValueError("too much")
            return weight.detach(), loss.item() > limit

        compiled = stage.compile(run)
        for k in range(14):
            stage.call(compiled, *batch(k % 7), 0.8)
            stage.note("seen", seen)
            for p in net.parameters():
                stage.note("no gradients are left", p.grad is None)
            net.zero_grad()

    check(scenario, compiled=4)


def test_state_that_the_copied_module_has_is_guarded() -> None:
    def scenario(stage: Stage) -> None:
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))

        def run(x: Any) -> Any:
            twin = copy.deepcopy(net)
            with tj.no_grad():
                for p in twin.parameters():
                    p.mul_(0.5)
            out = twin(x)
            grads = [p.grad is not None for p in twin.parameters()]
            return out.detach(), list(twin.buffers()), grads

        compiled = stage.compile(run)
        for k in range(12):
            if k == 4:
                net.eval()
            if k == 8:
                net(batch(0)[0]).sum().backward()
            stage.call(compiled, batch(k)[0])
            stage.note("buffers", list(net.buffers()))
            with tj.no_grad():
                net[0].weight.add_(0.1)

    check(scenario, compiled=8)


def test_modules_made_inside() -> None:
    def scenario(stage: Stage) -> None:
        class Scaled(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("by", tj.full((3,), 2.0))
                self.shift = nn.Buffer(tj.ones(3))
                self.weight = nn.Parameter(tj.randn(3))

            def forward(self, x: Any) -> Any:
                self.by.add_(x.sum())
                return x * self.by * self.weight + self.shift

        def run(x: Any) -> Any:
            layer, other = nn.Linear(3, 2), Scaled()
            with tj.no_grad():
                return layer(other(x))

        compiled = stage.compile(run)
        for k in range(5):
            stage.call(compiled, batch(k)[0])

    check(scenario, compiled=4, recorded=1)


def test_parameters_that_show_other_tensors() -> None:
    """What is written to a parameter is written to the tensor whose memory it shows."""

    def scenario(stage: Stage) -> None:
        weight = tj.ones(3)

        def run(x: Any) -> Any:
            mine, theirs = nn.Parameter(weight), nn.Parameter(x[0])
            optimizer = tj.optim.SGD([mine, theirs], lr=0.1)
            ((mine - theirs) * x).square().sum().backward()
            optimizer.step()
            return mine.detach() * 2, mine.grad + theirs.grad

        compiled = stage.compile(run)
        for k in range(4):
            stage.call(compiled, batch(k)[0])
            stage.note("weight", weight)

    check(scenario)


def test_what_is_not_recorded_says_so() -> None:
    net = model()

    def counted(x: Any, y: Any) -> Any:
        fast = copy.deepcopy(net)
        optimizer = tj.optim.Adam(fast.parameters())
        F.mse_loss(fast(x), y).backward()
        optimizer.step()
        return optimizer.state[next(fast.parameters())]["step"] * 1.0

    def handed_out(x: Any, y: Any) -> Any:
        return copy.deepcopy(net)(x).sum() + y.sum()

    outer = tj.optim.SGD(net.parameters(), lr=0.1)
    stored = pickle.dumps(nn.Parameter(tj.ones(5, 1)))

    def copied(x: Any, y: Any) -> Any:
        fast, optimizer = copy.deepcopy((net, outer))
        F.mse_loss(fast(x), y).backward()
        optimizer.step()
        return fast(x).detach().sum()

    def unpickled(x: Any, y: Any) -> Any:
        parameter = pickle.loads(stored)
        with tj.no_grad():
            return parameter.add_(y).sum() + x.sum()

    for function, reason in (
        (counted, "step count"),
        (handed_out, "new leaf"),
        (copied, "a copy of an optimizer"),
        (unpickled, "a Parameter is made"),
    ):
        compiled = tj.compile(function)
        for k in range(3):
            expected = function(*batch(k))
            found = compiled(*batch(k))
            assert found.item() == expected.item()
        assert compiled.stats.compiled_calls == 0
        assert any(reason in r for r in compiled.reasons), compiled.reasons


@pytest.mark.parametrize("option", ["strict", "verify"])
def test_strict_and_verified(option: str) -> None:
    net = model()

    def run(x: Any, y: Any) -> Any:
        fast = adapted(net, x, y, lambda p: tj.optim.AdamW(p, lr=0.1))
        return fast(x).detach()

    compiled = tj.compile(run, **{option: True})
    for k in range(4):
        found = compiled(*batch(k))
        np.testing.assert_allclose(found.numpy(), run(*batch(k)).numpy(), rtol=1e-5, atol=1e-6)
    assert compiled.stats.compiled_calls == 3


@pytest.mark.parametrize("convert", ["to", "double", "half"])
def test_a_module_made_inside_is_converted(convert):
    def use(x):
        module = nn.Module()
        module.register_buffer("kernel", x[:1] * 2)
        module.to(tj.float64) if convert == "to" else getattr(module, convert)()
        return module.kernel, module.kernel.double() + x.sum()

    compiled = tj.compile(use)
    for start in range(4):
        x = tj.tensor([1.0 + start, 2.0])
        for found, expected in zip(compiled(x), use(x), strict=True):
            assert found.dtype is expected.dtype
            assert found.tolist() == expected.tolist()
