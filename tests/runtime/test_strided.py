"""Large arrays in eager code: NumPy's inner loops called by the native pool, bit for bit what NumPy computes."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from process_tools import printed
from tracejit.runtime import occupied
from tracejit.runtime.eager import strided
from tracejit.runtime.eager.strided import apply, inner_loop

SIZE = 1 << 18
SHAPE = (512, 512)


@pytest.fixture(autouse=True)
def _loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    strided.make()
    assert strided._is_there()
    monkeypatch.setattr(strided, "is_occupied", lambda: False)  # by what other tests left


def numbers(dtype: str, shape: tuple[int, ...] = SHAPE, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return random.random(shape) < 0.5
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return random.integers(info.min, info.max, shape, kind, endpoint=True)
    values = random.standard_normal(shape).astype(kind)
    flat = values.reshape(-1)
    flat[:7] = [np.nan, np.inf, -np.inf, -0.0, 0.0, np.finfo(kind).max, np.finfo(kind).tiny / 2]
    return values


def same(found: np.ndarray | None, expected: np.ndarray) -> None:
    assert found is not None
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.flags.c_contiguous
    if found.dtype.kind in "fc":
        nan = np.isnan(expected)
        assert np.array_equal(np.isnan(found), nan)
        found, expected = (np.where(nan, 0, x) for x in (found, expected))
    assert found.tobytes() == expected.tobytes()


FUNCTIONS = ("add", "multiply", "true_divide", "maximum", "less", "equal", "copysign", "hypot")
ALONE = ("negative", "sqrt", "absolute", "floor", "sign", "isnan", "logical_not", "exp")


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_operands(name: str, dtype: str) -> None:
    run = getattr(np, name)
    x, y = numbers(dtype), numbers(dtype, seed=1)
    with np.errstate(all="ignore"):
        expected = run(x, y)
        same(apply(run, (x, y), expected.dtype), expected)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("name", ALONE)
def test_one_operand(name: str, dtype: str) -> None:
    run, x = getattr(np, name), numbers(dtype)
    with np.errstate(all="ignore"):
        expected = run(x)
        same(apply(run, (x,), expected.dtype), expected)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "i8", "?"])
@pytest.mark.parametrize("name", ["add", "bitwise_and", "minimum", "greater", "not_equal"])
def test_integers(name: str, dtype: str) -> None:
    run = getattr(np, name)
    x, y = numbers(dtype), numbers(dtype, seed=1)
    expected = run(x, y)
    same(apply(run, (x, y), expected.dtype), expected)


X = numbers("f4", (600, 700))
OPERANDS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "columns left out": lambda: (X[:, 1:-1], X[:, 2:]),
    "rows left out": lambda: (X[::2], X[1::2]),
    "every second": lambda: (X[:, ::2], X[:, 1::2]),
    "backwards": lambda: (X[::-1], X[:, ::-1]),
    "transposed": lambda: (X.T, X.T),
    "one transposed": lambda: (X[:, :600].T, X[:, :600]),
    "a row": lambda: (X, X[3]),
    "a column": lambda: (X, X[:, 5:6]),
    "row and column": lambda: (X[:1], X[:, :1]),
    "a number": lambda: (X, np.float32(3.5)[()] * np.ones((), np.float32)),
    "flat": lambda: (X.reshape(-1)[:-3], X.reshape(-1)[3:]),
    "size one": lambda: (X.reshape(1, 600, 1, 700), X.reshape(600, 1, 700)),
    "read only": lambda: (np.broadcast_to(X[0], X.shape), X),
    "the same": lambda: (X, X),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_operands_of_all_strides(name: str) -> None:
    x, y = OPERANDS[name]()
    with np.errstate(all="ignore"):
        same(apply(np.subtract, (x, y), X.dtype), np.subtract(x, y).copy("C"))


@pytest.mark.parametrize("dtype", ["i1", "f2", "f4", "i8", "?"])
@pytest.mark.parametrize("name", OPERANDS)
def test_choices(name: str, dtype: str) -> None:
    x, y = OPERANDS[name]()
    mask = np.broadcast_arrays(x, y)[0] > 0
    with np.errstate(all="ignore"):
        x, y = x.astype(dtype, order="K"), y.astype(dtype, order="K")
    same(apply(np.where, (mask, x, y), x.dtype), np.where(mask, x, y))


@pytest.mark.parametrize("count", [1 << 14, (1 << 14) + 5, (1 << 17) + 11])
def test_choices_of_a_row_and_what_is_left_over(count: int) -> None:
    x, y = numbers("f8", (count,)), np.zeros(())
    mask = numbers("?", (count,), 2)
    same(apply(np.where, (mask, x, y), x.dtype), np.where(mask, x, y))
    same(apply(np.where, (mask, y, x), x.dtype), np.where(mask, y, x))
    same(apply(np.where, (mask[::-1], x, x[::-1]), x.dtype), np.where(mask[::-1], x, x[::-1]))


@pytest.mark.parametrize(
    ("run", "arrays", "dtype"),
    [
        (np.add, (X.reshape(60, 10, 700)[:, ::2, ::2],) * 2, "f4"),  # three dimensions are left
        (np.add, (X[:10, :10],) * 2, "f4"),
        (np.add, (X, X), "f8"),  # no loop gives that
        (np.matmul, (X.T, X), "f4"),
        (np.divmod, (X, X), "f4"),
        (np.power, (np.full(SIZE, 2), np.full(SIZE, -1)), "i8"),
        (np.add, (np.full(SIZE, 1, object),) * 2, "O"),
        (np.where, (X, X, X), "f4"),  # no truth values
        (np.where, (X > 0, X, X), "f8"),
        (np.add, (X.astype(">f4"),) * 2, "f4"),
    ],
)
def test_what_is_left_to_numpy(run: Any, arrays: tuple[Any, ...], dtype: str) -> None:
    assert apply(run, arrays, np.dtype(dtype)) is None


def test_memory_between_elements_is_left_to_numpy() -> None:
    raw = np.zeros(4 * SIZE + 1, np.uint8)
    x = raw[1:].view(np.float32)
    assert not x.flags.aligned
    assert apply(np.add, (x, x), x.dtype) is None
    assert (tj.from_numpy(x.copy()) + 1.0).sum().item() == SIZE


def test_loops_are_those_of_numpy() -> None:
    single, double, whole = (np.dtype(name) for name in ("f4", "f8", "i4"))
    assert inner_loop(np.add, (single,) * 3) is not None
    assert inner_loop(np.add, (single,) * 3) != inner_loop(np.add, (double,) * 3)
    assert inner_loop(np.add, (single, single, double)) is None
    assert inner_loop(np.frexp, (single, single, whole)) is None


def test_eager_operations_go_this_way(monkeypatch: pytest.MonkeyPatch) -> None:
    served = []
    real = strided.apply

    def counting(run: Any, arrays: Any, dtype: Any) -> Any:
        found = real(run, arrays, dtype)
        served.append((run, found is not None))
        return found

    monkeypatch.setattr("tracejit.ops.slabs._native", [counting])
    x = tj.from_numpy(numbers("f4"))
    y = x[:, 1:] + x[:, :-1]
    z = tj.where(x > 0, x, 0.0)
    assert (np.add, True) in served
    assert (np.where, True) in served
    assert (np.greater, True) in served
    assert y.shape == (512, 511)
    assert z[1:].min().item() == 0.0
    assert (tj.ones(4, 4) + 1.0).sum().item() == 32.0
    assert len(served) == 3


BODIES: dict[str, Callable[[Any], Any]] = {
    "relu": lambda x: x.relu(),
    "square": lambda x: x**2,
    "cube": lambda x: x**3,
    "clamp": lambda x: x.clamp(-0.5, 1.5),
    "reciprocal": lambda x: x.reciprocal(),
    "rsqrt": lambda x: x.rsqrt(),
    "floor": lambda x: x.floor(),
    "round": lambda x: x.round(),
    "clone": lambda x: x.clone(),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *product(BODIES, ["float16", "bfloat16", "float32", "float64", "int32"]),
        ("clone", "bool"),
    ],
)
def test_bodies_made_of_functions(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = tj.from_numpy(numbers("f4")).nan_to_num(0.0, 7.0, -7.0).to(getattr(tj, dtype))
    x = tj.cat([x[:, :1] * float("nan"), x[:, 1:]], 1) if x.is_floating_point() else x
    found = BODIES[name](x)
    monkeypatch.setattr("tracejit.ops.slabs._native", [])
    expected = BODIES[name](x)
    assert found.dtype is expected.dtype
    assert tj.equal(found.isnan(), expected.isnan())
    kept = ~expected.isnan()
    assert tj.equal(found[kept], expected[kept])
    assert found.data_ptr() != x.data_ptr()


def test_platforms_without_the_runtime_stay_with_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strided, "_code", [])
    monkeypatch.setattr(strided, "loaded", lambda: False)
    strided.make()
    assert strided._code == []
    assert apply(np.negative, (X,), X.dtype) is None
    assert (tj.from_numpy(X[:, :9].copy()) * 2.0).shape == (600, 9)


def test_threads_that_compile_are_left_their_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strided, "is_occupied", occupied.is_occupied)
    x = numbers("f4", (1 << 14,))
    with occupied.occupied(), np.errstate(all="ignore"):
        assert apply(np.negative, (X,), X.dtype) is None
        same(apply(np.where, (x > 0, x, x * 2), x.dtype), np.where(x > 0, x, x * 2))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_no_thread_compiles_in_a_child_that_did_not_begin_to() -> None:
    code = """
