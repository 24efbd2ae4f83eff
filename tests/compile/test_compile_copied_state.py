"""compile(): state that is copied to other state within a step, averages and target networks among it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj


@pytest.mark.parametrize("shown", [False, True], ids=["written", "returned too"])
def test_all_tensors_that_get_one_value_are_written(shown: bool) -> None:
    """As a network that another one is copied to, within a step."""

    def make() -> Any:
        online, target, other = tj.tensor([1.0, 2.0]), tj.tensor([0.5, -1.0]), tj.zeros(2)

        def step(x: Any) -> Any:
            online.add_((target * x + other).sum() * x, alpha=-0.1)
            other.copy_(online)
            target.copy_(online)
            return (x.sum(), online * 1) if shown else x.sum()

        return step, (online, target, other)

    eager, expected = make()
    function, found = make()
    compiled = tj.compile(function, strict=True)
    for call in range(4):
        x = tj.tensor([0.5, 0.25 * call])
        eager(x)
        compiled(x)
        assert [t.tolist() for t in found] == [t.tolist() for t in expected]
        assert [t._version for t in found] == [t._version for t in expected]
    assert compiled.stats.compiled_calls == 3


def followed(how: str) -> tuple[Any, list[Any]]:
    """A step of one network, after which another one follows it by what is assigned to ``.data``."""
    tj.manual_seed(0)
    leader, follower = tj.nn.Linear(3, 2), tj.nn.Linear(3, 2)
    for parameter in follower.parameters():
        parameter.requires_grad_(how == "that require grad")
    optimizer = tj.optim.SGD(leader.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        before = follower.weight.data if how == "memory from before is read" else None
        with tj.no_grad():
            aim = follower(x)
        loss = (leader(x) - aim).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for own, given in zip(follower.parameters(), leader.parameters(), strict=True):
            own.data = own.data * 0.9 + given.data * 0.1
        if how == "twice":
            follower.weight.data = follower.weight.data.clamp(-0.2, 0.2)
        if before is not None:
            return loss.detach(), before * 1, follower.weight.detach() * 2
        return (loss.detach(),)

    return step, [*leader.parameters(), *follower.parameters()]


@pytest.mark.parametrize(
    "how", ["plain", "twice", "that require grad", "memory from before is read"]
)
def test_what_is_assigned_to_data(how: str) -> None:
    eager, expected = followed(how)
    function, found = followed(how)
    compiled = tj.compile(function, strict=True)
    kept: list[tuple[Any, list[float]]] = []
    for call in range(6):
        x = tj.linspace(-1, call, 12).reshape(4, 3)
        for a, b in zip(compiled(x), eager(x), strict=True):
            np.testing.assert_allclose(a.tolist(), b.tolist(), rtol=1e-5, atol=1e-7)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.tolist(), b.tolist(), rtol=1e-5, atol=1e-7)
            assert a._version == b._version
        assert all(alias.tolist() == numbers for alias, numbers in kept)  # they keep the old memory
        kept.append((found[2].detach(), found[2].tolist()))
    assert compiled.stats.compiled_calls == 5, compiled.explain()


@pytest.mark.parametrize(
    ("assign", "compiled"),
    [
        (lambda a, b, x: setattr(b, "data", a.data), 0),  # two tensors would share memory
        (lambda a, b, x: (setattr(b, "data", b.data * x), b.data.mul_(2)), 3),
        (lambda a, b, x: (b.data.mul_(2), setattr(b, "data", b.data * x)), 3),
        (lambda a, b, x: setattr(b, "data", tj.stack([b.data * x] * 2).T[:, 0]), 0),
    ],
    ids=["shared", "changed later", "changed before", "a view"],
)
def test_what_is_assigned_to_data_in_other_ways(assign: Any, compiled: int) -> None:
    def run(compiling: bool) -> Any:
        a, b = tj.tensor([1.0, 2.0]), tj.tensor([0.5, -1.0])

        def step(x: Any) -> Any:
            assign(a, b, x)
            return (a * b * x).sum()

        function = tj.compile(step) if compiling else step
        results = [function(tj.tensor([1.0, 0.5])).item() for _ in range(4)]
        a.add_(1)
        return results, b.tolist(), function

    expected, found = run(False), run(True)
    assert found[:2] == expected[:2]
    assert found[2].stats.compiled_calls == compiled


@pytest.mark.sampled(2)
@pytest.mark.parametrize("own", [False, True], ids=["buffer", "parameter"])
@pytest.mark.parametrize(
    "write",
    [
        lambda b, a, y: b.copy_(a),
        lambda b, a, y: b.copy_(y),
        lambda b, a, y: b.lerp_(a, 0.25),
        lambda b, a, y: b[:2].copy_(y[:2]),
        lambda b, a, y: b.add_(y),
    ],
    ids=["copied", "of the tape", "mixed", "in part", "added"],
)
def test_what_is_on_the_tape_is_written_under_no_grad(write: Any, own: bool) -> None:
    """Its values alone: no gradient leads through them."""

    def run(compiling: bool) -> Any:
        a = tj.tensor([0.5, -1.0, 0.25], requires_grad=True)
        b = tj.tensor([1.0, 2.0, -0.5], requires_grad=own)

        def step(x: Any) -> Any:
            y = (a * x).tanh()
            with tj.no_grad():
                write(b, a, y)
            return (y * b.detach()).sum() + ((b * x).sum() if not own else 0)

        function = tj.compile(step, strict=True) if compiling else step
        found = []
        for call in range(4):
            a.grad = None
            loss = function(tj.tensor([1.0, 0.5 * call, -1.0]))
            loss.backward()
            found.append([loss.item(), *a.grad.tolist(), *b.tolist()])
        assert b.grad is None
        assert b.is_leaf
        return found, function

    expected, _ = run(False)
    found, function = run(True)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert function.stats.compiled_calls == 3
