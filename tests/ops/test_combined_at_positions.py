"""Elements combined at positions: kernels of eager and compiled code give NumPy's bits, for any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import host_ops, pool_of
from ir_graphs import assert_same_bits
from tracejit.ops import combining
from tracejit.runtime.eager import functions

#: Of the result and of the positions, and along which dimension.
PLACES = (
    ((50, 64), (300, 64), 0),
    ((20, 30, 7), (20, 300, 7), 1),
    ((5000,), (5000,), 0),
    ((64, 50), (64, 300), 1),
    ((3, 4, 50), (3, 4, 900), 2),
    ((60, 50), (40, 90), 1),  # not all rows: left to NumPy in eager code
)
REDUCTIONS = ("sum", "prod", "amax", "amin")


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Small ones; zeros of both signs, infinities and NaN among floats."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, shape).astype(dtype)
    if x.dtype.kind == "f":
        x += rng.standard_normal(shape).astype(dtype) * (rng.random(shape) < 0.5)
        for special in (-0.0, np.nan, np.inf):
            x[rng.random(shape) < 0.01] = special
    return x


def operands(place: Any, dtype: str, seed: int = 0) -> list[Any]:
    shape, index, dim = place
    rng = np.random.default_rng(seed)
    positions = rng.integers(0, shape[dim], index)
    return [
        tj.from_numpy(x) for x in (numbers(shape, dtype, 1), positions, numbers(index, dtype, 2))
    ]


@pytest.fixture
def by_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "_COMBINED", 0)
    monkeypatch.setattr(combining, "LEAST", 0)


@pytest.mark.sampled(12)
@pytest.mark.filterwarnings("ignore:.*(overflow|invalid)")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("place", PLACES)
def test_kernels_give_the_bits_of_numpy(place, reduce, dtype, monkeypatch):
    x, i, y = operands(place, dtype)
    f = lambda x, i, y: x.scatter_reduce(place[2], i, y, reduce)  # noqa: E731
    monkeypatch.setattr(functions, "_COMBINED", 1 << 60)
    expected = f(x, i, y).numpy()
    monkeypatch.setattr(functions, "_COMBINED", 0)
    compiled = tj.compile(f, strict=True)
    for threads in (1, 2, 3):
        with pool_of(threads):
            assert_same_bits(f(x, i, y).numpy(), expected)
            for _ in range(3):
                assert_same_bits(compiled(x, i, y).numpy(), expected)
    assert not host_ops(compiled)


@pytest.mark.parametrize("dim", [0, 1])
def test_slices_at_positions(dim, by_kernels):
    rng = np.random.default_rng(0)
    x = np.zeros((40, 70), np.float32)
    i = rng.integers(-x.shape[dim], x.shape[dim], (5, 60))
    shape = (*x.shape[:dim], 300, *x.shape[dim + 1 :])
    y = rng.standard_normal(shape).astype(np.float32)
    expected = x.copy()
    np.add.at(expected, (slice(None),) * dim + (i.reshape(-1),), y)
    found = tj.from_numpy(x).index_put(
        (*[slice(None)] * dim, tj.from_numpy(i.reshape(-1))), tj.from_numpy(y), accumulate=True
    )
    assert_same_bits(found.numpy(), expected)


def test_positions_that_repeat_in_other_dimensions_are_those_of_slices(by_kernels, monkeypatch):
    seen: list[bool] = []
    run = combining._run[0]
    watched = lambda *given: seen.append(given[-1][-1]) or run(*given)  # noqa: E731
    monkeypatch.setattr(combining, "_run", [watched])
    index = tj.arange(300) % 50
    y = tj.ones(300, 64)
    whole = tj.zeros(50, 64).scatter_add(0, index[:, None].expand(300, 64), y)
    each = tj.zeros(50, 64).scatter_add(0, index[:, None].repeat(1, 64), y)
    assert seen == [False, True]
    assert whole.tolist() == each.tolist() == [[6.0] * 64] * 50


def test_few_elements_and_other_types_are_left_to_numpy(by_kernels, monkeypatch):
    monkeypatch.setattr(combining, "LEAST", 1 << 11)
    monkeypatch.setattr(functions, "_combine_table", None)  # a call of it would fail
    assert tj.zeros(3).index_add(0, tj.tensor([0, 0]), tj.ones(2)).tolist() == [2.0, 0.0, 0.0]
    many = tj.zeros(4000, dtype=tj.int64)
    for dtype, total in ((tj.float16, 4000), (tj.int8, -96), (tj.complex64, 4000)):
        found = tj.zeros(2, dtype=dtype).index_add(0, many, tj.ones(4000, dtype=dtype))
        assert found[0].item() == total


def test_a_kernel_is_made_after_many_elements(monkeypatch):
    made: list[Any] = []
    table = functions._combine_table
    monkeypatch.setattr(functions, "_met", {})
    monkeypatch.setattr(functions, "_combine_table", lambda *key: made.append(key) or table(*key))
    index, y = tj.zeros(1 << 14, dtype=tj.int64), tj.ones(1 << 14)
    calls = functions._COMBINED // (1 << 14)
    for _ in range(calls - 1):
        tj.zeros(3).index_add(0, index, y)
    assert not made
    assert tj.zeros(3).index_add(0, index, y)[0] == 1 << 14
    assert len(made) == 1


def test_gradients_of_extremes_are_native_too():
    x, i, y = operands(PLACES[0], "float32")
    x, y = (tj.nan_to_num(t, 0.0, 1.0, -1.0).requires_grad_() for t in (x, y))
    f = lambda x, y: x.scatter_reduce(0, i, y, "amax").square().sum()  # noqa: E731
    compiled = tj.compile(f, strict=True)
    for _ in range(3):
        expected = tj.autograd.grad(f(x, y), (x, y))
        found = tj.autograd.grad(compiled(x, y), (x, y))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-5)
    assert not host_ops(compiled)
