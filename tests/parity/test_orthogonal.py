"""Orthogonal parametrizations against PyTorch: the same learned numbers give the same weights and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import close, same_error

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

RNG = np.random.default_rng(8)
MAPS = ("matrix_exp", "cayley", "householder")


def made(t: Any, shape: tuple[int, int], kind: str | None, trivial: bool) -> Any:
    layer = t.nn.Linear(*shape).double()
    make = t.nn.utils.parametrizations.orthogonal
    return make(layer, orthogonal_map=kind, use_trivialization=trivial)


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (4, 1)])
@pytest.mark.parametrize("kind", [*MAPS, None])
@pytest.mark.parametrize("compiled", [False, True])
def test_same_weights_and_gradients(
    shape: tuple[int, int], kind: str | None, compiled: bool
) -> None:
    ours, theirs = (made(t, shape, kind, True) for t in (tj, torch))
    state = {name: value.numpy() for name, value in theirs.state_dict().items()}
    state["parametrizations.weight.original"] = state["parametrizations.weight.original"] + (
        RNG.normal(size=state["parametrizations.weight.original"].shape).clip(-0.4, 0.4)
    )
    x, results = RNG.normal(size=(2, shape[0])), []
    for t, layer in ((tj, ours), (torch, theirs)):
        layer.load_state_dict({name: t.tensor(value) for name, value in state.items()})
        call = tj.compile(layer) if compiled and t is tj else layer
        for _ in range(3 if compiled else 1):
            layer.zero_grad()
            out = call(t.tensor(x))
            (out * out).sum().backward()
        results.append((out, layer.parametrizations.weight.original.grad, layer.weight))
    for a, b in zip(*results, strict=True):
        close(a, b)


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
def test_assigned_orthogonal_weights_stay(shape: tuple[int, int]) -> None:
    q = np.linalg.qr(RNG.normal(size=(5, 5)))[0][: shape[1], : shape[0]]
    q = np.linalg.qr(q if q.shape[0] >= q.shape[1] else q.T)[0]
    q = q if q.shape == (shape[1], shape[0]) else q.T
    for trivial in (False, True):
        layer = made(tj, shape, "householder", trivial)
        layer.weight = tj.tensor(q)
        if trivial and shape[0] != shape[1]:
            gram = (
                layer.weight @ layer.weight.T
                if shape[0] > shape[1]
                else layer.weight.T @ layer.weight
            )
            np.testing.assert_allclose(gram.detach().numpy(), np.eye(min(shape)), atol=1e-12)
        else:
            np.testing.assert_allclose(layer.weight.detach().numpy(), q, atol=1e-12)


@pytest.mark.parametrize(
    "call",
    [
        "make(t.nn.Linear(3, 3), orthogonal_map='givens')",
        "make(t.nn.Linear(3, 3), 'scale')",
        "make(t.nn.Linear(3, 3), 'bias')",
        "setattr(make(t.nn.Linear(3, 3), use_trivialization=False), 'weight', t.eye(3))",
        "setattr(make(t.nn.Linear(3, 3)), 'weight', t.ones(2, 3))",
    ],
)
def test_refused(call: str) -> None:
    def attempt(t: Any, f: Any) -> Any:
        return eval(call, {"t": t, "make": t.nn.utils.parametrizations.orthogonal})

    same_error(attempt)


def test_gradients_scaled_by_a_known_norm() -> None:
    results = []
    for t in (tj, torch):
        w = t.zeros(3, requires_grad=True)
        w.grad = t.tensor([3.0, 4.0, 12.0])
        t.nn.utils.clip_grads_with_norm_([w], 2.0, t.tensor(13.0))
        results.append(w.grad)
    close(*results, 1e-6)


@pytest.mark.parametrize("lead", [(2, 4), (4,)])
def test_numbers_of_fractional_windows(lead: tuple[int, ...]) -> None:
    x, samples = RNG.normal(size=(*lead, 7, 7, 7)), RNG.random((2, 4, 3))
    results = []
    for t in (tj, torch):
        layer = t.nn.FractionalMaxPool3d(2, output_size=4, _random_samples=t.tensor(samples))
        results.append(layer(t.tensor(x)))
    close(*results)
