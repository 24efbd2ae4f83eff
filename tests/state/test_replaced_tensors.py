"""Tensors in attributes and containers that the program replaces between calls: calls read them like arguments."""

from __future__ import annotations

from typing import Any

import pytest

import tracejit as tj
from tracejit import nn

CALLS = 14


class Holder:
    """Something that hands over what a call works with."""

    def __init__(self) -> None:
        self.mask: Any = tj.ones(3)
        self.scale = 1.0
        self.parts: Any = {"a": tj.ones(3), "b": [tj.ones(3)]}


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(tj.ones(3))
        self.register_buffer("shift", tj.zeros(3))

    def forward(self, x: Any) -> Any:
        return x * self.weight + self.shift


def of_attribute(holder: Holder, x: Any) -> Any:
    return x * holder.mask


def of_items(holder: Holder, x: Any) -> Any:
    return x * holder.parts["a"] + holder.parts["b"][0]


def of_number(holder: Holder, x: Any) -> Any:
    return x * holder.mask * holder.scale


def written(holder: Holder, x: Any) -> Any:
    holder.mask.add_(x)
    return x - holder.mask


def left_there(holder: Holder, x: Any) -> Any:
    holder.parts["a"] = x * holder.mask
    return holder.parts["a"].sum()


def perhaps(holder: Holder, x: Any) -> Any:
    return x if holder.mask is None else x + holder.mask


FUNCTIONS = [of_attribute, of_items, of_number, written, left_there, perhaps]


def change(holder: Holder, call: int) -> None:
    """Other objects in all places."""
    holder.mask = tj.full((3,), float(call))
    holder.scale = 0.5 * call
    holder.parts["a"] = tj.full((3,), 1.0 + call)
    holder.parts["b"][0] = tj.full((3,), 2.0 * call)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_replaced_before_each_call(function: Any) -> None:
    holder, plain = Holder(), Holder()
    compiled = tj.compile(lambda x: function(holder, x))
    for call in range(CALLS):
        change(holder, call)
        change(plain, call)
        x = tj.arange(3.0) + call
        tj.testing.assert_close(compiled(x), function(plain, x), rtol=0, atol=0)
        tj.testing.assert_close(holder.mask, plain.mask, rtol=0, atol=0)
        tj.testing.assert_close(holder.parts["a"], plain.parts["a"], rtol=0, atol=0)
    assert compiled.stats.compiled_calls >= CALLS // 2, compiled.explain()


def test_other_kinds_of_tensors_and_none() -> None:
    holder = Holder()
    compiled = tj.compile(lambda x: perhaps(holder, x))
    x = tj.arange(3.0)
    kinds = [
        tj.ones(3),
        None,
        tj.ones(1),
        tj.ones(3, dtype=tj.float64),
        tj.ones(2, 3),
        x,
        tj.ones(3),
    ]
    for call in range(4 * len(kinds)):
        given = kinds[call % len(kinds)]
        holder.mask = given if given is None or given is x else given + call
        expected = perhaps(holder, x)
        found = compiled(x)
        assert found.dtype == expected.dtype
        tj.testing.assert_close(found, expected, rtol=0, atol=0)
        assert (found is x) == (expected is x)


def test_gradients_reach_what_is_replaced() -> None:
    holder = Holder()
    compiled = tj.compile(lambda x: of_attribute(holder, x))
    for call in range(CALLS):
        leaf = tj.full((3,), float(call), requires_grad=call % 3 != 2)
        holder.mask = leaf * 2
        x = tj.arange(3.0).requires_grad_()
        compiled(x).sum().backward()
        tj.testing.assert_close(x.grad, tj.full((3,), 2.0 * call))
        if leaf.requires_grad:
            tj.testing.assert_close(leaf.grad, tj.arange(3.0) * 2)
    assert compiled.stats.compiled_calls >= CALLS // 2, compiled.explain()


def test_parameters_and_buffers_of_a_module() -> None:
    layer = Layer()
    compiled = tj.compile(layer)
    for call in range(CALLS):
        layer.weight = nn.Parameter(tj.full((3,), float(call)))
        layer.shift = tj.full((3,), 1.0 + call)
        compiled(tj.arange(3.0)).sum().backward()
        tj.testing.assert_close(layer.weight.grad, tj.arange(3.0))
        tj.testing.assert_close(compiled(tj.ones(3)), tj.full((3,), 2.0 * call + 1))


def test_features_that_two_networks_leave_in_one_dict() -> None:
    features: dict[str, Any] = {}
    teacher, student = nn.Linear(4, 3), nn.Linear(4, 3)
    teacher.register_forward_hook(lambda m, i, o: features.__setitem__("teacher", o.detach()))
    student.register_forward_hook(lambda m, i, o: features.__setitem__("student", o))
    compiled = tj.compile(student)
    for _ in range(20):
        x = tj.randn(5, 4)
        expected = teacher(x)
        out = compiled(x)
        tj.testing.assert_close(features["teacher"], expected)
        assert features["student"] is out
        student.zero_grad()
        (features["student"] - features["teacher"]).square().mean().backward()
        gradient = (2 / 15) * (out - expected).detach().T @ x
        tj.testing.assert_close(student.weight.grad, gradient)
    assert compiled.stats.recordings <= 7
    assert compiled.stats.compiled_calls >= 12, compiled.explain()


def test_what_is_replaced_once_is_a_constant_place() -> None:
    holder = Holder()
    compiled = tj.compile(lambda x: of_attribute(holder, x))
    for call in range(CALLS):
        if call == 5:
            holder.mask = tj.full((3,), 5.0)
        compiled(tj.ones(3))
    assert compiled.stats.recordings == 2
    assert not compiled.uses.held.known


def test_steps_that_go_backward_themselves() -> None:
    """Masks are replaced between training steps, whose guards also look at gradients and at the optimizer."""
    made = []
    for compiles in (False, True):
        tj.manual_seed(0)
        holder, layer = Holder(), nn.Linear(3, 2)
        optimizer = tj.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)

        def step(
            x: Any, holder: Any = holder, layer: Any = layer, optimizer: Any = optimizer
        ) -> Any:
            optimizer.zero_grad()
            loss = layer(x * holder.mask).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        run = tj.compile(step) if compiles else step
        losses = []
        for call in range(CALLS):
            holder.mask = tj.full((3,), 1.0 + call % 3)
            if call in (6, 9):
                optimizer.load_state_dict(optimizer.state_dict())
            losses.append(run(tj.arange(3.0)).item())
        made.append((losses, layer.weight.detach()))
    assert run.stats.compiled_calls >= 4, run.explain()
    assert made[0][0] == pytest.approx(made[1][0], rel=1e-5)
    tj.testing.assert_close(made[0][1], made[1][1], rtol=1e-5, atol=1e-6)
