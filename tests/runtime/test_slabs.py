"""Large arrays in eager code are computed by several threads: the bits are those of NumPy's one."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import tracejit as tj
from tracejit import config
from tracejit.ops import programs, slabs
from tracejit.ops.kinds import SHARE
from tracejit.ops.table import Elementwise, all_ops, lookup
from tracejit.runtime.eager import printed

N = slabs.LARGE


@pytest.fixture(params=[2, 3, 5])
def threads(request, monkeypatch) -> int:
    monkeypatch.setattr(config, "threads", request.param)
    # A kernel that took over between the two calls would be one more thing to compare: NaN has the sign it likes there.
    monkeypatch.setattr(printed, "LEAST", 1 << 62)
    monkeypatch.setattr(programs, "LEAST", 1 << 62)
    return request.param


def special(shape, dtype=np.float32):
    rng = np.random.default_rng(3)
    x = rng.standard_normal(shape) * 3
    if np.dtype(dtype).kind == "f":
        x.flat[:: 1 + x.size // 50] = rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40], 1)[0]
        x.flat[7 :: 1 + x.size // 30] = -0.0
    return x.astype(dtype)


def whole(monkeypatch, call):
    """The same on one thread."""
    with monkeypatch.context() as patch:
        patch.setattr(slabs, "LARGE", 1 << 60)
        return call()


def same(a, b) -> None:
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.array.tobytes() == b.array.tobytes()
    assert a.array.strides == b.array.strides


SHAPES = [
    (N,),
    (2, N // 2 + 1),
    (1, 3, N // 3 + 1),
    (N // 4 + 1, 4),
    (513, 1, 515),
    (7, 1, N // 7 + 1),
]
UNARY = ["exp", "neg", "sqrt", "tanh", "relu", "square", "rsqrt", "floor", "isnan", "sign", "erf"]
BINARY = ["add", "sub", "mul", "div", "maximum", "lt", "pow", "fmin", "atan2", "floor_divide"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", UNARY)
@pytest.mark.sampled(20)
def test_functions(monkeypatch, threads, name, shape) -> None:
    x = tj.tensor(special(shape))
    same(lookup(name)(x), whole(monkeypatch, lambda: lookup(name)(x)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(
    "other", ["alike", "row", "column", "number", "double", "transposed", "slice"]
)
@pytest.mark.sampled(60)
def test_of_two_operands(monkeypatch, threads, name, shape, other) -> None:
    x = tj.tensor(special(shape))
    y = {
        "alike": lambda: tj.tensor(special(shape)).flip(-1),
        "row": lambda: tj.tensor(special(shape[-1:])),
        "column": lambda: tj.tensor(special((*shape[:-1], 1))),
        "number": lambda: 1.5,
        "double": lambda: tj.tensor(special(shape, np.float64)),
        "transposed": lambda: tj.tensor(special(shape[::-1])).permute(*range(len(shape))[::-1]),
        "slice": lambda: tj.tensor(special((*shape[:-1], shape[-1] + 2)))[..., 1:-1],
    }[other]()
    call = lookup(name)
    same(call(x, y), whole(monkeypatch, lambda: call(x, y)))
    if not isinstance(y, float):
        same(call(y, x), whole(monkeypatch, lambda: call(y, x)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "int8", "int64", "bool", "complex64", "uint8"]
)
def test_dtypes(monkeypatch, threads, dtype) -> None:
    kind = getattr(tj, dtype)
    x, y = (tj.tensor(special((4, N))).nan_to_num().clamp(-3, 3).to(kind) for _ in range(2))
    for call in (
        lambda: x * y,
        lambda: x == y,
        lambda: tj.where(x == y, x, y),
        lambda: x.to(tj.float64),
    ):
        same(call(), whole(monkeypatch, call))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "any_true", "all_true"])
@pytest.mark.parametrize("keepdim", [True, False])
@pytest.mark.sampled(30)
def test_reductions(monkeypatch, threads, name, shape, keepdim) -> None:
    x = tj.tensor(special(shape)) * 1e-3
    for dims in [(len(shape) - 1,), (0,), tuple(range(len(shape))), tuple(range(1, len(shape)))]:
        for source in (x, x[..., ::2], x.transpose(0, -1), x > 0, (x * 99).to(tj.int32)):
            if dims:
                call = lambda: lookup(name)(source, dims=dims, keepdim=keepdim)  # noqa: E731, B023
                same(call(), whole(monkeypatch, call))


def test_several_threads_take_part(monkeypatch, threads) -> None:
    names = set()

    def run(*operands, **attributes):
        names.add(threading.current_thread().name)
        return np.add(*operands, **attributes)

    x = np.ones((threads, N), np.float32)
    found = slabs.elementwise(run, (x, x), {}, x.dtype)
    assert float(found.sum()) == 2 * x.size
    assert len(names) > 1


def shares(monkeypatch) -> list[int]:
    """How many elements were divided among threads, each time."""
    found: list[int] = []
    share = slabs._share

    def noted(work, extent, elements):
        found.append(elements)
        share(work, extent, elements)

    monkeypatch.setattr(slabs, "_share", noted)
    return found


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(N,), (3, N), (N, 1), (N // 4 + 1, 4)])
def test_compiled_calls_of_libraries_are_divided_too(monkeypatch, threads, shape, dtype) -> None:
    x = tj.tensor(special(shape)).to(getattr(tj, dtype))
    call = tj.compile(lambda x: (tj.i0(x), tj.special.zeta(x, 2.0), tj.nextafter(x, x * 2)))
    call(x)
    found = shares(monkeypatch)
    results = call(x)
    assert len(found) >= 2
    assert set(found) == {x.numel()}
    for ours, expected in zip(results, whole(monkeypatch, lambda: call(x)), strict=True):
        np.testing.assert_array_equal(ours.double().numpy(), expected.double().numpy())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_whole_numbers_are_divided_by_one_kernel(monkeypatch, name, dtype) -> None:
    monkeypatch.setattr(config, "threads", 2)
    monkeypatch.setattr(printed, "PATIENCE", 0)
    x, y = (tj.arange(1, N + 1).flip(0) % 120 + 1, tj.arange(1, N + 1) % 9 + 1)
    found, kind = shares(monkeypatch), getattr(tj, dtype)
    ours = getattr(tj, name)(x.to(kind), y.to(kind))
    assert found == []
    expected = getattr(np, name)(x.to(kind).numpy(), y.to(kind).numpy())
    np.testing.assert_array_equal(ours.numpy(), expected)


def test_one_thread_and_small_arrays_are_left_alone(monkeypatch) -> None:
    monkeypatch.setattr(config, "threads", 1)
    assert slabs.elementwise(np.add, (np.ones(N), np.ones(N)), {}, np.dtype("float64")) is None
    assert slabs.reduced(np.add.reduce, np.ones((2, N)), (1,), False) is None


def test_errors_and_shapes_that_do_not_fit(threads) -> None:
    with pytest.raises(RuntimeError, match="ZeroDivision"):
        tj.ones(N, dtype=tj.int64) // tj.arange(N)
    with pytest.raises(RuntimeError, match="must match the size"):
        tj.ones(2, N) + tj.ones(3, N)
    assert (tj.ones(N, 1) + tj.ones(N, 0)).shape == (N, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_after_a_fork(threads) -> None:
    x = tj.ones(threads, N)
    assert (x + x).sum().item() == 2 * threads * N
    child = os.fork()
    if child == 0:
        os._exit(0 if (x + x).sum().item() == 2 * threads * N else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_recorded_beside_threads(threads) -> None:
    def f(x, y):
        return ((x * y).exp() + y.sum(-1, keepdim=True)).amax(-1)

    g = tj.compile(f)
    x, y = tj.rand(threads, N), tj.rand(threads, N)
    for _ in range(3):
        assert tj.allclose(g(x, y), f(x, y), rtol=1e-5)
    assert g.stats.compiled_calls == 2, g.explain()


def test_a_thread_that_counts_subnormal_numbers_as_zero(threads) -> None:
    x = tj.full((threads, N), 1e-40)
    assert int(tj.count_nonzero(x * 0.5)) == x.numel()
    assert tj.set_flush_denormal(True)
    try:
        assert int(tj.count_nonzero(x * 0.5)) == 0
    finally:
        tj.set_flush_denormal(False)
    assert int(tj.count_nonzero(x * 0.5)) == x.numel()


def test_bodies_that_share_their_elements_are_those_listed() -> None:
    """What is listed is not given to threads of Python; what reaches the pool and is not would be, in vain."""
    bodies = {op.name: op.body for op in all_ops() if isinstance(op, Elementwise)}
    found = {
        name
        for name, body in bodies.items()
        if {"shared", "copied", "larger", "smaller"}
        & set(getattr(getattr(body, "__code__", None), "co_names", ()))
    }
    assert found == SHARE


@pytest.mark.parametrize("name", ["i0", "erfcx", "fmod", "floor_divide"])
def test_bodies_that_take_long_are_shared(monkeypatch, threads, name) -> None:
    calls = []
    real = slabs._share

    def counting(work, extent, elements):
        calls.append(elements)
        real(work, extent, elements)

    x, op = np.random.default_rng(0).uniform(0.25, 0.75, (4, N // 4)), lookup(name)
    operands = [tj.tensor(x)] * len(op.operands)
    monkeypatch.setattr(slabs, "_share", counting)
    op(*operands)
    assert calls == [N]
