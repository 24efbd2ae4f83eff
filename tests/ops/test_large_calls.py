"""What eager programs have compiled code compute on large tensors: which calls it is, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from ir_graphs import assert_same_bits
from tracejit import large_calls, steps, steps_text
from tracejit.ops import composed, programs
from tracejit.ops.table import lookup
from tracejit.runtime.eager import programs as runner

F = tj.nn.functional


@pytest.fixture(autouse=True)
def counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_calls, "_met", {})
    monkeypatch.setattr(large_calls, "_compiled", {})
    for counts in ("_met", "_met_alike", "_served"):
        monkeypatch.setattr(runner, counts, {})


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tensors count as large ones, and nothing is waited for."""
    monkeypatch.setattr(large_calls, "PATIENCE", -1)
    monkeypatch.setattr(runner, "PATIENCE", -1)
    monkeypatch.setattr(runner, "SHAPE_PATIENCE", -1)
    monkeypatch.setattr(composed, "LEAST", 0)
    monkeypatch.setattr(programs, "LEAST", 0)
    monkeypatch.setattr(programs, "LEAST_PRODUCTS", 0)
    monkeypatch.setattr(steps, "SEEN", 0)
    monkeypatch.setattr(steps, "_known", {})
    monkeypatch.setattr(steps_text, "LARGEST", -1)


