"""Padded memory: what is left of a row is written and read in whole vectors, and nothing behind it matters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from kernel_tools import COUNTS, kernel
from tracejit.codegen.lower.lower import lower_kernel

PADDED = """
for r in range(lo, hi):
    for i in range(n):
        row[i] = x[r * n + i] * float32(2)
    for i in range(n):
        again[i] = again[i] + row[i]
    for i in range(n):
        out[r * n + i] = row[i] + again[i]
return 0
"""


def padded(kind: str) -> str:
    head = f'x: "f32*", row: "{kind}", again: "{kind}", out: "f32*", n: "i64"'
    return kernel(head, PADDED)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("n", COUNTS)
def test_rows_of_padded_memory(built: Any, n: int) -> None:
    """What is written behind a row stays in its padding; rows that are added to are written with a mask."""
    x = np.arange(3 * n, dtype=np.float32) - 7
    row, again = np.full(n + 64, 5, np.float32), np.zeros(n + 64, np.float32)
    out = np.full(3 * n + 64, 9, np.float32)
    built(padded("padded f32*"))(x, row, again, out, n, 0, 3, 0)
    doubled = 2 * x.reshape(3, n)
    np.testing.assert_array_equal(out[: 3 * n].reshape(3, n), doubled + doubled.cumsum(0))
    assert (out[3 * n :] == 9).all()
    assert (again[n:] == 0).all()


def test_vectors_of_padded_memory_are_whole() -> None:
    """A masked store is not handed to the load that follows, which waits for the cache."""
    for kind, masked in (("f32*", 2), ("padded f32*", 1)):
        text = lower_kernel(
            padded(kind), "k", noalias=True, vector_bits=512, lacking=(), widen=512
        ).text
        assert text.count("call void @llvm.masked.store") == masked


@pytest.mark.parametrize("columns", [1, 5, 17, 100])
def test_rows_of_programs(columns: int) -> None:
    """Workers have rows of their own, and rows of several dimensions follow one another."""
    x = tj.linspace(-5.0, 3.0, 3000 * columns).reshape(3000, columns)
    y = tj.linspace(-5.0, 3.0, 60 * 7 * columns).reshape(60, 7, columns)
    f = tj.compile(lambda x: tj.softmax(x, -1), strict=True)
    g = tj.compile(lambda y: (y - y.mean((1, 2), keepdim=True)).exp().sum((1, 2)), strict=True)
    with tj.no_grad():
        for _ in range(3):
            found = f(x), g(y)
        exact = np.exp(x.numpy().astype(np.float64))
        np.testing.assert_allclose(found[0].numpy(), exact / exact.sum(-1, keepdims=True), 1e-5)
        assert tj.allclose(found[1], g.__wrapped__(y))
