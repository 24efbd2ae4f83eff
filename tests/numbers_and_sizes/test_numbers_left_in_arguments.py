"""Compiled functions that replace numbers in containers among their arguments: step counts, averages, best losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn, optim


@dataclass
class State:
    step: int = 0
    best: float = 9.0
    inner: dict[str, Any] = field(default_factory=lambda: {"n": 0})


@dataclass
class Doubling:
    """Sets its fields in a way of its own."""

    step: int = 0

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value * 2)


def in_dict(state: Any, x: Any) -> Any:
    state["step"] += 1
    return x * state["step"]


def in_list(state: Any, x: Any) -> Any:
    state[1] = state[0] * 0.5
    state[0] += 2
    return x + state[0]


def in_dataclass(state: Any, x: Any) -> Any:
    state.step += 1
    state.inner["n"] += state.step
    state.best = min(state.best, x.sum().item())
    return x * state.inner["n"]


def deciding(state: Any, x: Any) -> Any:
    state["step"] += 1
    return x * 2 if state["step"] % 4 == 0 else x


def averaged(state: Any, x: Any) -> Any:
    value = x.sum().item()
    state["total"] += value
    state["count"] += 1
    return state["total"] / state["count"]


def repeated(state: Any, x: Any) -> Any:
    for _ in range(5):
        state["step"] += 1
        x = x * 1.5
    return x + state["step"]


def own_setters(state: Any, x: Any) -> Any:
    state.step += 1
    return x * state.step


def other_type(state: Any, x: Any) -> Any:
    state["step"] = state["step"] + 0.5
    return x * state["step"]


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], Any], int]] = {
    "dict": (in_dict, lambda: {"step": 0, "name": "a"}, 8),
    "list": (in_list, lambda: [0, 0.0], 7),
    "dataclass": (in_dataclass, State, 4),
    "deciding": (deciding, lambda: {"step": 0}, 6),
    "averaged": (averaged, lambda: {"total": 0.0, "count": 0}, 5),
    "repeated": (repeated, lambda: {"step": 0}, 8),
    "setters": (own_setters, Doubling, 0),
    "another type": (other_type, lambda: {"step": 0}, 6),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_state_that_calls_are_given(name: str) -> None:
    program, make, least = PROGRAMS[name]
    compiled = tj.compile(program)
    expected_state, state = make(), make()
    for i in range(10):
        x = tj.ones(2) * (i + 1)
        expected, found = program(expected_state, x), compiled(state, x)
        assert type(found) is type(expected)
        tj.testing.assert_close(found, expected)
        assert state == expected_state
        assert repr(state) == repr(expected_state)
    assert compiled.stats.compiled_calls >= least


def test_a_state_made_for_each_call() -> None:
    compiled = tj.compile(in_dict)
    for _ in range(5):
        state = {"step": 3}
        assert compiled(state, tj.ones(1)).item() == 4
        assert state == {"step": 4}
    assert compiled.stats.compiled_calls >= 3


def test_one_container_under_two_names() -> None:
    def f(a: Any, b: Any, x: Any) -> Any:
        a["n"] += 1
        return x * b["n"]

    compiled = tj.compile(f)
    for i in range(5):
        assert compiled({"n": i}, {"n": 10 * i}, tj.ones(1)).item() == 10 * i
    assert compiled.stats.compiled_calls >= 3
    both = {"n": 5}
    assert compiled(both, both, tj.ones(1)).item() == 6
    assert both == {"n": 6}


KNOWN = {"n": 7}


def test_a_container_that_the_code_knows_by_another_name() -> None:
    def f(a: Any, x: Any) -> Any:
        a["n"] += 1
        return x * KNOWN["n"]

    compiled = tj.compile(f)
    for i in range(5):
        assert compiled({"n": i}, tj.ones(1)).item() == 7
    assert compiled(KNOWN, tj.ones(1)).item() == 8


def test_a_training_step_on_a_dict_of_everything() -> None:
    def trained(compiled: bool) -> tuple[list[float], Any]:
        tj.manual_seed(0)
        model = nn.Linear(3, 2)
        state = {"model": model, "optimizer": optim.Adam(model.parameters(), 0.1), "step": 0}

        def step_fn(state: Any, batch: Any) -> Any:
            rate = 0.1 * min(1.0, (state["step"] + 1) / 4)
            for group in state["optimizer"].param_groups:
                group["lr"] = rate
            state["optimizer"].zero_grad()
            loss = state["model"](batch).square().mean()
            loss.backward()
            state["optimizer"].step()
            state["step"] += 1
            return loss.detach()

        f = tj.compile(step_fn) if compiled else step_fn
        losses = [f(state, x).item() for x in tj.randn(9, 4, 3)]
        assert state["step"] == 9
        return losses, f

    expected, _ = trained(False)
    found, f = trained(True)
    assert found == pytest.approx(expected, rel=1e-5)
    assert f.stats.compiled_calls >= 4


def test_numbers_beside_other_changes() -> None:
    def f(state: Any, x: Any) -> Any:
        state["step"] += 1
        state["last"] = x * 2
        return x + 1

    compiled = tj.compile(f)
    state = {"step": 0, "last": tj.zeros(2)}
    for i in range(4):
        compiled(state, tj.ones(2) * i)
        assert state["step"] == i + 1
        assert state["last"].tolist() == [2 * i, 2 * i]
    assert compiled.stats.compiled_calls >= 2


def test_verified_calls() -> None:
    compiled = tj.compile(in_dict, verify=True)
    state = {"step": 0}
    assert [compiled(state, tj.ones(1)).item() for _ in range(4)] == [1, 2, 3, 4]
