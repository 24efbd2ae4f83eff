"""First calls whose result the program gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import deferral
from tracejit.trace import first_call


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    """All operations are put off, and the program is asked whenever it can give the result."""
    monkeypatch.setattr(deferral, "LEAST_BYTES", 0)
    monkeypatch.setattr(first_call, "WORTH", 0.0)
    monkeypatch.setattr(first_call, "PATIENCE", 1e9)


def layer(x: tj.Tensor, w: tj.Tensor) -> tj.Tensor:
    h = tj.nn.functional.layer_norm((x @ w).tanh(), (4,))
    return (tj.softmax(h, -1) * h)[:, 1:].sum(-1)


@pytest.mark.usefixtures("served")
def test_the_program_gives_the_result(computed: list[str]) -> None:
    compiled = tj.compile(layer)
    x, w = tj.randn(5, 3, requires_grad=True), tj.randn(3, 4, requires_grad=True)
    y = compiled(x, w)
    assert not computed
    assert first_call.SERVED in str(compiled.explain())
    np.testing.assert_allclose(y.detach().numpy(), layer(x, w).detach().numpy(), 1e-5, 1e-6)
    assert type(y.grad_fn).__name__ != "OpNode"
    found = tj.autograd.grad(y.sum(), (x, w))
    wanted = tj.autograd.grad(layer(x, w).sum(), (x, w))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-4, 1e-5)
    assert compiled.stats.eager_calls == compiled.stats.recordings == 1
    compiled(x, w)
    assert compiled.stats.compiled_calls == 1


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("how", ["writes", "draws", "appends", "holds", "counts", "prints"])
def test_a_run_that_does_more_is_not_done_again(
    how: str, computed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    class State:
        count = 0
        last: Any = None

        def __init__(self) -> None:
            self.seen: list[Any] = []

    state = State()

    def f(x: tj.Tensor) -> tj.Tensor:
        y = x * 2
        if how == "writes":
            x.add_(1)
        elif how == "draws":
            y = y + tj.rand(3)
        elif how == "appends":
            state.seen.append(y)
        elif how == "holds":
            state.last = y
        elif how == "counts":
            state.count += 1
        else:
            print("once")
        return y.exp()

    tj.manual_seed(4)
    x = tj.ones(3)
    found = tj.compile(f)(x)
    after = tj.rand(1).item()
    tj.manual_seed(4)
    kept = state.seen[:], state.last, state.count, capsys.readouterr().out, x.tolist()
    state.seen.clear()
    state.count, state.last = 0, None
    x = tj.ones(3)
    wanted = f(x)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), 1e-6)
    assert after == tj.rand(1).item()
    assert len(kept[0]) == len(state.seen)
    assert (kept[1] is None) == (state.last is None)
    assert kept[2:] == (state.count, capsys.readouterr().out, x.tolist())
    if how in ("writes", "draws"):
        assert computed


@pytest.mark.usefixtures("served")
def test_kernels_that_take_too_long_are_made_later(
    monkeypatch: pytest.MonkeyPatch, computed: list[str]
) -> None:
    monkeypatch.setattr("tracejit.runtime.machine_code.kernels._is_new", lambda key: True)
    monkeypatch.setattr("tracejit.runtime.ahead._PER_LETTER", 1e12)
    compiled = tj.compile(lambda x: (x * 2.125).exp() - 0.375)
    x = tj.ones(7)
    wanted = compiled(x).tolist()
    assert computed == ["mul", "exp", "sub"]
    assert first_call.SERVED not in str(compiled.explain())
    np.testing.assert_allclose(compiled(x).tolist(), wanted, 1e-6)
    assert compiled.stats.compiled_calls == 1, compiled.explain()


def test_much_work_is_the_programs() -> None:
    few, many = tj.compile(layer), tj.compile(layer)
    few(tj.randn(5, 3), tj.randn(3, 4))
    many(tj.randn(1 << 20, 3), tj.randn(3, 4))
    assert first_call.SERVED not in str(few.explain())
    assert first_call.SERVED in str(many.explain())
