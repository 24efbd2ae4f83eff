"""compile(): a branch by which a run came that cannot be recorded leaves others alone, and is tried again."""

from __future__ import annotations

from typing import Any

import numpy as np

import tracejit as tj
from tracejit import nn


def accumulating(compiled: bool, momentum: float) -> tuple[Any, Any]:
    tj.manual_seed(0)
    net = nn.Linear(3, 1)
    optimizer = tj.optim.SGD(net.parameters(), lr=0.1, momentum=momentum)
    count = 0

    def step(x: Any) -> Any:
        nonlocal count
        (net(x).mean() / 3).backward()
        count += 1
        if count % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
            return count
        return None

    return (tj.compile(step) if compiled else step), net


def test_an_optimizer_makes_its_state_in_a_branch() -> None:
    (eager, plain), (step, net) = accumulating(False, 0.9), accumulating(True, 0.9)
    for k in range(30):
        x = tj.ones(2, 3) * (k % 5)
        assert eager(x) == step(x)
    for a, b in zip(plain.parameters(), net.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6)
    before = step.stats.compiled_calls
    for _ in range(6):
        step(tj.ones(2, 3))
    assert step.stats.compiled_calls == before + 6, step.explain()


def test_what_cannot_be_recorded_is_told_of_its_branch(tmp_path: Any) -> None:
    path = tmp_path / "log"

    def function(x: Any, k: int) -> Any:
        if k == 3:
            with path.open("a") as file:
                file.write("3")
        if k > 5:
            return x * 2
        return x * 3

    f = tj.compile(function)
    for k in (1, 2, 3, 2, 3, 2, 6, 7, 6, 7, 2, 3):
        assert f(tj.ones(1), k).item() == (2 if k > 5 else 3)
    assert path.read_text() == "333"
    before = f.stats.compiled_calls
    for k in (1, 6, 2, 7):
        f(tj.ones(1), k)
    assert f.stats.compiled_calls == before + 4, f.explain()
    assert "unseen branches run eagerly" in str(f.explain())


def test_branches_that_change_state_once() -> None:
    seen: dict[str, Any] = {}

    def function(x: Any, k: int) -> Any:
        if k % 3 == 2:
            if "table" not in seen:
                seen["table"] = tj.arange(2.0)
            return x + seen["table"]
        return x * 2

    f = tj.compile(function)
    for k in range(24):
        expected = [1.0, 2.0] if k % 3 == 2 else [2.0, 2.0]
        assert f(tj.ones(2), k).tolist() == expected
    before = f.stats.compiled_calls
    for k in range(6):
        f(tj.ones(2), k)
    assert f.stats.compiled_calls == before + 6, f.explain()


def test_hopeless_branches_are_tried_rarely(tmp_path: Any) -> None:
    path = tmp_path / "log"

    def function(x: Any, k: int) -> Any:
        if k % 2:
            with path.open("a") as file:
                file.write(".")
        return x * 2

    f = tj.compile(function)
    for k in range(200):
        f(tj.ones(1), k)
    assert path.read_text() == "." * 100
    assert f.stats.recordings < 16
