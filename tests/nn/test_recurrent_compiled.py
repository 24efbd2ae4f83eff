"""Recurrent layers of eager programs are walked by compiled code: which calls are, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.nn import recurrent_compiled as walks

KINDS = (tj.nn.RNN, tj.nn.LSTM, tj.nn.GRU)


@pytest.fixture(autouse=True)
def counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "_walked", {})


def layer(kind: Any, **options: Any) -> Any:
    tj.manual_seed(0)
    return kind(3, 4, **options).double()


def sequences(steps: int, samples: int = 2) -> Any:
    rng = np.random.default_rng(steps)
    return tj.from_numpy(rng.standard_normal((steps, samples, 3)))


def in_both_ways(
    run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What ``run`` gives step by step and in walks."""
    found = []
    for patience in (1 << 60, -1):
        monkeypatch.setattr(walks, "PATIENCE", patience)
        tj.manual_seed(1)
        found.append([x.detach().numpy() for x in run()])
    return found[0], found[1]


def agree(run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    expected, found = in_both_ways(run, monkeypatch)
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, 1e-12, 1e-13)


def calls_of(kind: str, back: bool = False) -> int:
    return int(walks._walk(kind, back, True, True, False).stats.calls)  # type: ignore[attr-defined]


@pytest.mark.sampled(18)
@pytest.mark.parametrize("steps", [1, 15, 16, 17, 40])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}])
def test_compiled_code_computes_what_steps_do(kind, options, steps, monkeypatch):
    model = layer(kind, **options)

    def run() -> list[Any]:
        x = sequences(steps).requires_grad_()
        model.zero_grad()
        y, last = model(x)
        (y.square().sum() + (last[0] if isinstance(last, tuple) else last).sum()).backward()
        return [y, x.grad, *(p.grad for p in model.parameters())]

    agree(run, monkeypatch)


def test_projected_outputs_and_given_states(monkeypatch):
    model = layer(tj.nn.LSTM, proj_size=2)
    start = tj.ones(1, 2, 2, dtype=tj.float64), tj.ones(1, 2, 4, dtype=tj.float64)

    def run() -> list[Any]:
        hidden, cell = (s.clone().requires_grad_() for s in start)
        y, (h, c) = model(sequences(20), (hidden, cell))
        (y.sum() + h.sum() + c.sum()).backward()
        return [y, h, c, hidden.grad, cell.grad]

    agree(run, monkeypatch)


def test_gradients_of_gradients_and_tangents(monkeypatch):
    model, x = layer(tj.nn.LSTM), sequences(20)

    def twice() -> list[Any]:
        given = x.clone().requires_grad_()
        (g,) = tj.autograd.grad(model(given)[0].square().sum(), given, create_graph=True)
        return [g, *tj.autograd.grad(g.square().sum(), given)]

    agree(twice, monkeypatch)
    run = lambda x: model(x)[0]  # noqa: E731
    agree(lambda: tj.func.jvp(run, (x,), (tj.ones_like(x),)), monkeypatch)
    agree(lambda: [tj.func.vmap(run)(tj.stack([x, 2 * x]))], monkeypatch)


def test_what_has_no_batch_or_an_empty_one(monkeypatch):
    model = layer(tj.nn.GRU)
    agree(lambda: model(sequences(20)[:, 0]), monkeypatch)
    agree(lambda: [model(sequences(20, 0))[0]], monkeypatch)
    monkeypatch.setattr(walks, "PATIENCE", -1)
    with pytest.raises(RuntimeError, match="non-empty"):
        model(sequences(0))


def test_a_walk_is_compiled_when_enough_steps_were_walked():
    model, before = layer(tj.nn.LSTM), calls_of("LSTM")
    for _ in range(walks.PATIENCE // 20):
        model(sequences(20))
    assert calls_of("LSTM") == before
    model(sequences(20))
    assert calls_of("LSTM") == before + 1


def test_sequences_of_any_length_share_one_recording(monkeypatch):
    monkeypatch.setattr(walks, "PATIENCE", -1)
    model = layer(tj.nn.RNN)
    compiled: Any = walks._walk("RNN_TANH", False, True, True, False)
    for steps, samples in ((20, 2), (36, 3), (52, 5)):
        model(sequences(steps, samples))
    recorded, replayed = compiled.stats.recordings, compiled.stats.compiled_calls
    for steps in (7, 68, 100, 163):
        model(sequences(steps, steps % 5 + 2))
    assert compiled.stats.recordings == recorded
    assert compiled.stats.compiled_calls == replayed + 4


def test_compiled_functions_and_hooks_of_saved_tensors_see_the_steps(monkeypatch):
    monkeypatch.setattr(walks, "PATIENCE", -1)
    model, x, before = layer(tj.nn.LSTM), sequences(20), calls_of("LSTM")
    compiled = tj.compile(lambda x: model(x)[0], strict=True)
    for _ in range(3):
        found = compiled(x)
    kept: list[Any] = []
    with tj.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        expected = model(x)[0]
    assert calls_of("LSTM") == before
    assert len(kept) > 20
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), 1e-12)


def test_what_is_written_between_the_passes_is_an_error(monkeypatch):
    monkeypatch.setattr(walks, "PATIENCE", -1)
    model = layer(tj.nn.LSTM)
    y = model(sequences(20))[0]
    with tj.no_grad():
        model.weight_hh_l0.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_equal_calls_have_equal_bits_where_that_is_asked_for(monkeypatch):
    monkeypatch.setattr(walks, "PATIENCE", 20)
    model, x, before = layer(tj.nn.LSTM).float(), sequences(20, 5).float(), calls_of("LSTM")
    tj.use_deterministic_algorithms(True)
    try:
        found = [model(x)[0] for _ in range(4)]
    finally:
        tj.use_deterministic_algorithms(False)
    assert calls_of("LSTM") == before
    assert all(tj.equal(found[0], other) for other in found)
    model(x)
    model(x)
    assert calls_of("LSTM") > before
