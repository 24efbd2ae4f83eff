"""What optimizers written for PyTorch rely on: hooks around steps of their own, helpers, groups of older versions."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn, optim
from tracejit.optim import optimizer as optimizer_module


class Descent(optim.Optimizer):
    """A step of its own."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.5, "differentiable": False})

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("added", 5)

    @optimizer_module._use_grad_for_differentiable
    def step(self, closure: Any = None) -> Any:
        assert not tj.is_grad_enabled()
        for group in self.param_groups:
            for p in group["params"]:
                p.add_(p.grad, alpha=-group["lr"])
        return closure


class Around(optim.Optimizer):
    """Wraps another optimizer and makes none of its own state."""

    def __init__(self, inner: optim.Optimizer) -> None:
        self._optimizer_step_pre_hooks = {}
        self._optimizer_step_post_hooks = {}
        self._patch_step_function()
        self.inner, self.defaults, self.param_groups = inner, {}, inner.param_groups

    def step(self, closure: Any = None) -> Any:
        return self.inner.step()


def with_gradient() -> nn.Parameter:
    p = nn.Parameter(tj.ones(2))
    p.grad = tj.ones(2)
    return p


def test_steps_that_classes_define_call_hooks():
    optimizer, calls = Descent([with_gradient()]), []
    before = optimizer.register_step_pre_hook(lambda o, a, k: calls.append(("before", a, k)))
    optimizer.register_step_post_hook(lambda o, a, k: calls.append(("after", a, k)))
    optimizer.step()
    assert calls == [("before", (optimizer,), {}), ("after", (optimizer,), {})]
    before.remove()
    optimizer.register_step_pre_hook(lambda o, a, k: (a, {"closure": 3}))
    assert optimizer.step() == 3
    optimizer.register_step_pre_hook(lambda o, a, k: 1)
    with pytest.raises(RuntimeError, match="None or a tuple"):
        optimizer.step()


def test_hooks_of_all_optimizers():
    p, calls = with_gradient(), []
    made = [Descent([p]), optim.SGD([p]), Around(optim.Adam([p])), optim.LBFGS([p])]
    handles = [
        optimizer_module.register_optimizer_step_pre_hook(
            lambda o, a, k: calls.append(f"<{type(o).__name__}")
        ),
        optimizer_module.register_optimizer_step_post_hook(
            lambda o, a, k: calls.append(f"{type(o).__name__}>")
        ),
    ]
    for optimizer in made:
        optimizer.step(*([lambda: (p * p).sum()] if isinstance(optimizer, optim.LBFGS) else []))
    expected = "<Descent Descent> <SGD SGD> <Around <Adam Adam> Around> <LBFGS LBFGS>"
    assert calls == expected.split()
    for handle in handles:
        handle.remove()
    made[0].step()
    assert len(calls) == 10


def test_groups_of_older_versions_are_completed_when_they_are_loaded():
    optimizer = Descent([with_gradient()])
    optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.param_groups[0]["added"] == 5
    assert (
        pickle.loads(pickle.dumps(optim.SGD([with_gradient()], lr=0.25))).param_groups[0]["lr"]
        == 0.25
    )


def test_helpers_of_optimizers():
    p = with_gradient()
    group = optim.Optimizer._group_tensors_by_device_and_dtype
    assert group([[p, p], []]) == {(p.device, p.dtype): ([[p, p], []], [])}
    assert group([[p], [None]], with_indices=True) == {(p.device, p.dtype): ([[p], [None]], [0])}
    for wrong in ([], [[]], [[p], [p, p]]):
        with pytest.raises(RuntimeError, match="list"):
            group(wrong)
    optimizer_module._device_dtype_check_for_fused(p)
    with pytest.raises(RuntimeError, match="floating point"):
        optimizer_module._device_dtype_check_for_fused(tj.arange(2))
    assert optimizer_module._get_scalar_dtype(is_fused=True) is tj.float32
    assert optim.Optimizer.profile_hook_step(Descent.step).__wrapped__ is Descent.step


@pytest.fixture
def double_by_default():
    tj.set_default_dtype(tj.float64)
    yield
    tj.set_default_dtype(tj.float32)


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("double_by_default")
@pytest.mark.parametrize("name", ["Adam", "NAdam", "ASGD", "Adadelta", "Rprop"])
@pytest.mark.parametrize("compiled", [False, True])
def test_counts_are_double_where_that_is_the_default(name, compiled):
    layer = tj.nn.Linear(2, 2)
    optimizer = getattr(tj.optim, name)(layer.parameters())

    def step():
        optimizer.zero_grad()
        layer(tj.ones(1, 2)).sum().backward()
        optimizer.step()

    call = tj.compile(step) if compiled else step
    for _ in range(4):
        call()
    state = optimizer.state[layer.weight]
    assert {x.dtype for x in state.values()} == {tj.float64}
    assert state["step"].item() == 4
    if name == "NAdam":
        expected = math.prod([0.9 * (1 - 0.5 * 0.96 ** (t * 4e-3)) for t in range(1, 5)])
        assert abs(state["mu_product"].item() - expected) < 1e-15


@pytest.mark.usefixtures("double_by_default")
def test_a_program_counts_in_single_precision():
    layer = tj.nn.Linear(2, 2)
    optimizer = tj.optim.Adam(layer.parameters(), fused=True)
    layer(tj.ones(1, 2)).sum().backward()
    optimizer.step()
    assert optimizer.state[layer.weight]["step"].dtype == tj.float32


@pytest.mark.parametrize(
    "name", [n for n in tj.optim.__all__ if n != "Optimizer" and n[0].isupper()]
)
def test_hyperparameters_are_looked_at_before_parameters(name):
    kind = getattr(tj.optim, name)
    for rate, words in ((tj.tensor([0.1, 0.2]), "1-element"), (-1.0, r"-1\.0")):
        with pytest.raises(ValueError, match=words):
            kind(None, lr=rate)


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.AdamW, optim.Adagrad])
def test_ways_of_a_step_that_exclude_each_other_are_refused(kind: Any) -> None:
    weight = nn.Parameter(tj.ones(1))
    for other in ("differentiable", "foreach"):
        with pytest.raises(RuntimeError, match=other):
            kind([weight], fused=True, **{other: True})


def test_rates_of_a_step_over_lists_are_numbers() -> None:
    weight, rate = nn.Parameter(tj.ones(1)), tj.tensor(0.5)
    for kind in (optim.Adam, optim.AdamW):
        for name, given in (("lr", {"lr": rate}), (r"betas\[0\]", {"betas": (rate, rate)})):
            with pytest.raises(ValueError, match=f"{name} as a Tensor is not supported"):
                kind([weight], foreach=True, **given)
            assert kind([weight], foreach=True, capturable=True, **given).param_groups
        with pytest.raises(ValueError, match=r"Tensor betas\[1\] must be 1-element"):
            kind([weight], betas=(rate, tj.ones(2) / 2))


def test_groups_that_tell_their_names_stand_beside_such_alone() -> None:
    first, second = nn.Parameter(tj.ones(1)), nn.Parameter(tj.ones(1))
    named = {"params": [second], "param_names": ["second"]}
    with pytest.raises(ValueError, match="group with names"):
        optim.SGD([{"params": [first]}, named])
    optimizer = optim.SGD([("first", first)])
    optimizer.add_param_group(named)
    assert [group["param_names"] for group in optimizer.param_groups] == [["first"], ["second"]]
