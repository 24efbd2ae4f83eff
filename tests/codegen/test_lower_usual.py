"""Usual choices in vector code: all lanes the short way, until one is an exception; no lane notices its neighbours."""

from __future__ import annotations

import re
from textwrap import indent
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from kernel_tools import COUNTS, kernel
from tracejit.codegen.lower.lower import lower_kernel
from tracejit.scalar_math import library as scalar_math

DTYPES = {"f32": "f4", "f64": "f8"}
EXCEPTIONS = (1e30, -3e9, np.inf, np.nan, -np.inf)
BODIES = {
    "one": "out[i] = sin_{t}(x[i])",
    "one of another": "out[i] = tan_{t}(cos_{t}(x[i]) * x[i])",
    "two": "out[i] = sin_{t}(x[i]) - cos_{t}(x[i + 1])",
    "in place": "x[i] = cos_{t}(x[i])",
    "read again": "x[i] = sin_{t}(x[i])\nout[i] = x[i]",
    "every other": "out[i] = sin_{t}(x[i * 2])",
    "written apart": "out[i * 2] = sin_{t}(x[i])",
}


def angles(count: int, dtype: str, exceptions: int) -> np.ndarray:
    random = np.random.default_rng(count + exceptions)
    values = (random.standard_normal(count) * 20).astype(dtype)
    places = random.permutation(count)[:exceptions]
    values[places] = [EXCEPTIONS[i % 5] for i in range(len(places))]
    return values


def same(mine: np.ndarray, theirs: np.ndarray) -> None:
    np.testing.assert_array_equal(mine, theirs)
    kept = ~np.isnan(mine)
    assert np.array_equal(np.signbit(mine[kept]), np.signbit(theirs[kept]))


def all_at_once(body: str, x: np.ndarray, out: np.ndarray, i: np.ndarray) -> None:
    """The rounds as array expressions, which they may be: none reads what another one wrote."""
    with np.errstate(all="ignore"):
        exec(body, dict(scalar_math.namespace()), {"x": x, "out": out, "i": i})


@pytest.mark.sampled(36)
@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize("name", BODIES)
def test_exceptions_anywhere(built: Any, name: str, type_: str) -> None:
    body = BODIES[name].format(t=type_)
    loop = f"for i in range(lo, hi):\n{indent(body, '    ')}\nreturn 0"
    run = built(kernel(f'x: "{type_}*", out: "{type_}*"', loop))
    for count in COUNTS:
        for exceptions in (0, 1, 7):
            x = angles(2 * count + 5, DTYPES[type_], exceptions)
            found, expected = [(x.copy(), np.full(x.shape, 77, x.dtype)) for _ in range(2)]
            assert run(*found, 3, 3 + count, 0) == 0
            all_at_once(body, *expected, np.arange(3, 3 + count))
            for mine, theirs in zip(found, expected, strict=True):
                same(mine, theirs)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_what_rounds_carry_survives_exceptions(built: Any, type_: str) -> None:
    cast = {"f32": "float32", "f64": "float64"}[type_]
    text = kernel(
        f'x: "{type_}*", out: "{type_}*"',
        f"a = {cast}(0)\nb = {cast}(-inf)\nfor i in range(lo, hi):\n    v = sin_{type_}(x[i])\n"
        f"    a += v\n    b = maximum_{type_}(b, v)\nout[0] = a\nout[1] = b\nreturn 0",
    )
    run = built(text)
    for count in COUNTS[1:]:
        for exceptions in (0, 1, 5):
            x = angles(count, DTYPES[type_], exceptions)
            x[~np.isfinite(x)] = 5e12
            out = np.zeros(2, x.dtype)
            assert run(x, out, 0, count, 0) == 0
            values = scalar_math.evaluate(f"sin_{type_}", x)
            np.testing.assert_allclose(out[0], values.sum(dtype="f8"), 1e-5, 1e-5 * count)
            assert out[1] == values.max()


def test_usual_lanes_compute_no_exception() -> None:
    source = kernel(
        'x: "f32*", out: "f32*"', "for i in range(lo, hi):\n    out[i] = sin_f32(x[i])\nreturn 0"
    )
    text = lower_kernel(source, "k", noalias=True, vector_bits=512, lacking=(), widen=512).text
    pieces = re.split(r"\n[\w.]+\.(\w+):\n", text)
    blocks = list(zip(pieces[1::2], pieces[2::2], strict=True))
    named = dict(blocks)
    assert named["rest"].count("<16 x i64>") > 0, "bits of 2/pi"
    usual = [text for name, text in blocks if name == "usual"]
    for name, after, stored in zip(
        ("main", "tail"), usual, ("store <16 x float>", "@llvm.masked.store"), strict=True
    ):
        assert named[name].count("<16 x i64>") == 0
        assert "store" not in named[name], "stored before it was checked"
        assert stored in after


@pytest.mark.parametrize("dtype", [tj.float32, tj.float64])
def test_a_lane_does_not_depend_on_its_neighbours(dtype: tj.dtype) -> None:
    compiled = tj.compile(lambda x: x.sin() * x.cos() + x.tan())
    x = (tj.randn(5000) * 100).to(dtype)
    for _ in range(2):
        alone = compiled(x).numpy().copy()
    for place in (0, 17, 900, 4999):
        other = x.clone()
        other[place] = 1e25
        found = compiled(other).numpy()
        kept = np.arange(5000) != place
        np.testing.assert_array_equal(found[kept], alone[kept])
