"""Optimizers against PyTorch: parameters, groups and state after steps, and states loaded from one into the other."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of these tests")

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "ASGD": [{}, {"t0": 3, "lambd": 0.1}, {"maximize": True, "weight_decay": 0.1}],
    "Adadelta": [{}, {"rho": 0.5, "weight_decay": 0.1}],
    "Adafactor": [{}, {"lr": 0.1}],
    "Adagrad": [{}, {"lr_decay": 0.1, "initial_accumulator_value": 0.5}],
    "Adam": [{}, {"amsgrad": True}, {"fused": True}, {"decoupled_weight_decay": True}],
    "AdamW": [{}, {"amsgrad": True, "foreach": True}],
    "Adamax": [{}, {"betas": (0.3, 0.5)}],
    "LBFGS": [{"max_iter": 3}, {"line_search_fn": "strong_wolfe", "max_iter": 2}],
    "NAdam": [{}, {"momentum_decay": 0.1, "betas": (0.5, 0.6)}],
    "RAdam": [{}, {"betas": (0.5, 0.6)}],
    "RMSprop": [{}, {"centered": True, "momentum": 0.5}],
    "Rprop": [{}, {"etas": (0.3, 1.5)}],
    "SGD": [{}, {"momentum": 0.9, "dampening": 0.3}, {"momentum": 0.9, "nesterov": True}],
}
CASES = [(name, options) for name, each in OPTIONS.items() for options in each]


def made(t: Any, name: str, options: dict[str, Any], grouped: bool) -> tuple[list[Any], Any]:
    draw = np.random.default_rng(3).standard_normal
    parameters = [
        t.nn.Parameter(t.tensor(draw(shape).tolist(), dtype=t.float64)) for shape in ((4, 3), (4,))
    ]
    groups: Any = parameters
    if grouped:
        groups = [{"lr": 0.03, "params": parameters[:1]}, {"params": parameters[1:]}]
    return parameters, getattr(t.optim, name)(groups, **options)


def steps(t: Any, parameters: list[Any], optimizer: Any, count: int) -> None:
    x = t.tensor(np.random.default_rng(4).standard_normal((5, 3)).tolist(), dtype=t.float64)
    weight, bias = parameters

    def closure() -> Any:
        optimizer.zero_grad()
        loss = ((x @ weight.T + bias).tanh() - 0.5).square().sum()
        loss.backward()
        return loss

    for _ in range(count):
        optimizer.step(closure)


def same(ours: Any, theirs: Any) -> None:
    """Equal structure, kinds and nearly equal values; ``approx`` compares with data on one side only."""
    if isinstance(theirs, (dict, list, tuple)):
        assert len(ours) == len(theirs)
        if isinstance(theirs, dict):
            assert list(ours) == list(theirs)
            ours, theirs = list(ours.values()), list(theirs.values())
        for x, y in zip(ours, theirs, strict=True):
            same(x, y)
    elif isinstance(theirs, torch.Tensor):
        assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
        assert tuple(ours.shape) == tuple(theirs.shape)
        close = np.testing.assert_allclose
        close(ours.detach().tolist(), theirs.detach().tolist(), rtol=1e-4, atol=1e-7)
    else:
        assert type(ours) is type(theirs)
        assert (
            ours == pytest.approx(theirs, rel=1e-4) if isinstance(ours, float) else ours == theirs
        )


def moved(value: Any, source: Any, target: Any) -> Any:
    """A state with the tensors of the other library."""
    if isinstance(value, source.Tensor):
        return target.tensor(value.tolist(), dtype=getattr(target, str(value.dtype).split(".")[-1]))
    if isinstance(value, dict):
        return {k: moved(v, source, target) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(moved(v, source, target) for v in value)
    return value


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(("name", "options"), CASES, ids=[f"{n}-{o}" for n, o in CASES])
def test_states_and_groups_are_those_of_pytorch(
    name: str, options: dict[str, Any], grouped: bool
) -> None:
    if name == "LBFGS" and grouped:
        pytest.skip("one group only")
    found = []
    for t in (tj, torch):
        parameters, optimizer = made(t, name, options, grouped)
        steps(t, parameters, optimizer, 6)
        if "line_search_fn" in options:  # a number or a tensor, as the search ended
            state = optimizer.state[parameters[0]]
            state["t"] = float(state["t"])
        found.append((parameters, optimizer))
    (ours, our_optimizer), (theirs, their_optimizer) = found
    same(ours, theirs)
    same(our_optimizer.state_dict(), their_optimizer.state_dict())
    assert repr(our_optimizer) == repr(their_optimizer)

    other, loaded = made(tj, name, options, grouped)
    with tj.no_grad():
        for mine, value in zip(other, theirs, strict=True):
            mine.copy_(moved(value.detach(), torch, tj))
    loaded.load_state_dict(moved(their_optimizer.state_dict(), torch, tj))
    steps(tj, other, loaded, 3)
    steps(torch, theirs, their_optimizer, 3)
    same(other, theirs)

    other, loaded = made(torch, name, options, grouped)
    with torch.no_grad():
        for mine, value in zip(other, ours, strict=True):
            mine.copy_(moved(value.detach(), tj, torch))
    loaded.load_state_dict(moved(our_optimizer.state_dict(), tj, torch))
    steps(torch, other, loaded, 3)
    same(other, theirs)


@pytest.mark.parametrize(
    "options", [("SGD", {"momentum": 0.9}), ("Adam", {}), ("SGD", {"fused": True})]
)
def test_a_parameter_twice_in_a_group_is_updated_twice(options: tuple[str, dict[str, Any]]) -> None:
    found = []
    for t in (tj, torch):
        p = t.nn.Parameter(t.tensor([1.0, -2.0]))
        with pytest.warns(UserWarning, match="duplicate parameters"):
            optimizer = getattr(t.optim, options[0])([p, p], lr=0.1, **options[1])
        for _ in range(3):
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()
        found.append((p, optimizer.state_dict()))
    same(*found)


@pytest.mark.parametrize("name", ["SGD", "Adam", "NAdam", "ASGD", "Rprop", "RMSprop", "Adagrad"])
def test_differentiable_steps(name: str) -> None:
    found = []
    for t in (tj, torch):
        start = t.tensor([1.0, -2.0], dtype=t.float64, requires_grad=True)
        gradient = t.tensor([0.5, 0.25], dtype=t.float64, requires_grad=True)
        p = start.clone()
        p.grad = gradient
        optimizer = getattr(t.optim, name)([p], lr=0.1, differentiable=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer.step()
        (p * p).sum().backward()
        found.append((p, start.grad, gradient.grad))
    same(*found)


def hook_and_save(optimizer: Any, seen: list[Any]) -> None:
    optimizer.register_state_dict_pre_hook(lambda _: seen.append("save"))
    optimizer.register_state_dict_post_hook(lambda _, d: {**d, "more": 1})
    optimizer.register_load_state_dict_pre_hook(lambda _, d: seen.append(sorted(d)))
    optimizer.register_load_state_dict_pre_hook(lambda *_: seen.append("first"), prepend=True)
    handle = optimizer.register_load_state_dict_post_hook(lambda _: seen.append("loaded"))
    saved = optimizer.state_dict()
    optimizer.load_state_dict(saved)
    handle.remove()
    optimizer.load_state_dict(saved)


def test_hooks_of_saving_and_loading() -> None:
    found = []
    for t in (tj, torch):
        optimizer = t.optim.SGD([t.nn.Parameter(t.ones(2))], lr=0.1)
        seen: list[Any] = []
        found.append(seen)
        hook_and_save(optimizer, seen)
    assert found[0] == found[1]


SCHEDULES: dict[str, str] = {
    "LambdaLR": "s.LambdaLR(o, lambda e: 0.9**e)",
    "MultiplicativeLR": "s.MultiplicativeLR(o, lambda e: 0.9)",
    "StepLR": "s.StepLR(o, 3)",
    "MultiStepLR": "s.MultiStepLR(o, [2, 5, 5])",
    "ConstantLR": "s.ConstantLR(o, 0.5, 3)",
    "LinearLR": "s.LinearLR(o, 0.1, 0.8, 6)",
    "ExponentialLR": "s.ExponentialLR(o, 0.9)",
    "PolynomialLR": "s.PolynomialLR(o, 7, 2.0)",
    "CosineAnnealingLR": "s.CosineAnnealingLR(o, 4, 0.01)",
    "CosineAnnealingWarmRestarts": "s.CosineAnnealingWarmRestarts(o, 2, 2)",
    "OneCycleLR": "s.OneCycleLR(o, [0.3, 0.5], total_steps=25, three_phase=True)",
    "CyclicLR": "s.CyclicLR(o, 0.01, 0.1, 3, 5, mode='exp_range', gamma=0.9)",
    "ReduceLROnPlateau": "s.ReduceLROnPlateau(o, patience=1, cooldown=1, min_lr=[0.001, 0.002])",
    "SequentialLR": "s.SequentialLR(o, [s.LinearLR(o, 0.1), s.OneCycleLR(o, 0.2, 20)], [3])",
    "ChainedScheduler": "s.ChainedScheduler([s.LinearLR(o, 0.1), s.StepLR(o, 2)])",
}


def sorted_out(value: Any) -> Any:
    """A state without the order of its keys."""
    if isinstance(value, dict):
        return {k: sorted_out(value[k]) for k in sorted(value, key=str)}
    return [sorted_out(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("tensor", [False, True])
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_keep_and_set_what_those_of_pytorch_do(name: str, tensor: bool) -> None:
    found = []
    for t in (tj, torch):
        parameters = [t.nn.Parameter(t.ones(2)), t.nn.Parameter(t.ones(3))]
        rates = [t.tensor(x) if tensor else x for x in (0.1, 0.05)]
        groups = [{"params": [p], "lr": r} for p, r in zip(parameters, rates, strict=True)]
        o = t.optim.SGD(groups, momentum=0.9)
        schedule = eval(SCHEDULES[name], {"s": t.optim.lr_scheduler, "o": o})
        assert isinstance(schedule, t.optim.lr_scheduler.LRScheduler)
        shown = []
        for index in range(12):
            for p in parameters:
                p.grad = t.ones_like(p)
            o.step()
            schedule.step(*[abs(np.sin(index * 0.7))] if name == "ReduceLROnPlateau" else [])
            shown.append(schedule.get_last_lr())
            if tensor:
                assert all(g["lr"] is r for g, r in zip(o.param_groups, rates, strict=True))
        own = [{k: v for k, v in g.items() if k != "params"} for g in o.param_groups]
        found.append(sorted_out([shown, own, schedule.state_dict()]))
    same(*found)


def test_a_schedule_says_nothing_of_optimizers_that_step_themselves() -> None:
    for t in (tj, torch):
        p = t.nn.Parameter(t.ones(2))
        optimizer = t.optim.LBFGS([p])
        schedule = t.optim.lr_scheduler.StepLR(optimizer, 1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            optimizer.step(lambda p=p: (p * p).sum())
            schedule.step()


@pytest.mark.parametrize(
    ("name", "options"), [c for c in CASES if c[0] != "Adafactor" and "fused" not in c[1]]
)
@pytest.mark.parametrize("compiled", [False, True])
def test_complex_parameters(name: str, options: dict[str, Any], compiled: bool) -> None:
    draw = np.random.default_rng(5).standard_normal
    start = [draw(shape) + 1j * draw(shape) for shape in ((4, 3), (4,))]

    def run(t: Any) -> list[Any]:
        parameters = [t.tensor(x.tolist(), dtype=t.complex128).requires_grad_() for x in start]
        optimizer = getattr(t.optim, name)(parameters, **options)

        def step() -> None:
            def closure() -> Any:
                optimizer.zero_grad()
                loss = sum((p.abs() ** 2).sum() + p.real.sin().sum() for p in parameters)
                loss.backward()
                return loss

            optimizer.step(closure)

        function = tj.compile(step) if compiled and t is tj else step
        for _ in range(4):
            function()
        return [p.detach().numpy() for p in parameters]

    for ours, theirs in zip(run(tj), run(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)
