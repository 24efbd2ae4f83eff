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
