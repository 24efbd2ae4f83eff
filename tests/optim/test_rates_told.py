"""Compiled steps that hand out the learning rates of schedules which step in them."""

from __future__ import annotations

from typing import Any

import pytest

import tracejit as tj
from tracejit import nn, optim
from tracejit.optim import lr_scheduler as lrs

MAKE: dict[str, Any] = {
    "one cycle": lambda o: lrs.OneCycleLR(o, max_lr=0.1, total_steps=40),
    "lambda": lambda o: lrs.LambdaLR(o, lambda e: 1 / (e + 1)),
    "cosine": lambda o: lrs.CosineAnnealingLR(o, 10),
    "steps": lambda o: lrs.StepLR(o, 3, 0.5),
    "sequential": lambda o: lrs.SequentialLR(
        o, [lrs.ConstantLR(o, 0.1, 3), lrs.ExponentialLR(o, 0.9)], [3]
    ),
    "chained": lambda o: lrs.ChainedScheduler([lrs.LinearLR(o), lrs.ExponentialLR(o, 0.9)]),
}


class Kept:
    def __init__(self) -> None:
        self.rates: list[float] = []


def returned(f: Any, optimizer: Any, schedule: Any, kept: Any, x: Any) -> Any:
    optimizer.step()
    schedule.step()
    return f(x), schedule.get_last_lr()[0]


def named(f: Any, optimizer: Any, schedule: Any, kept: Any, x: Any) -> Any:
    optimizer.step()
    schedule.step()
    return {"loss": f(x), "rates": schedule.get_last_lr()}


def appended(f: Any, optimizer: Any, schedule: Any, kept: Any, x: Any) -> Any:
    optimizer.step()
    schedule.step()
    kept.rates.append(schedule.get_last_lr()[-1])
    return f(x)


def before(f: Any, optimizer: Any, schedule: Any, kept: Any, x: Any) -> Any:
    rate = schedule.get_last_lr()[0]
    optimizer.step()
    schedule.step()
    return f(x) * rate, rate * 2


def both(f: Any, optimizer: Any, schedule: Any, kept: Any, x: Any) -> Any:
    rate = schedule.get_last_lr()
    optimizer.step()
    schedule.step()
    return f(x), rate[0] + 1, schedule.get_last_lr()[0]


def computed_with(f: Any, optimizer: Any, schedule: Any, kept: Any, x: Any) -> Any:
    optimizer.step()
    schedule.step()
    return f(x) * schedule.get_last_lr()[0]


def between(f: Any, optimizer: Any, schedule: Any, kept: Any, x: Any) -> Any:
    optimizer.step()
    schedule.step()
    rate = schedule.get_last_lr()[0]
    schedule.step()
    return f(x), rate


def plain(x: Any) -> Any:
    if isinstance(x, tj.Tensor):
        return x.tolist()
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    return [plain(v) for v in x] if isinstance(x, (list, tuple)) else x


def seen(step: Any, make: Any, compiled: bool) -> tuple[list[Any], Any]:
    tj.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = optim.SGD([{"params": [model.weight]}, {"params": [model.bias], "lr": 0.5}], lr=0.1)
    schedule, kept, found = make(optimizer), Kept(), []

    def run(x: Any) -> Any:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        return step(lambda x: model(x).sum(), optimizer, schedule, kept, x)

    f = tj.compile(run) if compiled else run
    for call in range(9):
        made = f(tj.ones(2, 3) * (call % 3))
        found.append((plain(made), list(kept.rates), [g["lr"] for g in optimizer.param_groups]))
    return found, f


@pytest.mark.sampled(6)
@pytest.mark.parametrize("make", MAKE)
@pytest.mark.parametrize("step", [returned, named, appended, before, both, computed_with, between])
def test_rates_that_schedules_tell(step: Any, make: str) -> None:
    expected, _ = seen(step, MAKE[make], False)
    found, f = seen(step, MAKE[make], True)

    def close(a: Any, b: Any) -> bool:
        if isinstance(a, dict):
            return list(a) == list(b) and close(list(a.values()), list(b.values()))
        if isinstance(a, (list, tuple)):
            return len(a) == len(b) and all(map(close, a, b))
        return type(a) is type(b) and a == pytest.approx(b, rel=1e-5, abs=1e-6)

    assert close(found, expected)
    assert f.stats.compiled_calls >= 4, f.explain()


def test_rates_that_are_set_between_calls() -> None:
    optimizer = optim.SGD([tj.ones(1, requires_grad=True)], lr=0.1)
    optimizer.step()
    schedule = lrs.ExponentialLR(optimizer, 0.5)

    @tj.compile(strict=True)
    def scaled(x: Any) -> Any:
        return x * schedule.get_last_lr()[0]

    for call in range(5):
        assert scaled(tj.ones(1)).item() == pytest.approx(0.1 * 0.5**call)
        schedule.step()
    assert scaled.stats.compiled_calls == 4