import os
from tracejit.runtime.occupied import is_occupied, occupied
with occupied():
    child = os.fork()
    if child == 0:
        os._exit(int(is_occupied()))
    print(is_occupied(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert printed(code) == "True 0\n"


def test_one_thread_and_several_find_the_same() -> None:
    x = tj.from_numpy(numbers("f4"))
    before, results = tj.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            tj.set_num_threads(threads)
            results.append((x * 3.0 + x.t(), tj.where(x > 0.5, x, x.t())))
    finally:
        tj.set_num_threads(before)
    for found in results[1:]:
        for mine, first in zip(found, results[0], strict=True):
            same(mine.numpy(), first.numpy())


def test_subnormal_numbers_count_as_zero_where_that_is_asked_for() -> None:
    x = tj.full(SHAPE, 1e-40)
    assert (x * 1.0).any()
    if tj.set_flush_denormal(True):
        try:
            assert not (x * 1.0).any()
        finally:
            tj.set_flush_denormal(False)
    assert (x * 1.0).all()


ALONE_IN_A_PROCESS = """
import time
import numpy as np, tracejit as tj
from tracejit.runtime.native.native import loaded
from tracejit.runtime.occupied import is_occupied
x = tj.ones(600, 600)
assert not loaded()
first = x + 1.5                      # NumPy's, while the runtime is made beside it
end = time.monotonic() + 60
while not loaded() and time.monotonic() < end:
    x + 1.5
    time.sleep(0.01)
second = x + 1.5
print(loaded(), bool((first == 2.5).all()), bool((second == 2.5).all()))
"""


def test_eager_code_alone_gets_the_runtime_beside_it(tmp_path: Any) -> None:
    found = printed(ALONE_IN_A_PROCESS, TRACEJIT_CACHE_DIR=str(tmp_path))
    assert found == "True True True\n"
    disabled = ALONE_IN_A_PROCESS.replace("+ 60", "+ 0.3")
    assert printed(disabled, TRACEJIT_DISABLE="1") == "False True True\n"
