"""compile(): steps of optimizers that users derive, whose state and numbers change between calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn
from tracejit.optim.optimizer import register_optimizer_step_post_hook


class Lion(tj.optim.Optimizer):
    """Signs of averaged gradients; the state begins with the first step."""

    def __init__(self, params: Any, lr: float = 0.1, decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "decay": decay})

    @tj.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if len(state) == 0:
                    state["average"] = tj.zeros_like(p)
                average = state["average"]
                p.mul_(1 - group["lr"] * group["decay"])
                p.add_((0.9 * average + 0.1 * p.grad).sign(), alpha=-group["lr"])
                average.mul_(0.99).add_(p.grad, alpha=0.01)


class Plain(Lion):
    """The same with a step that nothing decorates."""

    def step(self, closure: Any = None) -> None:
        super().step()


def _clear(optimizer: tj.optim.Optimizer, saved: Any) -> None:
    optimizer.state.clear()


def _load(optimizer: tj.optim.Optimizer, saved: Any) -> None:
    optimizer.load_state_dict(saved)


def _rate(optimizer: tj.optim.Optimizer, saved: Any) -> None:
    optimizer.param_groups[0]["lr"] *= 0.5


def _decay(optimizer: tj.optim.Optimizer, saved: Any) -> None:
    optimizer.param_groups[0]["decay"] = 0.3


def _replace(optimizer: tj.optim.Optimizer, saved: Any) -> None:
    for state in optimizer.state.values():
        state["average"] = tj.ones_like(state["average"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rule", [Lion, Plain])
@pytest.mark.parametrize("change", [_clear, _load, _rate, _decay, _replace])
def test_what_changes_between_calls(
    rule: type[Lion], change: Callable[[tj.optim.Optimizer, Any], None]
) -> None:
    def train(compiled: bool) -> tuple[list[Any], Any]:
        tj.manual_seed(0)
        layer = nn.Linear(3, 2)
        optimizer = rule(layer.parameters())

        def step(x: tj.Tensor) -> tj.Tensor:
            optimizer.zero_grad()
            loss = layer(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        f: Any = tj.compile(step) if compiled else step
        seen, saved = [], None
        for number in range(10):
            if number == 5:
                change(optimizer, saved)
            seen.append(f(tj.randn(4, 3)).numpy().copy())
            seen += [s["average"].numpy().copy() for s in optimizer.state.values()]
            seen += [p.detach().numpy().copy() for p in layer.parameters()]
            if number == 1:
                state = optimizer.state_dict()
                saved = {
                    **state,
                    "state": {
                        i: {"average": s["average"].clone()} for i, s in state["state"].items()
                    },
                }
        return seen, f

    (expected, _), (found, f) = train(False), train(True)
    for a, b in zip(expected, found, strict=True):
        assert tj.allclose(tj.tensor(a), tj.tensor(b), atol=1e-6)
    assert f.stats.compiled_calls >= 5, f.explain()


class Counting(tj.optim.Optimizer):
    """Steps are counted in a tensor, and states set to what they are already."""

    def __init__(self, params: Any, read: Callable[[tj.Tensor], Any]) -> None:
        super().__init__(params, {"lr": 0.1})
        self.read = read

    @tj.no_grad()
    def step(self, closure: Any = None) -> None:
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            if "step" not in state:
                state["step"], state["average"] = tj.tensor(0.0), tj.zeros_like(p)
            state["step"] += 1
            state["average"] = state["average"].to(p.dtype)
            state["average"].mul_(0.9).add_(p.grad)
            p.add_(state["average"] * (-0.1 / (1 - 0.9 ** self.read(state["step"]))))


@pytest.mark.parametrize("read", [lambda step: step, lambda step: step.item()])
def test_states_set_to_what_they_are(read):
    def step(x, weight, optimizer):
        optimizer.zero_grad()
        (x * weight * weight).sum().backward()
        optimizer.step()

    outcomes, compiled = [], tj.compile(step)
    for call in (step, compiled):
        weight = tj.ones(3, requires_grad=True)
        optimizer = Counting([weight], read)
        for _ in range(12):
            call(tj.arange(3.0), weight, optimizer)
        outcomes.append((weight, optimizer.state[weight]))
    (weight, state), (other, same) = outcomes
    tj.testing.assert_close(other, weight)
    tj.testing.assert_close(same["average"], state["average"])
    assert same["step"].item() == state["step"].item() == 12
    assert compiled.stats.compiled_calls >= 8


class Counted(tj.optim.Optimizer):
    """Averages corrected for their beginning, by counts that are plain numbers in the state."""

    def __init__(self, params: Any, lr: float = 0.1, decay: float = 0.9) -> None:
        super().__init__(params, {"lr": lr, "decay": decay})

    @tj.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["step"], state["rate"] = 0, group["lr"]
                    state["average"] = tj.zeros_like(p)
                state["step"] += 1
                state["rate"] *= 0.99
                state["average"].lerp_(p.grad, 1 - group["decay"])
                p.add_(
                    state["average"], alpha=-state["rate"] / (1 - group["decay"] ** state["step"])
                )


def _reset(optimizer: tj.optim.Optimizer, saved: Any) -> None:
    for state in optimizer.state.values():
        state["step"] = 1


def _reload(optimizer: tj.optim.Optimizer, saved: Any) -> None:
    optimizer.load_state_dict(saved)


def _forget(optimizer: tj.optim.Optimizer, saved: Any) -> None:
    optimizer.state.clear()


def _apart(optimizer: tj.optim.Optimizer, saved: Any) -> None:
    state = optimizer.state[optimizer.param_groups[0]["params"][0]]
    state["step"] += 3


@pytest.mark.sampled(6)
@pytest.mark.parametrize("change", [None, _reset, _reload, _forget, _apart])
@pytest.mark.parametrize("times", [1, 2])
def test_counts_in_the_state_vary_and_are_not_recorded_anew(
    change: Callable[[Any, Any], None] | None, times: int
) -> None:
    ways = []
    for compiled in (False, True):
        tj.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = Counted(model.parameters())

        def train(x: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            for _ in range(times):
                optimizer.zero_grad()
                loss = model(x).square().mean()
                loss.backward()
                optimizer.step()
            return loss

        run = tj.compile(train) if compiled else train
        losses, saved = [], None
        for index in range(16):
            if index == 4:
                saved = optimizer.state_dict()
                saved = {**saved, "state": {k: dict(v) for k, v in saved["state"].items()}}
            if index == 8 and change is not None:
                change(optimizer, saved)
            losses.append(float(run(tj.ones(2, 3) * (1 + index % 3))))
        if isinstance(run, type(tj.compile(train))):
            assert run.stats.compiled_calls >= 5
            assert run.stats.recordings <= 8
        states = list(optimizer.state.values())
        assert all(type(s["step"]) is int and type(s["rate"]) is float for s in states)
        ways.append((losses, [(s["step"], s["rate"]) for s in states]))
    assert ways[1][0] == pytest.approx(ways[0][0], rel=1e-5)
    assert ways[1][1] == ways[0][1]


class Falling(tj.optim.Optimizer):
    """Counts its steps in the group, and lowers the rate there."""

    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, {"lr": lr})

    @tj.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            if "step" in group:
                group["step"] += 1
            else:
                group["step"] = 1
            group["lr"] *= 0.98
            for p in group["params"]:
                p.add_(p.grad, alpha=-group["lr"] / group["step"])


@pytest.mark.parametrize("scheduled", [False, True], ids=["by itself", "by the step around it"])
def test_numbers_in_groups_may_change_in_a_compiled_step(scheduled: bool) -> None:
    def trained(compiling: bool) -> Any:
        tj.manual_seed(0)
        layer = nn.Linear(3, 2)
        optimizer = Falling(layer.parameters())

        def step(x: Any, rate: float) -> Any:
            if scheduled:
                for group in optimizer.param_groups:
                    group["lr"] = rate
            optimizer.zero_grad()
            loss = layer(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = tj.compile(step) if compiling else step
        losses = []
        for call in range(9):
            losses.append(run(tj.linspace(-1, call, 6).reshape(2, 3), 0.1 / (call + 1)).item())
            if call == 5:
                optimizer.param_groups[0]["lr"] = 0.05  # between calls
        group = optimizer.param_groups[0]
        return [*losses, *layer.weight.flatten().tolist(), group["lr"], group["step"]], run

    expected, _ = trained(False)
    found, function = trained(True)
    assert found == pytest.approx(expected, rel=1e-5)
    assert function.stats.compiled_calls >= 5, function.explain()


def test_numbers_of_groups_that_the_package_updates_may_too() -> None:
    """Its steps use what was set before them."""
    layer = nn.Linear(3, 2)
    optimizer = tj.optim.SGD(layer.parameters(), lr=0.1)

    @tj.compile
    def step(x: Any) -> Any:
        optimizer.param_groups[0]["lr"] *= 0.5
        optimizer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(4):
        step(tj.ones(2, 3))
    assert step.stats.compiled_calls == 2
    assert optimizer.param_groups[0]["lr"] == 0.00625


class Shared(Lion):
    """Keeps what all parameters share under names: a tensor, a number, a dict."""

    def __init__(self, params: Any) -> None:
        super().__init__(params)
        self.state.update(k=tj.tensor([0]), n=0, d={"m": 1.0})

    @tj.no_grad()
    def step(self, closure: Any = None) -> None:
        self.state["k"] += 1
        self.state["n"] += 1
        for p in self.param_groups[0]["params"]:
            p.sub_(p.grad * self.state["d"]["m"] * self.state["k"] / self.state["n"])


@pytest.mark.parametrize("change", [{}, {"k": [7]}, {"n": 30}, {"d": {"m": 0.1}}], ids=str)
def test_states_under_names_are_looked_at(change: dict[str, Any]) -> None:
    def train(x: tj.Tensor, p: nn.Parameter, optimizer: Shared) -> tj.Tensor:
        p.grad = None
        (p * x).square().sum().backward()
        optimizer.step()
        return p.detach().sum()

    ways, compiled = [], tj.compile(train)
    for call in (train, compiled):
        p = nn.Parameter(tj.tensor([1.0, -2.0]))
        optimizer = Shared([p])
        seen = []
        for number in range(12):
            if number == 6:
                for key, value in change.items():
                    optimizer.state[key] = tj.tensor(value) if key == "k" else value
            seen.append(call(tj.tensor([0.1, 0.2]), p, optimizer).item())
        ways.append((seen, optimizer.state["k"].tolist(), optimizer.state["n"]))
    assert ways[1][0] == pytest.approx(ways[0][0], rel=1e-5)
    assert ways[1][1:] == ways[0][1:]
    assert compiled.stats.compiled_calls >= 5, compiled.explain()


SCALE = [1.0]


def _shrink(optimizer: Any, args: Any, kwargs: Any) -> None:
    for p in optimizer.param_groups[0]["params"]:
        p.data.mul_(0.9 * SCALE[0])


def _every(optimizer: Any) -> Any:
    return register_optimizer_step_post_hook(_shrink)


def _one(optimizer: Any) -> Any:
    return optimizer.register_step_post_hook(_shrink)


def _scale(optimizer: Any) -> None:
    SCALE[0] = 0.5


@pytest.mark.parametrize("rule", [Lion, tj.optim.Adam])
@pytest.mark.parametrize(("first", "then"), [(_one, _scale), (_one, _every), (_every, _scale)])
def test_hooks_of_steps_are_looked_at(rule: Any, first: Any, then: Any) -> None:
    def train(x: tj.Tensor, p: nn.Parameter, optimizer: Any) -> tj.Tensor:
        p.grad = None
        (p * x).square().sum().backward()
        optimizer.step()
        return p.detach().sum()

    ways = []
    for call in (train, tj.compile(train)):
        SCALE[0] = 1.0
        p = nn.Parameter(tj.tensor([1.0, -2.0]))
        optimizer = rule([p])
        handles, seen = [first(optimizer)], []
        for number in range(10):
            if number == 6:
                handles.append(then(optimizer))
            seen.append(call(tj.tensor([0.1, 0.2]), p, optimizer).item())
        for handle in handles:
            if handle is not None:
                handle.remove()
        ways.append(seen)
    assert ways[1] == pytest.approx(ways[0], rel=1e-5)
