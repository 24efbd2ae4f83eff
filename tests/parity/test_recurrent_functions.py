"""Recurrent layers and steps as functions of their weights, beside PyTorch, eagerly and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import close, torch

import tracejit as tj

GATES = {"rnn_tanh": 1, "rnn_relu": 1, "gru": 3, "lstm": 4}
SAMPLES, INPUT, HIDDEN = 3, 2, 4


def arrays(kind: str, layers: int, directions: int, biases: bool, projected: int) -> list[Any]:
    rng = np.random.default_rng(0)
    rows, out = GATES[kind] * HIDDEN, projected or HIDDEN
    states = [(layers * directions, SAMPLES, out), (layers * directions, SAMPLES, HIDDEN)]
    shapes: list[tuple[int, ...]] = states[: 1 + (kind == "lstm")]
    for layer in range(layers):
        columns = INPUT if layer == 0 else out * directions
        own: list[tuple[int, ...]] = [(rows, columns), (rows, out), *[(rows,)] * (2 * biases)]
        shapes += (own + [(projected, HIDDEN)] * bool(projected)) * directions
    return [rng.normal(size=shape) * 0.5 for shape in shapes]


def results(of: Any, call: Any, given: list[Any]) -> list[Any]:
    tensors = [of.tensor(x, requires_grad=True) for x in given]
    outputs = call(*tensors)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    total = sum((x * x.detach().cos()).sum() for x in outputs)
    return [*outputs, *of.autograd.grad(total, tensors)]


def function(of: Any, kind: str, packed: Any, options: tuple[Any, ...]) -> Any:
    parts = 1 + (kind == "lstm")

    def call(x, *rest):
        hx, params = rest[:parts], rest[parts:]
        state = hx if kind == "lstm" else hx[0]
        if packed is None:
            return getattr(of, kind)(x, state, params, *options)
        return getattr(of, kind)(x, of.tensor(packed), state, list(params), *options[:-1])

    return call


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("packed", [None, [3, 3, 2, 1, 1]])
@pytest.mark.parametrize(
    ("layers", "both", "biases", "first", "projected"),
    [
        (1, False, True, False, 0),
        (2, True, False, True, 0),
        (2, True, True, False, 3),
    ],
)
def test_layers(kind, packed, layers, both, biases, first, projected) -> None:
    projected = projected if kind == "lstm" else 0
    given = arrays(kind, layers, 1 + both, biases, projected)
    shape = (SAMPLES, 5, INPUT) if first else (5, SAMPLES, INPUT)
    x = np.random.default_rng(1).normal(size=shape if packed is None else (sum(packed), INPUT))
    options = (biases, layers, 0.0, True, both, first)
    expected = results(torch, function(torch, kind, packed, options), [x, *given])
    ours = function(tj, kind, packed, options)
    compiled = tj.compile(ours)
    for call in (ours, compiled, compiled, compiled):
        for a, b in zip(results(tj, call, [x, *given]), expected, strict=True):
            close(a, b, 1e-9, kind)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("biases", [False, True])
def test_steps(kind, biases) -> None:
    given = [x[0] if x.ndim == 3 else x for x in arrays(kind, 1, 1, biases, 0)]
    given.insert(0, np.random.default_rng(1).normal(size=(SAMPLES, INPUT)))
    given[0][0, 0] = np.nan
    parts = 1 + (kind == "lstm")

    def call(of):
        def step(x, *rest):
            state = rest[:parts] if kind == "lstm" else rest[0]
            return getattr(of, f"{kind}_cell")(x, state, *rest[parts:])

        return step

    expected = results(torch, call(torch), given)
    compiled = tj.compile(call(tj))
    for ours in (call(tj), compiled, compiled, compiled):
        for a, b in zip(results(tj, ours, given), expected, strict=True):
            close(a, b, 1e-9, kind)
    assert tj._VF.lstm_cell is tj.lstm_cell


REFUSED = [
    ("rnn_tanh", "x, h, P[:3], True, 1, 0.0, False, False, False"),
    ("rnn_tanh", "x, h, P * 2, True, 1, 0.0, False, False, False"),
    ("rnn_tanh", "x, h.repeat(2, 1, 1), P, True, 1, 0.0, False, False, False"),
    ("rnn_tanh", "x[:0], h, P, True, 1, 0.0, False, False, False"),
    ("rnn_tanh", "x, h[:, :1].repeat(1, 7, 1), P, True, 1, 0.0, False, False, False"),
    ("rnn_tanh", "x[:, :, :1], h, P, True, 1, 0.0, False, False, False"),
    ("rnn_tanh", "x, h, P, True"),
    ("lstm", "x, (h,), P, True, 1, 0.0, False, False, False"),
    ("lstm", "x, h, P, True, 1, 0.0, False, False, False"),
    ("lstm_cell", "x[0], (h[0],), *P"),
    ("rnn_relu_cell", "x[0][:, :1], h[0], *P"),
    ("rnn_relu_cell", "x[0], h[0][:1], *P"),
    ("gru_cell", "x[0], h[0], *P"),
    ("gru_cell", "x[0][0], h[0][0], *P"),
]


@pytest.mark.parametrize(("name", "args"), REFUSED)
def test_refusals(name, args) -> None:
    given = [np.zeros((5, SAMPLES, INPUT)), *arrays("rnn_tanh", 1, 1, True, 0)]
    for of in (torch, tj):
        x, h, *params = (of.tensor(a) for a in given)
        with pytest.raises((RuntimeError, TypeError, IndexError)):
            eval(f"f({args})", {"f": getattr(of, name), "x": x, "h": h, "P": params})
