"""Long rows that begin anywhere: the elements up to where a vector begins are done first, and nothing beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from kernel_tools import kernel
from tracejit.codegen.lower.lower import lower_kernel

BLUR = """
for r in range(lo, hi):
    for i in range(n):
        out[r * step + i] = x[r * step + i] * {two} + y[r * step + i]
return 0
"""
TWICE = """
for r in range(lo, hi):
    for i in range(n):
        x[r * step + i] = x[r * step + i] + y[r * step + i]
return 0
"""
KINDS = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}
LENGTHS = (1, 15, 16, 63, 64, 65, 127, 128, 129, 130, 144, 200, 513)


def blur(kind: str, out: str = "") -> str:
    parameters = f'x: "{kind}*", y: "{kind}*", out: "{out or kind + "*"}", n: "i64", step: "i64"'
    two = {"f32": "float32(2)", "f64": "float64(2)", "i32": "int32(2)", "i64": "2"}[kind]
    return kernel(parameters, BLUR.format(two=two))


def text_of(source: str) -> str:
    return lower_kernel(source, "k", noalias=True, vector_bits=512, lacking=(), widen=512).text


def aligned(n: int, kind: Any) -> np.ndarray:
    raw = np.zeros(n * 8 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + n * np.dtype(kind).itemsize].view(kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", LENGTHS)
def test_rows_from_anywhere_on(built: Any, kind: str, n: int) -> None:
    """All elements of all rows are there, once, and what lies around them is as it was."""
    dtype, rows = KINDS[kind], 3
    k = built(blur(kind))
    for offset in (0, 1, 2, 7, 15):
        step = n + offset % 3
        x, y, out = (aligned(rows * step + 64, dtype) for _ in range(3))
        x[:], y[:], out[:] = np.arange(len(x)) % 97, np.arange(len(y)) % 89, -1
        expected = out.copy()
        for r in range(rows):
            at = slice(offset + r * step, offset + r * step + n)
            expected[at] = x[at] * 2 + y[at]
        k(x[offset:], y[offset:], out[offset:], n, step, 0, rows, 0)
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("n", LENGTHS)
def test_rows_past_the_caches(built: Any, n: int) -> None:
    """Vectors of rows that are streamed are written whole, wherever the rows begin."""
    k = built(blur("f32", "streamed f32*"))
    for offset in (0, 3, 15):
        x, y, out = (aligned(4 * n + 64, np.float32) for _ in range(3))
        x[:], y[:], out[:] = np.arange(len(x)), 1, -1
        k(x[offset:], y[offset:], out[offset:], n, n, 0, 4, 0)
        end = offset + 4 * n
        np.testing.assert_array_equal(out[offset:end], x[offset:end] * 2 + 1)
        assert (out[:offset] == -1).all()
        assert (out[end:] == -1).all()


def test_what_a_loop_reads_of_what_it_writes_keeps_its_order(built: Any) -> None:
    source = kernel('x: "f32*", y: "f32*", n: "i64", step: "i64"', TWICE)
    assert ".enter:" not in text_of(source)
    assert ".enter:" in text_of(blur("f32"))
    x, y = aligned(400, np.float32), aligned(400, np.float32)
    x[:], y[:] = 1, np.arange(400)
    built(source)(x[1:], y[1:], 199, 199, 0, 2, 0)
    np.testing.assert_array_equal(x[1:399], y[1:399] + 1)
    assert x[399] == 1


def test_loops_that_are_no_rows_stay_as_they_are() -> None:
    flat = kernel('x: "f32*", out: "f32*"', "for i in range(lo, hi):\n    out[i] = x[i]\nreturn 0")
    assert ".enter:" not in text_of(flat)


@pytest.mark.parametrize("columns", [7, 130, 510])
def test_stencils_of_programs(columns: int) -> None:
    u = tj.rand(40, columns + 2)
    f = tj.compile(
        lambda u: u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1],
        strict=True,
    )
    g = tj.compile(lambda u: tj.nn.functional.pad(u[1:-1, 1:-1] * 2, (1, 1, 1, 1)), strict=True)
    for _ in range(2):
        want = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
        assert tj.equal(f(u), want)
        assert tj.equal(g(u), tj.nn.functional.pad(u[1:-1, 1:-1] * 2, (1, 1, 1, 1)))
