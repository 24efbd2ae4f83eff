"""Sums of many rows keep their digits, however the rows lie, in whatever is made of sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.ops.long_sums import BESIDE, BLOCK, MOST, added

ROWS = 200_000
#: From a library and rows: what sums the rows.
SUMS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda t, x: t.sum(x, 0),
    "mean": lambda t, x: t.mean(x, 0),
    "variance": lambda t, x: t.var(x, 0),
    "deviation": lambda t, x: t.std(x, 0, correction=0),
    "norm": lambda t, x: t.linalg.vector_norm(x, dim=0),
    "softmax": lambda t, x: t.softmax(x, 0),
    "logarithm of a sum": lambda t, x: t.logsumexp(x, 0),
    "gradient of what is broadcast": lambda t, x: gradient_of(t, x),
}
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rows": lambda x: x,
    "columns": np.asfortranarray,
    "every other row": lambda x: np.repeat(x, 2, 0)[::2],
    "parts of rows": lambda x: np.concatenate([x, x], 1)[:, : x.shape[1]],
}


def gradient_of(t: Any, x: Any) -> Any:
    bias = t.zeros(x.shape[1], dtype=x.dtype, requires_grad=True)
    (((x + bias) * x).sum()).backward()
    return bias.grad


@pytest.mark.parametrize("width", [2, 5])
@pytest.mark.parametrize("name", SUMS)
def test_single_precision_keeps_its_digits(name: str, width: int):
    x = np.random.default_rng(width).random((ROWS, width)).astype(np.float32)
    found = SUMS[name](tj, tj.tensor(x)).numpy()
    exact = SUMS[name](tj, tj.tensor(x.astype(np.float64))).numpy()
    np.testing.assert_allclose(found, exact, 2e-6)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "shape", [(70_000, 3), (70_000, 300), (9, 20_000, 2), (300, 300, 7)], ids=str
)
def test_any_layout(shape: tuple[int, ...], layout: str):
    x = np.random.default_rng(0).random(shape).astype(np.float32)
    if x.size > 1 << 23:
        x = x[::4]
    x = LAYOUTS[layout](x)
    for dims in [(0,), (0, 1), tuple(range(x.ndim)), (x.ndim - 2,)]:
        found, exact = (
            added(x, dims, True),
            np.add.reduce(x.astype(np.float64), dims, keepdims=True),
        )
        np.testing.assert_allclose(found, exact, 2e-6)
        assert found.dtype == np.float32


@pytest.mark.parametrize(
    "rows", [MOST, MOST + 1, BLOCK * BESIDE - 1, BLOCK * BESIDE + 1, 3 * BLOCK * BESIDE + 77]
)
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.complex64, np.int64, np.bool_])
def test_every_row_is_added_once(rows: int, kind: type):
    x = (np.arange(rows * 3).reshape(rows, 3) % 7).astype(kind)
    np.testing.assert_array_equal(added(x, (0,)), np.add.reduce(x, axis=0))  # whole numbers: exact


@pytest.mark.parametrize("value", [-0.0, np.inf, -np.inf, np.nan])
def test_special_values(value: float):
    x = np.full((5000, 2), value, np.float32)
    found, expected = added(x, (0,)), np.add.reduce(x, axis=0)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_few_rows_are_numpys():
    x = np.random.default_rng(0).random((MOST, 3)).astype(np.float32)
    np.testing.assert_array_equal(added(x, (0,)), np.add.reduce(x, axis=0))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["float32", "float64", "complex64", "bfloat16"])
@pytest.mark.parametrize(
    ("shape", "dim"), [((20_000,), 0), ((3, 5_000), 1), ((5_000, 40), 0)], ids=str
)
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_results_have_the_bits_of_pytorch(name: str, shape: Any, dim: int, kind: str):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).random(shape)
    if name == "cumprod":
        x = 1 + (x - 0.5) * 0.01

    def run(t: Any) -> Any:
        return getattr(t, name)(t.tensor(x).to(getattr(t, kind)), dim)

    def numbers(found: Any) -> np.ndarray:
        return (found.float() if kind == "bfloat16" else found).numpy()

    compiled = tj.compile(lambda x: getattr(tj, name)(x, dim))
    given = tj.tensor(x).to(getattr(tj, kind))
    compiled(given)
    for found in (run(tj), compiled(given)):
        np.testing.assert_array_equal(numbers(found), numbers(run(torch)))
