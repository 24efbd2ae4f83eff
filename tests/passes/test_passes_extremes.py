"""Positions of extremes, and the extremes themselves, become reductions that fuse with what computes the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracejit as tj
from ir_graphs import documented
from tracejit import ir
from tracejit.passes import extremes as module
from tracejit.passes.extremes import LONGEST, extremes

DTYPES = [
    *(tj.float32, tj.float64, tj.float16, tj.bfloat16),
    *(tj.int64, tj.int32, tj.int16, tj.int8, tj.uint8),
]
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 1e-42, -1e-42, 2.5]
LIMITS = [
    0,
    -1,
    1,
    7,
    -(1 << 31),
    (1 << 31) - 1,
    255,
    127,
    -128,
    1 << 40,
    -(1 << 63),
    (1 << 63) - 1,
]


def test_the_documented_example() -> None:
    found = extremes(documented(module, "Before"))
    ir.verify(found)
    assert found == documented(module, "After")


@pytest.mark.parametrize(
    ("x", "dim", "place"),
    [
        (f"f32[3, {LONGEST + 1}]", 1, "i64[3]"),
        ("f64[3, 4]", 0, "i64[4]"),
        ("bool[3, 4]", 1, "i64[3]"),
    ],
)
def test_kernels_of_their_own_stay(x: str, dim: int, place: str) -> None:
    graph = ir.parse(
        f"graph f(x: {x}) {{ %0: {place} = argmin(x, dims=({dim},), keepdim=False) return %0 }}"
    )
    assert extremes(graph) is graph


def numbers(dtype: Any, shape: tuple[int, ...], seed: int, special: bool) -> Any:
    """A tensor with many equal elements."""
    draws = np.random.default_rng(seed)
    few = draws.integers(-4, 5, shape)
    if special:
        values = SPECIAL if dtype.is_floating_point else LIMITS
        few = np.array(values)[draws.integers(0, len(values), shape)]
    return tj.tensor(few).to(dtype)


def both(x: Any, dim: int, keepdim: bool) -> Any:
    return (*x.max(dim, keepdim), *x.min(dim, keepdim))


def positions(x: Any, dim: int, keepdim: bool) -> Any:
    y = -x
    return y.argmax(dim, keepdim), y.argmin(dim, keepdim), y.argmin(), y.argmax(keepdim=keepdim)


def gathered(x: Any, dim: int, keepdim: bool) -> Any:
    y = x + x
    place = y.argmin(dim).unsqueeze(dim)
    return y.gather(dim, place), y.gather(dim, y.argmax(dim, keepdim=True)).squeeze(dim), place


def elsewhere(x: Any, dim: int, keepdim: bool) -> Any:
    """Of other numbers at the position, and of several positions."""
    place = x.argmax(dim, keepdim=True)
    return (x * 2).gather(dim, place), x.gather(dim, place.expand(x.shape)), place


def turned(x: Any, dim: int, keepdim: bool) -> Any:
    return both(x.transpose(0, -1) + 1, dim, keepdim)


@pytest.mark.sampled(72)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("function", [both, positions, gathered, elsewhere, turned])
@settings(deadline=None, max_examples=10)
@given(
    shape=st.lists(st.integers(1, 19), min_size=2, max_size=3),
    dim=st.integers(-2, 1),
    keepdim=st.booleans(),
    special=st.booleans(),
    seed=st.integers(0, 99),
)
def test_compiled_extremes_are_those_of_eager_code(
    function: Any,
    dtype: Any,
    shape: list[int],
    dim: int,
    keepdim: bool,
    special: bool,
    seed: int,
) -> None:
    x = numbers(dtype, tuple(shape), seed, special)
    compiled = tj.compile(function)
    for _ in range(2):
        for out, expected in zip(compiled(x, dim, keepdim), function(x, dim, keepdim), strict=True):
            assert out.dtype is expected.dtype
            assert out.shape == expected.shape
            out, expected = out.double().numpy(), expected.double().numpy()
            np.testing.assert_array_equal(out, expected)
            numbers_only = ~np.isnan(expected)
            signs = np.signbit(out)[numbers_only], np.signbit(expected)[numbers_only]
            np.testing.assert_array_equal(*signs)


@pytest.mark.parametrize(
    ("dtype", "dim"), [(tj.float32, 0), (tj.float32, 1), (tj.float32, 2), (tj.float64, 2)]
)
def test_values_and_positions_are_one_kernel(dtype: Any, dim: int) -> None:
    compiled = tj.compile(lambda x, y: (x * y).max(dim))
    x, y = tj.rand(9, 8, 7, dtype=dtype), tj.rand(7, dtype=dtype)
    for _ in range(3):
        compiled(x, y)
    assert len(compiled.kernels) == 1


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.bfloat16], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_gradients_go_to_the_first_of_equal_ones(dtype: Any, dim: int) -> None:
    def step(x: Any, y: Any) -> Any:
        best, place = (x * y).max(dim)
        return (best * (place + 1)).sum()

    compiled = tj.compile(step)
    x = numbers(dtype, (6, 5), 3, False)
    for _ in range(3):
        found = []
        for run in (step, compiled):
            a = x.clone().requires_grad_()
            run(a, x + 1).backward()
            found.append(a.grad.double().numpy())
        np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("rounds", [3, 40])
def test_the_best_path(rounds: int) -> None:
    def viterbi(emit: Any, moves: Any) -> Any:
        score, back = emit[0], []
        for t in range(1, rounds):
            best, place = (score[:, None] + moves).max(0)
            score = best + emit[t]
            back.append(place)
        at = score.argmax(0, keepdim=True)
        path = [at]
        for place in reversed(back):
            at = place.gather(0, at)
            path.append(at)
        return score, tj.cat(path)

    emit, moves = tj.rand(rounds, 7), tj.rand(7, 7)
    compiled = tj.compile(viterbi)
    for _ in range(3):
        for out, expected in zip(compiled(emit, moves), viterbi(emit, moves), strict=True):
            np.testing.assert_array_equal(out.numpy(), expected.numpy())
