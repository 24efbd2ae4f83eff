"""Optimizers: formulae, groups, state, errors, and eager steps against recorded ones."""

from __future__ import annotations

import collections
import copy
import math
import pickle

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn, optim
from tracejit.ir import Builder
from tracejit.nn.structure import STRUCTURE_VERSION
from tracejit.trace.recording.inputs import Signature
from tracejit.trace.recording.recorder import Recorder, recording

CONFIGS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True, "betas": (0.3, 0.9)}),
    ("AdamW", {"lr": 0.01}),
    ("RMSprop", {"centered": True, "momentum": 0.5, "weight_decay": 0.1}),
    ("RMSprop", {"maximize": True}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.2, "weight_decay": 0.01}),
]


def parameter(*shape: int, seed: int = 0, dtype=np.float32):
    values = np.random.default_rng(seed).standard_normal(shape)
    return nn.Parameter(tj.from_numpy(np.asarray(values, dtype)))


def give_gradient(p, seed: int) -> None:
    values = np.random.default_rng(seed).standard_normal(tuple(p.shape))
    p.grad = tj.from_numpy(np.asarray(values, p.dtype.np))


def run(name, options, parameters, steps: int = 4):
    optimizer = getattr(optim, name)(parameters, **options)
    for step in range(steps):
        for index, p in enumerate(parameters):
            give_gradient(p, 100 * step + index)
        optimizer.step()
    return optimizer


# --- formulae ------------------------------------------------------------------------------------


def test_sgd_formula():
    p = parameter(3, dtype=np.float64)
    w, v = p.detach().numpy().copy(), None
    optimizer = optim.SGD([p], lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.2)
    for step in range(3):
        give_gradient(p, step)
        g = p.grad.numpy() + 0.2 * w
        v = g if v is None else 0.9 * v + 0.5 * g
        w = w - 0.1 * v
        optimizer.step()
        np.testing.assert_allclose(p.detach().numpy(), w, rtol=1e-14)


@pytest.mark.parametrize("decoupled", [False, True])
def test_adam_formula(decoupled):
    p = parameter(3, dtype=np.float64)
    w, m, v = p.detach().numpy().copy(), 0.0, 0.0
    optimizer = (optim.AdamW if decoupled else optim.Adam)([p], lr=0.1, weight_decay=0.2)
    for t in range(1, 4):
        give_gradient(p, t)
        g = p.grad.numpy()
        if decoupled:
            w = w * (1 - 0.1 * 0.2)
        else:
            g = g + 0.2 * w
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = w - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        optimizer.step()
        np.testing.assert_allclose(p.detach().numpy(), w, rtol=1e-12)


def test_first_adam_step_is_the_learning_rate():
    p = nn.Parameter(tj.tensor([1.0, -2.0], dtype=tj.float64))
    p.grad = tj.tensor([0.5, -1e-3], dtype=tj.float64)
    optim.Adam([p], lr=0.1, eps=0.0).step()
    np.testing.assert_allclose(p.detach().numpy(), [0.9, -1.9], rtol=1e-14)


def test_it_minimises():
    target = np.array([1.0, -2.0, 0.5])
    for name, options in CONFIGS:
        if options.get("maximize"):
            continue
        p = nn.Parameter(tj.tensor(np.zeros(3)))
        optimizer = getattr(optim, name)([p], **{**options, "lr": 0.2, "weight_decay": 0.0})
        first = None
        for _ in range(60):
            optimizer.zero_grad()
            loss = ((p - tj.tensor(target)) * (p - tj.tensor(target))).sum()
            loss.backward()
            optimizer.step()
            first = loss.item() if first is None else first
        assert loss.item() < first / 2, name


