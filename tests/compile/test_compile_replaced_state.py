"""compile(): steps of optimizers that users derive and that replace the tensors in their state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn


class Heavy(tj.optim.Optimizer):
    """Momentum that is another tensor after every step."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.05})

    @tj.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if len(state) == 0:
                    state["buf"] = tj.zeros_like(p)
                state["buf"] = state["buf"] * 0.9 + p.grad
                p.add_(state["buf"], alpha=-group["lr"])


class Layerwise(Heavy):
    """Counts steps, and notes norms for others to see."""

    def __init__(self, params: Any, totals: bool = True) -> None:
        super().__init__(params)
        self.totals = totals

    @tj.no_grad()
    def step(self) -> None:
        total = None
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["mean"], state["square"] = tj.zeros_like(p), tj.zeros_like(p)
                state["step"] += 1
                state["mean"] = state["mean"] * 0.9 + p.grad * 0.1
                state["square"].mul_(0.99).addcmul_(p.grad, p.grad, value=0.01)
                update = state["mean"] / (state["square"].sqrt() + 1e-4)
                state["norms"] = p.norm(), update.norm()
                state["latest"] = [update, *state.get("latest", [])][:2]
                p.sub_(update * (group["lr"] / state["step"]) * state["norms"][0])
                total = update.norm() if total is None else total + update.norm()
        if self.totals:
            self.state["total"] = total


class Counting(Heavy):
    """Counts steps in its groups, and keeps other numbers there."""

    @tj.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            if "step" not in group:
                group["step"], group["weight"] = 0, 0.0
            group["step"] += 1
            group["weight"] += group["lr"] ** 2
            for p in group["params"]:
                state = self.state[p]
                norm = tj.linalg.norm(p).clamp_(max=10.0)
                correction = 1 - 0.9 ** group["step"]
                p.sub_(p.grad * (group["lr"] / correction) * norm + group["weight"] * 1e-3)
                state["norm"] = norm


class Sharp(tj.optim.Optimizer):
    """Goes up, and back from there; it has no step of its own."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"rho": 0.05})
        self.base = tj.optim.SGD(self.param_groups, lr=0.05, momentum=0.9)
        self.param_groups = self.base.param_groups

    @tj.no_grad()
    def up(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                by = p.grad * group["rho"]
                p.add_(by)
                self.state[p]["by"] = by

    @tj.no_grad()
    def down(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(self.state[p]["by"])
        self.base.step()


class Passing(Heavy):
    """What it puts into the state is gone at the end of a step."""

    @tj.no_grad()
    def step(self) -> None:
        for p in self.param_groups[0]["params"]:
            self.state[p]["twice"] = p.grad * 2
        for p in self.param_groups[0]["params"]:
            p.sub_(self.state[p].pop("twice"), alpha=0.05)


RULES = [Heavy, Layerwise, Counting, Sharp, Passing]


class Job:
    """A network, its optimizer, and what somebody else keeps of the state."""

    def __init__(self, rule: Callable[[Any], Any], compiles: bool) -> None:
        tj.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        self.optimizer = rule(self.model.parameters())
        self.params = list(self.model.parameters())
        self.kept: list[Any] = []
        self.run = tj.compile(self.step) if compiles else self.step

    def step(self, x: Any) -> Any:
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        if isinstance(self.optimizer, Sharp):
            self.optimizer.up()
            self.optimizer.zero_grad()
            self.model(x).square().mean().backward()
            self.optimizer.down()
        else:
            self.optimizer.step()
        return loss.detach()

    def seen(self, value: Any) -> Any:
        """Values, with versions and the first place at which a tensor or its memory turned up."""
        known: dict[Any, int] = {}

        def look(x: Any) -> Any:
            if isinstance(x, tj.Tensor):
                memory = x.detach().numpy().ctypes.data
                who = [known.setdefault(key, len(known)) for key in (id(x), ("memory", memory))]
                return [str(x.dtype), x.requires_grad, x._version, *who, x.tolist()]
            if isinstance(x, dict):
                return [
                    [len(k.shape) if isinstance(k, tj.Tensor) else k, look(v)] for k, v in x.items()
                ]
            return [type(x).__name__, *map(look, x)] if isinstance(x, (list, tuple)) else x

        return look([value, self.params, dict(self.optimizer.state), self.kept])


def plain_numbers(value: Any) -> list[Any]:
    return [y for x in value for y in plain_numbers(x)] if isinstance(value, list) else [value]


def agree(found: Any, expected: Any) -> None:
    pairs = zip(plain_numbers(found), plain_numbers(expected), strict=True)
    for a, b in pairs:
        assert type(a) is type(b)
        assert a == b or np.isclose(a, b, rtol=1e-4, atol=1e-6, equal_nan=True)


def nothing(job: Job, call: int) -> None:
    pass


def keep(job: Job, call: int) -> None:
    """Another has the tensors too, and writes to them."""
    for state in job.optimizer.state.values():
        if isinstance(state, dict):
            job.kept += [x for x in state.values() if isinstance(x, tj.Tensor)]
    if call == 7:
        for x in job.kept:
            x.mul_(0.5)
    if call == 9:
        job.kept.clear()


def change(job: Job, call: int) -> None:
    """Tensors of another type, the parameter's own memory, one tensor in two places."""
    state = job.optimizer.state[job.params[0]]
    names = [k for k, x in state.items() if isinstance(x, tj.Tensor)]
    if call == 6:
        state.update({k: state[k].double() for k in names})
    if call == 8:
        state.update({k: state[k].float() for k in names})
    if call == 10:
        state.update({k: job.params[0].detach() for k in names})
    if call == 12:
        state.update(dict.fromkeys(names, tj.ones(4, 3)))