def tensor(*shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return tj.from_numpy(rng.standard_normal(shape))


def written(monkeypatch: pytest.MonkeyPatch, run: Callable[[], Any]) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(large_calls, "PATIENCE", 1 << 60)
        patch.setattr(runner, "PATIENCE", 1 << 60)
        patch.setattr(runner, "_served", {})
        return run()


CALLS: dict[str, Callable[..., Any]] = {
    "softmax": lambda x, y: F.softmax(x, 1),
    "exponential units": lambda x, y: F.elu(x, 0.7),
    "scaled exponential units": lambda x, y: F.selu(x),
    "a norm over rows": lambda x, y: F.layer_norm(x, (6,), y[0], y[1]),
    "groups": lambda x, y: F.group_norm(x.reshape(2, 2, 6), 2),
    "cross entropy": lambda x, y: F.cross_entropy(x, y.exp().softmax(1)),
    "classes": lambda x, y: F.nll_loss(x, tj.tensor([0, 5, 2, 2])),
    "a loss": lambda x, y: F.smooth_l1_loss(x, y, beta=0.5),
    "logits": lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
    "distances": lambda x, y: tj.cdist(x, y),
    "distances of rows": lambda x, y: F.pdist(x),
    "a bilinear form": lambda x, y: F.bilinear(x, y, tensor(3, 6, 6, seed=2)),
    "an image": lambda x, y: F.grid_sample(x[None, None], y.reshape(1, 4, 3, 2), align_corners=True),
    "a larger image": lambda x, y: F.interpolate(x[None, None], scale_factor=1.5, mode="bilinear"),
    "a norm": lambda x, y: tj.linalg.vector_norm(x, 3, 1),
    "bounds": lambda x, y: tj.clamp(x, -0.5, y),
    "weights": lambda x, y: tj.lerp(x, y, 0.3),
    "a reflected border": lambda x, y: F.pad(x[None], (1, 2, 1, 1), mode="reflect"),
    "a triangle": lambda x, y: x.triu(1) + y.tril(),
    "a variance": lambda x, y: tj.var_mean(x, 1)[0],
}  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("name", CALLS)
def test_compiled_code_computes_what_is_written(name, monkeypatch):
    def run() -> list[np.ndarray]:
        x, y = tensor(4, 6).requires_grad_(), tensor(4, 6, seed=1).requires_grad_()
        out = CALLS[name](x, y)
        first = tj.autograd.grad(
            out.square().sum(), (x, y), create_graph=True, materialize_grads=True
        )
        again = sum(g.square().sum() for g in first)
        second = tj.autograd.grad(again, (x, y), materialize_grads=True)
        return [t.detach().numpy() for t in (out, *first, *second)]

    expected = written(monkeypatch, run)
    for _ in range(3):
        for a, b in zip(run(), expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, 1e-10, 1e-11)
    assert large_calls._compiled


RUNNING: dict[str, Callable[[Any], Any]] = {
    "sums": lambda x: x.cumsum(0),
    "sums along rows": lambda x: x.cumsum(1),
    "products": lambda x: x.cumprod(1),
    "extremes": lambda x: x.cummax(0)[1],
    "least along rows": lambda x: x.cummin(1)[1],
}


@pytest.mark.sampled(4)
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64"])
@pytest.mark.parametrize("name", RUNNING)
def test_programs_of_single_ops_give_the_bits_of_numpy(name, dtype, monkeypatch):
    x = (tensor(40, 30) * 3).to(getattr(tj, dtype))
    if x.dtype.is_floating_point:
        x[3, 4], x[5, 6], x[7, 8] = float("nan"), float("inf"), -0.0
    for given in (x, x.mT, x[:, ::2]):
        run = lambda given=given: RUNNING[name](given).numpy()  # noqa: E731
        assert_same_bits(run(), written(monkeypatch, run))


FUNCTIONS = sorted(programs.LONG - {"pow", "atan2", "hypot", "logaddexp"})


@pytest.mark.sampled(5)
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("name", [*FUNCTIONS, "atan2", "hypot", "logaddexp", "pow"])
def test_functions_by_programs_are_those_of_numpy(name, monkeypatch):
    f = lookup(name)
    few = name in ("asin", "acos", "atanh", "log", "log2", "log10", "log1p", "pow", "acosh")
    for dtype in (tj.float32, tj.float64, tj.bfloat16):
        x = tensor(300, 250).sigmoid() + (name == "acosh") if few else tensor(300, 250)
        x, y = x.to(dtype), tensor(250, seed=1).to(dtype)
        run = lambda x=x, y=y: f(x) if name in FUNCTIONS else f(x, y)  # noqa: E731
        found, expected = run(), written(monkeypatch, run)
        assert found.dtype is expected.dtype is dtype
        bound = 8 * tj.finfo(dtype).eps
        np.testing.assert_allclose(*(t.double().numpy() for t in (found, expected)), bound, bound)
    assert runner._met


def test_a_function_is_compiled_once_it_has_computed_much(monkeypatch):
    monkeypatch.setattr(large_calls, "PATIENCE", 1 << 17)
    x = tensor(1 << 16)
    for calls in range(6):
        assert len(large_calls._compiled) == (calls > 2)
        F.selu(x)
    F.selu(tensor(9))
    F.elu(x, 0.5)
    (found,) = large_calls._compiled.values()
    assert found.stats.calls == 4


@pytest.mark.usefixtures("at_once")
def test_functions_run_as_they_are_written_where_somebody_listens():
    x = tensor(8, 8).requires_grad_()
    with tj.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        F.selu(x)
    with tj.autocast("cpu"):
        F.selu(x)
    tj.compile(lambda x: F.selu(x))(x)
    tj.use_deterministic_algorithms(True)
    F.selu(x)
    tj.use_deterministic_algorithms(False)
    assert not large_calls._compiled
    assert F.selu(x).grad_fn is not None
    assert len(large_calls._compiled) == 1


@pytest.mark.usefixtures("at_once")
def test_errors_are_those_of_what_is_written():
    x = tensor(4, 6).requires_grad_()
    for _ in range(3):
        with pytest.raises(IndexError, match="out of bounds"):
            F.nll_loss(x, tj.tensor([0, 6, 2, 2]))
        with pytest.raises(RuntimeError, match="index 6 is out of bounds"):
            x.gather(1, tj.tensor([[6]]))
        with pytest.raises(NotImplementedError, match="nothing"):
            F.interpolate(x[None, None], scale_factor=2, mode="nothing")


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("inplace", [True, False])
def test_functions_in_place_keep_what_is_written_over(inplace, monkeypatch):
    def run() -> list[np.ndarray]:
        x = tensor(4, 6).requires_grad_()
        y = x * 1
        z = F.selu(y, inplace) if inplace else F.selu(y, inplace=True)
        z.square().sum().backward()
        assert z is y
        return [y.detach().numpy(), x.grad.numpy()]

    expected = written(monkeypatch, run)
    for _ in range(4):
        for a, b in zip(run(), expected, strict=True):
            np.testing.assert_allclose(a, b, 1e-12)


@pytest.mark.usefixtures("at_once")
def test_transforms_of_functions_see_through():
    f = lambda x: F.softmax(x, -1)  # noqa: E731
    x, v = tensor(5), tensor(5, seed=1)
    expected = np.diag(f(x).numpy()) - np.outer(f(x).numpy(), f(x).numpy())
    for jacobian in (tj.func.jacrev(f), tj.func.jacfwd(f)):
        np.testing.assert_allclose(jacobian(x).numpy(), expected, 1e-12, 1e-13)
    _, tangent = tj.func.jvp(f, (x,), (v,))
    np.testing.assert_allclose(tangent.numpy(), expected @ v.numpy(), 1e-12, 1e-13)
    rows = tensor(3, 5)
    np.testing.assert_allclose(tj.func.vmap(f)(rows).numpy(), f(rows).numpy(), 1e-12)


def test_functions_of_many_ops_are_compiled_for_sizes_that_come_again() -> None:
    rng = np.random.default_rng(0)

    def loss(count: int) -> tuple[Any, Any]:
        scores = tj.from_numpy(rng.normal(size=(count, 3, 5))).requires_grad_()
        labels, lengths = tj.tensor(rng.integers(1, 5, (3, 4))), tj.tensor(rng.integers(1, 5, 3))
        found = F.ctc_loss(scores, labels, tj.tensor(rng.integers(9, count, 3)), lengths)
        found.backward()
        return found.detach(), scores.grad

    early = rng.bit_generator.state
    expected = [loss(12) for _ in range(large_calls.CALLS)]
    assert not large_calls._compiled
    for count in range(20, 30):  # others have been met too rarely
        loss(count)
    assert not large_calls._compiled
    rng.bit_generator.state = early
    for value, gradient in expected:
        found = loss(12)
        assert tj.allclose(found[0], value)
        assert tj.allclose(found[1], gradient)
    assert len(large_calls._compiled) == 1


WHOLE = ("bool", "uint8", "int8", "int16", "int32", "int64")
FRACTIONS = ("float16", "bfloat16", "float32", "float64")
REDUCTIONS = ("sum", "prod", "amax", "amin", "any", "all", "argmax", "argmin")


@pytest.mark.sampled(12)
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("kind", [*WHOLE, *FRACTIONS])
def test_reductions_that_numpy_takes_long_for(
    monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    dtype, reduced = getattr(tj, kind), getattr(tj, name)
    x = (tensor(20, 7, 9) * 9).to(dtype)
    if kind == "bool" and name.startswith("arg"):
        with pytest.raises(RuntimeError):
            reduced(x)
        return
    if dtype.is_floating_point:
        x[3, 2, 1] = float("nan")
    served = not (name == "prod" and dtype.is_floating_point)
    for y in (x, x.transpose(0, 2), x[::2, 1:]):
        for dim in range(3):
            expected = written(monkeypatch, lambda: reduced(y, dim))  # noqa: B023
            runner._served.clear()
            found = reduced(y, dim)
            assert [x.run is not None for x in runner._served.values()] == [True] * served
            assert found.dtype is expected.dtype
            if name == "sum" and dtype in (tj.float32, tj.float64):
                close = 2e-6 if dtype is tj.float32 else 1e-14
                np.testing.assert_allclose(found.numpy(), expected.numpy(), close, 10 * close)
            elif dtype.is_floating_point:
                assert_same_bits(found.float().numpy(), expected.float().numpy())
            else:
                np.testing.assert_array_equal(found.numpy(), expected.numpy())