# --- eager and recorded --------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "options"), CONFIGS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_a_recorded_step_is_the_eager_step(name, options, dtype):
    def fresh():
        kind = getattr(tj, dtype).np
        return [parameter(5, 7, dtype=kind), parameter(seed=1, dtype=kind)]

    eager, recorded = fresh(), fresh()
    run(name, options, eager)
    optimizer = getattr(optim, name)(recorded, **options)
    for step in range(4):
        for index, p in enumerate(recorded):
            give_gradient(p, 100 * step + index)
        recorder = Recorder(Signature(Builder("step")), [])
        with recording(recorder):
            optimizer.step()
        assert recorder.failure is None
    tolerance = {"float32": 2e-6, "float64": 1e-13, "bfloat16": 1e-2}[dtype]
    for a, b in zip(eager, recorded, strict=True):
        np.testing.assert_allclose(
            a.detach().numpy().astype(np.float64),
            b.detach().numpy().astype(np.float64),
            rtol=tolerance,
            atol=tolerance,
        )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "options"), CONFIGS)
def test_pieces_and_layouts_change_nothing(name, options):
    flat = parameter(300, 400)
    turned = nn.Parameter(tj.from_numpy(flat.detach().numpy().T.copy().T))
    assert not turned.detach().numpy().flags.c_contiguous
    run(name, options, [flat])
    run(name, options, [turned])
    assert (flat.detach().numpy() == turned.detach().numpy()).all()
    small = parameter(300, 400)
    for rows in (slice(0, 150), slice(150, 300)):
        part = nn.Parameter(tj.from_numpy(small.detach().numpy()[rows]))
        optimizer = getattr(optim, name)([part], **options)
        for step in range(4):
            whole = np.random.default_rng(100 * step).standard_normal((300, 400))
            part.grad = tj.from_numpy(whole[rows].astype(np.float32))
            optimizer.step()
        assert (part.detach().numpy() == flat.detach().numpy()[rows]).all()


def test_half_precision_keeps_moments():
    p = nn.Parameter(tj.from_numpy(np.ones(2, tj.bfloat16.np)))
    optimizer = optim.Adam([p], lr=0.125)
    p.grad = tj.from_numpy(np.ones(2, tj.bfloat16.np))
    optimizer.step()
    assert p.dtype is tj.bfloat16
    assert p.detach().numpy().astype(float).tolist() == [0.875, 0.875]
    # 1 - 0.999 is representable, though 0.999 itself rounds to one in bfloat16
    assert float(optimizer.state[p]["exp_avg_sq"].numpy()[0]) == pytest.approx(1e-3, rel=1e-2)


def test_special_values_and_empty_parameters():
    p = nn.Parameter(tj.tensor([1.0, 1.0, 1.0]))
    p.grad = tj.tensor([math.inf, math.nan, 0.0])
    none = nn.Parameter(tj.from_numpy(np.zeros((0, 3), np.float32)))
    none.grad = tj.from_numpy(np.zeros((0, 3), np.float32))
    optim.Adam([p, none], lr=0.1).step()
    assert math.isnan(p.tolist()[0])
    assert math.isnan(p.tolist()[1])
    assert p.tolist()[2] == 1.0
    assert none.shape == (0, 3)


def test_steps_are_in_place_and_version_counted():
    p = nn.Parameter(tj.tensor([1.0]))
    storage = p.detach().numpy()
    y = (p * p).sum()
    p.grad = tj.tensor([1.0])
    optim.SGD([p], lr=0.5).step()
    assert storage.tolist() == [0.5]
    assert p.requires_grad
    assert p.grad_fn is None
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_parameters_without_gradient_stay():
    p, q = parameter(2), parameter(2)
    optimizer = optim.Adam([p, q])
    give_gradient(p, 0)
    before = q.tolist()
    optimizer.step()
    assert q.tolist() == before
    assert list(optimizer.state) == [p]


def test_closure_hooks_and_zero_grad():
    p, calls = parameter(2), []
    optimizer = optim.SGD([p], lr=0.1)
    optimizer.register_step_pre_hook(lambda o, a, k: calls.append("before"))
    handle = optimizer.register_step_post_hook(lambda o, a, k: calls.append("after"))

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with tj.no_grad():
        assert optimizer.step(closure).item() > 0
    handle.remove()
    optimizer.step()
    assert calls == ["before", "after", "before"]
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert p.grad is None


