"""compile(): steps that freeze and thaw networks from outside, and leave them so."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn


def flag(net: nn.Module, on: bool) -> None:
    for p in net.parameters():
        p.requires_grad_(on)


class Pair:
    """Two networks that are trained against each other."""

    def __init__(self) -> None:
        tj.manual_seed(0)
        self.made = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))
        self.judge = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        self.of_made = tj.optim.Adam(self.made.parameters(), 0.05)
        self.of_judge = tj.optim.SGD(self.judge.parameters(), 0.1, momentum=0.5)

    def judged(self, x: Any) -> Any:
        self.of_judge.zero_grad()
        loss = self.judge(self.made(x)).mean() - self.judge(x).mean()
        loss.backward()
        self.of_judge.step()
        return loss

    def fooled(self, x: Any) -> Any:
        self.of_made.zero_grad()
        loss = -self.judge(self.made(x)).mean()
        loss.backward()
        self.of_made.step()
        return loss

    def state(self) -> Any:
        parameters = [*self.made.parameters(), *self.judge.parameters()]
        return [
            (p.requires_grad, p.tolist(), None if p.grad is None else p.grad.tolist())
            for p in parameters
        ]


def judge_left_frozen(pair: Pair, x: Any) -> Any:
    flag(pair.made, False)
    flag(pair.judge, True)
    first = pair.judged(x)
    flag(pair.made, True)
    flag(pair.judge, False)
    return first, pair.fooled(x)


def judge_thawed_after_it_was_read(pair: Pair, x: Any) -> Any:
    flag(pair.judge, False)
    first = pair.fooled(x)
    flag(pair.judge, True)
    second = pair.judged(x).detach()
    flag(pair.judge, False)
    return first.detach(), second


def clipped_while_frozen(pair: Pair, x: Any) -> Any:
    found = []
    for _ in range(2):
        flag(pair.judge, True)
        found.append(pair.judged(x))
        flag(pair.judge, False)
        for p in pair.judge.parameters():
            p.clamp_(-0.2, 0.2)
    return (*found, pair.fooled(x).item())


def frozen_for_good(pair: Pair, x: Any) -> Any:
    flag(pair.made[0], False)
    return pair.fooled(x), pair.judged(x)


def frozen_when_it_does_well(pair: Pair, x: Any) -> Any:
    loss = pair.judged(x)
    flag(pair.made, bool(loss < 0.05))
    return loss


STEPS = [
    judge_left_frozen,
    judge_thawed_after_it_was_read,
    clipped_while_frozen,
    frozen_for_good,
    frozen_when_it_does_well,
]


def seen(step: Any, sizes: Any, verify: bool = False) -> tuple[list[Any], Any]:
    """What calls return and leave, and the function that was called."""
    pair, found = Pair(), []
    run = step if sizes is None else tj.compile(step, verify=verify)
    tj.manual_seed(1)
    for size in (4, 4, 4, 4, 6, 4, 6, 6):
        results = run(pair, tj.randn(size, 3))
        results = results if isinstance(results, tuple) else (results,)
        for r in results:
            if isinstance(r, tj.Tensor) and r.requires_grad:
                with pytest.raises(RuntimeError, match="second time"):
                    r.backward()
        found.append(([float(r) for r in results], pair.state()))
    return found, run


def close(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(close, a, b))
    return a == (pytest.approx(b, rel=1e-4, abs=1e-6) if type(b) is float else b)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("verify", [False, True], ids=["", "verified"])
@pytest.mark.parametrize("step", STEPS)
def test_steps_leave_networks_frozen(step: Any, verify: bool) -> None:
    expected, _ = seen(step, None)
    found, compiled = seen(step, (), verify)
    assert close(found, expected)
    assert compiled.stats.compiled_calls >= 3, compiled.explain()
    assert "requires_grad_() inside" not in str(compiled.explain())


def test_functions_that_freeze_in_turn() -> None:
    def one(pair: Pair, x: Any) -> Any:
        flag(pair.made, False)
        flag(pair.judge, True)
        return pair.judged(x).detach()

    def two(pair: Pair, x: Any) -> Any:
        flag(pair.made, True)
        flag(pair.judge, False)
        return pair.fooled(x).detach()

    def run(one: Any, two: Any) -> Any:
        pair, found = Pair(), []
        for k in range(6):
            x = tj.linspace(-1, 1, 12).reshape(4, 3) * k
            found.append((one(pair, x).item(), pair.state(), two(pair, x).item(), pair.state()))
        return found

    compiled = tj.compile(one), tj.compile(two)
    assert close(run(*compiled), run(one, two))
    assert all(f.stats.compiled_calls >= 4 for f in compiled)


def losses_outside(function: Any, kinds: Any) -> Any:
    """Gradients of losses that calls return, with the network frozen or not before each call."""
    pair, found = Pair(), []
    for frozen in kinds:
        flag(pair.judge, not frozen)
        x = tj.linspace(-1, 1, 12).reshape(4, 3)
        pair.made.zero_grad(), pair.judge.zero_grad()
        function(pair, x).backward()
        found.append(pair.state())
    return found


@pytest.mark.parametrize("leave", [True, False])
@pytest.mark.parametrize("read_before", [True, False])
def test_losses_that_are_gone_through_outside(leave: bool, read_before: bool) -> None:
    def thawed(pair: Pair, x: Any) -> Any:
        before = pair.judge(x).mean() if read_before else 0.0
        flag(pair.judge, True)
        loss = pair.judge(pair.made(x)).mean() + before
        flag(pair.judge, leave)
        return loss

    kinds = [True, True, True, False, False, False, True, True]
    assert close(losses_outside(tj.compile(thawed), kinds), losses_outside(thawed, kinds))


def test_attributes_are_asked_of_the_state_a_call_finds() -> None:
    pair = Pair()

    @tj.compile
    def step(x: Any) -> Any:
        scale = 2.0 if pair.judge[0].weight.requires_grad else 3.0
        flag(pair.judge, not pair.judge[0].weight.requires_grad)
        return x * scale

    found = [step(tj.ones(1)).item() for _ in range(8)]
    assert found == list(itertools.islice(itertools.cycle([2.0, 3.0]), 8))
    assert step.stats.compiled_calls >= 5, step.explain()
