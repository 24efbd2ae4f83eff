"""compile(): hooks on the gradients of leaves are code like any other, in backward passes inside compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn

Change = Callable[[Any], None]


class World:
    """A model in training, a hook on its first parameter, and what the hook reads and writes."""

    def __init__(self, hook: str, post: bool) -> None:
        tj.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        self.opt = tj.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.first = next(self.model.parameters())
        self.scale, self.seen = [0.5], tj.zeros(4, 3)
        self.calls: list[int] = []
        found = getattr(self, hook)

        def changed(parameter: Any) -> None:
            parameter.grad.copy_(found(parameter.grad))

        self.handle = (
            self.first.register_post_accumulate_grad_hook(changed)
            if post
            else self.first.register_hook(found)
        )

    def scaled(self, gradient: Any) -> Any:
        return gradient * self.scale[0]

    def clipped(self, gradient: Any) -> Any:
        return gradient.clamp(-0.01, 0.02) if gradient.abs().sum() > 0.1 else gradient

    def watched(self, gradient: Any) -> Any:
        self.seen.copy_(gradient)
        return gradient * 1

    def counted(self, gradient: Any) -> Any:
        self.calls.append(len(self.calls))
        return gradient * 2

    def step(self, x: Any) -> Any:
        self.opt.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.opt.step()
        return loss.detach()


def play(world: World, function: Callable[[Any], Any], changes: dict[int, Change]) -> list[float]:
    """Everything to be seen of nine steps."""
    found: list[float] = []
    for number in range(9):
        changes.get(number, lambda w: None)(world)
        loss = function(tj.ones(2, 3) * (number % 3 + 1))
        found += [loss.item(), len(world.calls), *world.seen.reshape(-1).tolist()]
        for p in world.model.parameters():
            found += [*p.detach().reshape(-1).tolist(), *p.grad.reshape(-1).tolist()]
    return found


def another(world: World) -> None:
    """One more hook."""
    world.first.register_hook(lambda g: g + 0.125)


CHANGES: dict[str, dict[int, Change]] = {
    "nothing": {},
    "what it reads": {4: lambda w: w.scale.__setitem__(0, 0.25)},
    "it goes": {4: lambda w: w.handle.remove()},
    "another one": {4: another},
    "it goes and another comes": {4: lambda w: w.handle.remove(), 5: another},
}


@pytest.mark.sampled(16)
@pytest.mark.parametrize("post", [False, True])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("hook", ["scaled", "clipped", "watched"])
def test_hooks_of_leaves_are_compiled(hook: str, change: str, post: bool) -> None:
    eager = World(hook, post)
    compiled = World(hook, post)
    f = tj.compile(compiled.step)
    expected = play(eager, eager.step, CHANGES[change])
    assert play(compiled, f, CHANGES[change]) == pytest.approx(expected, rel=2e-6, abs=1e-6)
    assert f.stats.compiled_calls >= 3, f.explain()


def test_a_hook_that_changes_python_state_runs_eagerly() -> None:
    world = World("counted", False)
    f = tj.compile(world.step)
    play(world, f, {})
    assert world.calls == list(range(9))
    assert f.stats.compiled_calls == 0
    assert "attribute 'calls'" in f.reasons[0]


def test_a_hook_on_an_argument_runs_eagerly() -> None:
    x = tj.ones(3, requires_grad=True)
    x.register_hook(lambda g: g * 2)

    def step(x: Any) -> None:
        (x * x).sum().backward()

    f = tj.compile(step)
    for _ in range(3):
        x.grad = None
        f(x)
        assert x.grad is not None
        assert x.grad.tolist() == [4.0] * 3
    assert "gradient hook" in f.reasons[0]