# --- groups and state ----------------------------------------------------------------------------


def test_groups_have_their_own_values():
    p, q = parameter(2), parameter(2)
    optimizer = optim.SGD([{"params": [p]}, {"params": [q], "lr": 0.0}], lr=0.5)
    for t in (p, q):
        give_gradient(t, 0)
    before = q.tolist()
    optimizer.step()
    assert q.tolist() == before
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 0.0]
    r = parameter(1)
    optimizer.add_param_group({"params": r, "momentum": 0.9})
    assert optimizer.param_groups[2]["params"] == [r]
    named = optim.SGD([("a", p), ("b", q)])
    assert named.param_groups[0]["param_names"] == ["a", "b"]


@pytest.mark.parametrize(("name", "options"), CONFIGS)
def test_state_dict_resumes_exactly(name, options):
    p = parameter(4)
    first = run(name, options, [p])
    q = nn.Parameter(p.detach().clone())
    second = getattr(optim, name)([q])
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for step in range(3):
        for t, optimizer in ((p, first), (q, second)):
            give_gradient(t, step)
            optimizer.step()
    assert p.tolist() == q.tolist()
    assert second.param_groups[0]["lr"] == first.param_groups[0]["lr"]


def test_state_dict_shape_and_errors():
    p, q = parameter(2), parameter(2)
    optimizer = optim.Adam([p, q])
    give_gradient(q, 0)
    optimizer.step()
    saved = optimizer.state_dict()
    assert list(saved["state"]) == [1]
    assert list(saved["state"][1]) == ["step", "exp_avg", "exp_avg_sq"]
    assert saved["state"][1]["step"].item() == 1.0
    assert saved["param_groups"][0]["params"] == [0, 1]
    with pytest.raises(ValueError, match="doesn't match the size"):
        optim.Adam([p]).load_state_dict(saved)
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optimizer.load_state_dict({**saved, "param_groups": saved["param_groups"] * 2})
    double = nn.Parameter(q.detach().double())
    other = optim.Adam([parameter(2), double])
    other.load_state_dict(saved)
    assert other.state[double]["exp_avg"].dtype is tj.float64
    assert other.state[double]["step"].dtype is tj.float32


def test_states_under_other_keys_than_parameters():
    p = parameter(2)
    optimizer = optim.SGD([p], lr=0.1, momentum=0.9)
    kept = {"a": 1}
    optimizer.state.update(k=tj.tensor([0]), n=0, d=kept)
    optimizer.state["k"] += 1
    optimizer.state["n"] += 2
    optimizer.state["made"]["x"] = optimizer.state.setdefault("y", 5)
    optimizer.state[p] = {"momentum_buffer": tj.ones(2), "nested": {"m": tj.ones(1).double()}}
    give_gradient(p, 0)
    optimizer.step()
    saved = optimizer.state_dict()["state"]
    assert list(saved) == ["k", "n", "d", "y", "made", 0]
    assert (saved["k"].tolist(), saved["n"], saved["made"]) == ([1], 2, {"x": 5})
    assert optimizer.state["d"] is saved["d"] is kept
    other = optim.SGD([parameter(2)], lr=0.1, momentum=0.9)
    other.load_state_dict(copy.deepcopy(optimizer).state_dict())
    assert list(other.state_dict()["state"]) == list(saved)
    assert (other.state["d"], other.state["n"]) == ({"a": 1}, 2)
    assert other.state_dict()["state"][0]["nested"]["m"].dtype is tj.float32
    assert type(copy.copy(optimizer.state)) is collections.defaultdict
    assert len(optimizer.state.copy()) == 6


