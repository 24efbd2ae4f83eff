"""Many products of small matrices, and of many rows with one, are kernels that work on them side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import host_ops
from ir_graphs import documented
from tracejit import ir
from tracejit.codegen.cpu import short_rows as cpu_short_rows
from tracejit.passes.products import small_products as module
from tracejit.passes.products.small_products import small_products


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few there are."""
    monkeypatch.setattr(module, "LEAST", 0)
    monkeypatch.setattr(cpu_short_rows, "LEAST_TERMS", 0)


def test_the_documented_example() -> None:
    found = small_products(documented(module, "Before"))
    ir.verify(found)
    assert found == documented(module, "After")


@pytest.mark.parametrize(
    ("x", "y", "result"),
    [
        ("900, 5, 3", "900, 3, 5", "900, 5, 5"),
        ("900, 3, 9", "900, 9, 3", "900, 3, 3"),
        ("900, 9", "9, 3", "900, 3"),
        ("900, 3", "3, 9", "900, 9"),
        ("900, 0", "0, 3", "900, 3"),
    ],
)
def test_larger_products_stay(x: str, y: str, result: str) -> None:
    graph = ir.parse(
        f"graph f(x: f32[{x}], y: f32[{y}]) {{ %0: f32[{result}] = matmul(x, y) return %0 }}"
    )
    assert small_products(graph) is graph


def test_few_products_are_left_to_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST", 900 * 27 + 1)
    graph = documented(module, "Before")
    assert small_products(graph) is graph


def rotated(x: Any, y: Any) -> Any:
    return tj.relu(x @ y + 1)


def turned(x: Any, y: Any) -> Any:
    return (y.mT @ x.mT).mT * 2


def total(x: Any, y: Any) -> Any:
    return (x @ y).square().sum()


@pytest.mark.sampled(96)
@pytest.mark.parametrize("function", [rotated, turned, total])
@pytest.mark.parametrize("dtype", [tj.float64, tj.float32, tj.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((40, 3, 3), (40, 3, 3)),
        ((40, 3, 3), (3, 3)),
        ((7, 40, 4, 2), (40, 2, 4)),
        ((40, 1, 3), (40, 3, 5)),
        ((40, 4, 4), (40, 4, 1)),
        ((90, 6), (6, 8)),
        ((5, 20, 2, 8), (5, 20, 8, 2)),
        ((20, 1, 3, 3), (30, 3, 3)),
        ((3, 2, 2), (3, 2, 2)),
    ],
    ids=str,
)
def test_as_eager(function: Any, dtype: tj.dtype, x: Any, y: Any) -> None:
    compiled = tj.compile(function, strict=True)
    tolerance = {tj.float64: 1e-12, tj.float32: 1e-5, tj.bfloat16: 5e-2}[dtype]
    for seed in range(3):
        random = np.random.default_rng(seed)
        found = []
        for call in (function, compiled):
            random = np.random.default_rng(seed)
            leaves = [
                tj.from_numpy(random.standard_normal(s)).to(dtype).requires_grad_() for s in (x, y)
            ]
            result = call(*leaves)
            result.float().sum().backward()
            found.append([v.detach().double().numpy() for v in (result, *(t.grad for t in leaves))])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a, b, tolerance, tolerance * max(1.0, np.abs(a).max()))


def test_views_and_special_values() -> None:
    compiled = tj.compile(lambda x, y: x @ y, strict=True)
    x, y = tj.randn(3, 50, 6).permute(1, 0, 2)[..., ::2], tj.randn(50, 8, 4)[:, 1:4, :3]
    x[3, 1, 2], y[4, 0, 1], y[5, 2, 2] = float("inf"), float("nan"), -float("inf")
    for _ in range(2):
        found = compiled(x, y)
    np.testing.assert_allclose(found.numpy(), (x @ y).numpy(), 1e-5, 1e-5)


def test_one_kernel() -> None:
    f = tj.compile(rotated, strict=True)
    for _ in range(3):
        f(tj.randn(50, 3, 3), tj.randn(50, 3, 3))
    assert len(f.kernels) == 1
    assert "for row in" in f.kernels[0].source
    assert f.kernels[0].source.count("out0[") == 9
    assert host_ops(f) == set()