class Scaled(nn.Module):
    """A loss whose numbers are called as those of schedules are."""

    def __init__(self) -> None:
        super().__init__()
        self.gamma, self.step_size, self.total_steps, self.factor, self.power = 2.0, 3, 5, 0.5, 1.5

    def forward(self, x: Any) -> Any:
        y = x.abs() ** self.gamma * self.step_size + self.total_steps * self.factor
        return (y**self.power).sum()


class Growing(lrs.StepLR):
    """Changes what the schedules of the package leave as it is."""

    def get_lr(self) -> list[float]:
        self.gamma *= 0.9
        return [group["lr"] * self.gamma for group in self.optimizer.param_groups]


def stepped(make: Any, compiled: bool) -> tuple[list[Any], Any]:
    tj.manual_seed(0)
    model, scaled = nn.Linear(3, 2), Scaled()
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    schedule = make(optimizer)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = scaled(model(x))
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss.detach() * scaled.gamma

    f = tj.compile(step) if compiled else step
    return [f(x).item() for x in tj.randn(6, 4, 3)], f


@pytest.mark.parametrize("kind", ["one cycle", "steps", "sequential", "chained"])
def test_numbers_of_a_schedule_that_its_steps_leave_as_they_are(kind: str) -> None:
    expected, _ = stepped(MAKE[kind], False)
    found, f = stepped(MAKE[kind], True)
    assert found == pytest.approx(expected, rel=1e-5)
    assert f.stats.compiled_calls >= 4


class Layered(nn.Module):
    """Finds its layers by names that it computes."""

    def __init__(self) -> None:
        super().__init__()
        for i in range(2):
            self.add_module(f"layer{i}", nn.Linear(3, 3))

    def forward(self, x: Any) -> Any:
        for i in range(2):
            x = getattr(self, f"layer{i}")(x).tanh()
        return x


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("reads", [False, True])
def test_steps_of_models_that_compute_the_names_of_layers(kind: str, reads: bool) -> None:
    def trained(compiled: bool) -> tuple[list[float], Any]:
        tj.manual_seed(0)
        model = Layered()
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        schedule = MAKE[kind](optimizer)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            schedule.step()
            return loss.detach()

        def told(x: Any) -> Any:
            return step(x) * optimizer.param_groups[0]["lr"]

        chosen = told if reads else step
        f = tj.compile(chosen) if compiled else chosen
        return [f(x).item() for x in tj.randn(6, 4, 3)], f

    expected, _ = trained(False)
    found, f = trained(True)
    assert found == pytest.approx(expected, rel=1e-5)
    assert reads or f.stats.compiled_calls >= 4


def test_code_that_looks_at_all_attributes_of_a_schedule() -> None:
    def trained(compiled: bool) -> list[float]:
        tj.manual_seed(0)
        model = Layered()
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        schedule = lrs.StepLR(optimizer, 2, 0.5)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            schedule.step()
            counts = [v for v in vars(schedule).values() if type(v) is int]
            return loss.detach() * sum(counts)

        f = tj.compile(step) if compiled else step
        return [f(x).item() for x in tj.randn(6, 4, 3)]

    assert trained(True) == pytest.approx(trained(False), rel=1e-5)


def test_numbers_that_the_steps_of_a_users_schedule_change() -> None:
    expected, _ = stepped(lambda o: Growing(o, 2, 0.5), False)
    found, f = stepped(lambda o: Growing(o, 2, 0.5), True)
    assert found == pytest.approx(expected, rel=1e-5)
    assert "which a schedule sets in the same call" in str(f.explain())


def test_a_schedule_that_fails_ends_the_call_where_it_steps() -> None:
    """Compiled or not, what stands after the step has not happened, and what stands before it has."""

    def seen(compiling: bool) -> list[Any]:
        weight = nn.Parameter(tj.ones(3))
        optimizer = optim.RMSprop([weight], lr=0.1)
        schedule = lrs.CosineAnnealingLR(optimizer, 5)

        def step(x: Any) -> None:
            (weight * x).sum().backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=False)
            schedule.step()
            schedule.step()

        run = tj.compile(step) if compiling else step
        found: list[Any] = []
        for number in range(8):
            if number == 2:
                optimizer.add_param_group({"params": [nn.Parameter(tj.ones(3))]})
            try:
                run(tj.full((3,), 0.5))
            except ValueError as error:
                found.append(str(error))
            assert weight.grad is not None
            found += [schedule.last_epoch, weight._version, weight.grad._version]
            found += [*weight.grad.tolist()]
        return found

    expected = seen(False)
    assert any(isinstance(part, str) for part in expected)
    assert seen(True) == expected