def test_copies_are_independent():
    layer = nn.Module()
    layer.w = parameter(2)
    optimizer = run("Adam", {}, [layer.w])
    twin, optimizer2 = copy.deepcopy((layer, optimizer))
    assert optimizer2.param_groups[0]["params"][0] is twin.w
    give_gradient(twin.w, 0)
    before = layer.w.tolist()
    optimizer2.step()
    assert layer.w.tolist() == before
    third = pickle.loads(pickle.dumps(optimizer))
    assert third.param_groups[0]["lr"] == 1e-3


def test_errors_of_construction():
    p = parameter(2)
    cases = [
        (lambda: optim.SGD([]), ValueError, "empty parameter list"),
        (lambda: optim.SGD(p), TypeError, "iterable of Tensors or dicts"),
        (lambda: optim.SGD([3]), TypeError, "one of the params is int"),
        (lambda: optim.SGD([p * 1]), ValueError, "non-leaf"),
        (lambda: optim.SGD([{"params": [p]}, {"params": [p]}]), ValueError, "more than one"),
        (lambda: optim.SGD([{"params": {p}}]), TypeError, "ordered collections"),
        (lambda: optim.SGD([p], lr=-1), ValueError, "Invalid learning rate: -1"),
        (lambda: optim.SGD([p], momentum=-1), ValueError, "Invalid momentum value: -1"),
        (lambda: optim.SGD([p], nesterov=True), ValueError, "Nesterov momentum requires"),
        (lambda: optim.Adam([p], eps=-1), ValueError, "Invalid epsilon value: -1"),
        (lambda: optim.Adam([p], betas=(1, 0)), ValueError, "beta parameter at index 0: 1"),
        (lambda: optim.Adam([p], betas=(0, 0.99)), ValueError, "both floats or both Tensors"),
        (lambda: optim.AdamW([p], betas=(0.9, 0)), ValueError, "both floats or both Tensors"),
        (lambda: optim.AdamW([p], weight_decay=-1), ValueError, "Invalid weight_decay value"),
        (lambda: optim.RMSprop([p], alpha=-1), ValueError, "Invalid alpha value: -1"),
        (lambda: optim.Adagrad([p], lr_decay=-1), ValueError, "Invalid lr_decay value: -1"),
        (lambda: optim.SGD([p], lr=math.nan), ValueError, "Invalid learning rate: nan"),
    ]
    for build, error, message in cases:
        with pytest.raises(error, match=message):
            build()
    with pytest.raises(TypeError, match="must be a dict"):
        optim.SGD([p]).add_param_group(3)


def test_repr():
    assert repr(optim.SGD([parameter(1)], lr=0.1)).splitlines()[:3] == [
        "SGD (",
        "Parameter Group 0",
        "    dampening: 0",
    ]


# --- hyperparameters as data and as structure ----------------------------------------------------


def test_numbers_are_data_and_switches_are_structure():
    optimizer = optim.SGD([parameter(1)], lr=0.1, momentum=0.5)
    group = optimizer.param_groups[0]
    before, version = STRUCTURE_VERSION[0], optimizer._version
    group["lr"] = 0.025
    group.update(lr=0.05)
    group["lr"] = 0.0
    assert group.number("lr") == 0.0
    assert (STRUCTURE_VERSION[0], optimizer._version) == (before, version)
    group["momentum"] = 0.0
    group["nesterov"] = True
    assert STRUCTURE_VERSION[0] == before + 2
    assert optimizer._version == version + 2


def test_a_steady_step_changes_no_structure():
    p = parameter(2)
    optimizer = run("Adam", {}, [p], steps=1)
    before = STRUCTURE_VERSION[0]
    give_gradient(p, 0)
    optimizer.step()
    assert STRUCTURE_VERSION[0] == before


def test_a_tensor_as_learning_rate():
    p = nn.Parameter(tj.tensor([1.0]))
    rate = tj.tensor(0.5)
    optimizer = optim.SGD([p], lr=rate)
    p.grad = tj.tensor([1.0])
    optimizer.step()
    assert p.tolist() == [0.5]
    assert optimizer.param_groups[0].number("lr") == 0.5