def begin_again(job: Job, call: int) -> None:
    if call == 6:
        job.optimizer.state.clear()
    if call == 9:
        job.optimizer.load_state_dict(job.optimizer.state_dict())
    if call == 11:
        job.optimizer.state[job.params[1]].clear()


def tune(job: Job, call: int) -> None:
    """Another rate for every call, as schedules set it."""
    for group in job.optimizer.param_groups:
        group["lr"] = 0.1 / (call + 1)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("between", [nothing, keep, change, begin_again, tune])
@pytest.mark.parametrize("rule", RULES)
def test_states_that_a_step_replaces(rule: Any, between: Any) -> None:
    found, expected = Job(rule, True), Job(rule, False)
    for call in range(16):
        x = tj.tensor([[0.5, -1.0, 0.1 * call], [call - 3.0, 0.25, 1.0]])
        pairs = []
        for job in (found, expected):
            between(job, call)
            try:
                pairs.append(job.seen(job.run(x)))
            except (KeyError, RuntimeError) as error:
                pairs.append([type(error).__name__])
        agree(*pairs)
    if between is nothing or (between is tune and rule is Counting):
        assert found.run.stats.compiled_calls >= 11, found.run.explain()
    assert "thread" not in str(found.run.explain())


def test_many_parameters_with_many_places() -> None:
    tj.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(3, 3) for _ in range(40)])
    optimizer = Layerwise(model.parameters(), totals=False)

    @tj.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(8):
        step(tj.ones(2, 3))
    assert optimizer.state[next(model.parameters())]["step"] == 8
    assert step.stats.compiled_calls >= 3, step.explain()


def test_states_of_optimizers_of_the_package_may_not_be_replaced() -> None:
    w = nn.Parameter(tj.ones(3))
    optimizer = tj.optim.SGD([w], lr=0.1, momentum=0.9)

    @tj.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        optimizer.state[w]["momentum_buffer"] = optimizer.state[w]["momentum_buffer"] * 0.5
        return w.sum()

    for _ in range(5):
        step(tj.ones(3))
    assert step.stats.compiled_calls == 0
    said = str(step.explain())
    assert "changing the state of an optimizer" in said
    assert "thread" not in said
