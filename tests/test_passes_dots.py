"""Products of one row and one column are sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import host_ops
from ir_graphs import documented
from tracejit import ir
from tracejit.passes import dots as module
from tracejit.passes.dots import dots


def test_the_documented_example() -> None:
    found = dots(documented(module, "Before"))
    ir.verify(found)
    assert found == documented(module, "After")


@pytest.mark.parametrize(
    ("x", "y", "out"),
    [
        ("f32[2, 9]", "f32[9, 1]", "f32[2, 1]"),
        ("f32[1, 9]", "f32[9, 2]", "f32[1, 2]"),
        ("f16[1, 9]", "f16[9, 1]", "f16[1, 1]"),
        ("i64[1, 9]", "i64[9, 1]", "i64[1, 1]"),
    ],
)
def test_other_products_stay(x: str, y: str, out: str) -> None:
    graph = ir.parse(f"graph f(x: {x}, y: {y}) {{ %0: {out} = matmul(x, y) return %0 }}")
    assert dots(graph) is graph


@pytest.mark.parametrize("dtype", [tj.float32, tj.float64], ids=str)
@pytest.mark.parametrize(
    ("left", "right"),
    [((n,), (n,)) for n in (0, 1, 2, 17, 100_003)]
    + [((3, 1, 33), (3, 33, 1)), ((1, 5), (4, 5, 1)), ((2, 1, 1, 9), (3, 9, 1)), ((1, 0), (0, 1))],
)
def test_values_and_gradients(left: Any, right: Any, dtype: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        return (x @ y).tanh() * 2

    compiled = tj.compile(f, strict=True)
    values = [np.random.default_rng(s).standard_normal(n) / 30 for s, n in ((0, left), (1, right))]
    for _ in range(2):
        sides = []
        for function in (f, compiled):
            x, y = (tj.from_numpy(v).to(dtype).requires_grad_() for v in values)
            result = function(x, y)
            result.sum().backward()
            sides.append((result.detach(), x.grad, y.grad))
        for a, b in zip(*sides, strict=True):
            assert a.spec == b.spec
            np.testing.assert_allclose(b.numpy(), a.numpy(), 2e-5, 2e-6)
    assert not host_ops(compiled)


def test_what_is_not_finite_comes_through() -> None:
    compiled = tj.compile(tj.dot, strict=True)
    ones = tj.ones(40)
    for number, found in ((np.inf, np.inf), (np.nan, np.nan), (-np.inf, -np.inf)):
        x = tj.ones(40)
        x[7] = number
        for _ in range(2):
            assert np.array_equal(compiled(x, ones).numpy(), np.float32(found), equal_nan=True)
