"""The fused multiply-add and the scaling by powers of two: rounded once, however a kernel is run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from kernel_tools import Loaded, compiled, kernel
from scalar_tools import DTYPES, FLOATS, any_bits, rng_for, same_bits, special_values
from tracejit.codegen import llvm as codegen
from tracejit.codegen.lower.lower import lower
from tracejit.codegen.lower.primitives import SUBSTITUTES
from tracejit.scalar_math.library import evaluate

Triple = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]


def triples(type_name: str, count: int) -> Iterator[Triple]:
    """Any bits, ordinary sizes, cancelling sums, results near the smallest number, near ties, and special values."""
    dtype, rng = DTYPES[type_name], rng_for(type_name)
    single = type_name == "f32"
    a, b, c = (any_bits(rng, dtype, count) for _ in range(3))
    x, y, z = (rng.standard_normal(count).astype(dtype) for _ in range(3))
    yield a, b, c
    yield x, y, z
    with np.errstate(all="ignore"):
        yield x, y, -(x * y)
        yield a, b, -(a * b)
    low, tiny = (-70, -140) if single else (-535, -1060)
    small = np.ldexp(x, low + rng.integers(-5, 5, count)).astype(dtype)
    yield small, y * small[::-1], np.ldexp(z, tiny + rng.integers(-8, 8, count)).astype(dtype)
    half = 13 if single else 27
    m, n = (rng.integers(1, 1 << half, count).astype(dtype) for _ in range(2))
    yield m * m, n, np.ldexp(np.sign(z), rng.integers(-30, 30, count)).astype(dtype)
    special = special_values(dtype)
    grid = np.meshgrid(special, special, special)
    yield grid[0].ravel(), grid[1].ravel(), grid[2].ravel()


def exactly_rounded(a: float, b: float, c: float) -> float:
    """a * b + c as the nearest double, for finite operands and a sum that is not zero."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def test_the_numpy_meaning_in_double_precision_is_the_exact_result_rounded_once() -> None:
    for a, b, c in triples("f64", 200):
        result = evaluate("fma_f64", a, b, c)
        with np.errstate(all="ignore"):
            keep = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (result != 0)
        for p, q, r, s in zip(a[keep], b[keep], c[keep], result[keep], strict=True):
            assert exactly_rounded(float(p), float(q), float(r)) == s, (p, q, r)


def fma_kernel(type_name: str) -> str:
    return kernel(
        ", ".join(f'{name}: "{type_name}*"' for name in ("a", "b", "c", "out")),
        f"for i in range(lo, hi):\n    out[i] = fma_{type_name}(a[i], b[i], c[i])\nreturn 0",
    )


def ldexp_kernel(type_name: str) -> str:
    return kernel(
        f'x: "{type_name}*", n: "i32*", out: "{type_name}*"',
        f"for i in range(lo, hi):\n    out[i] = ldexp_{type_name}(x[i], n[i])\nreturn 0",
    )


def with_substitutes(source: str) -> Loaded:
    """The kernel as a host without the instructions gets it."""
    text = lower(source, "k", lacking=SUBSTITUTES)
    assert "@llvm.fma.f32" not in text
    assert "@llvm.ldexp" not in text
    return Loaded(codegen.object_code(text), "k")


@pytest.mark.parametrize("type_name", FLOATS)
def test_every_way_to_run_a_fused_multiply_add_gives_the_same_bits(type_name: str) -> None:
    source = fma_kernel(type_name)
    ways = [compiled(source), with_substitutes(source), codegen.compile_with_numba(source, "k")]
    for a, b, c in triples(type_name, 600):
        expected = evaluate(f"fma_{type_name}", a, b, c)
        for way in ways:
            out = np.zeros_like(a)
            way(a, b, c, out, 0, a.size, 0)
            assert same_bits(out, expected)


@pytest.mark.parametrize("type_name", FLOATS)
def test_every_way_to_scale_by_a_power_of_two_rounds_once(type_name: str) -> None:
    dtype, rng = DTYPES[type_name], rng_for("ldexp")
    bound = 252 if type_name == "f32" else 2044
    x = np.concatenate([rng.uniform(-2, 2, 3000).astype(dtype), special_values(dtype)])
    n = rng.integers(-bound, bound + 1, x.size).astype(np.int32)
    # Results around the subnormal numbers, where rounding twice would show.
    n[:1500] = np.finfo(dtype).minexp - rng.integers(0, np.finfo(dtype).nmant + 3, 1500)
    with np.errstate(all="ignore"):
        expected = np.ldexp(x, n)
    assert same_bits(evaluate(f"ldexp_{type_name}", x, n), expected)
    source = ldexp_kernel(type_name)
    for way in (compiled(source), with_substitutes(source)):
        out = np.zeros_like(x)
        way(x, n, out, 0, x.size, 0)
        assert same_bits(out, expected)


def test_scalars_and_broadcasting_give_scalars_and_arrays() -> None:
    for name, dtype in (("fma_f32", np.float32), ("fma_f64", np.float64)):
        one = evaluate(name, dtype(2), dtype(3), dtype(4))
        assert (float(one), one.dtype, np.ndim(one)) == (10.0, np.dtype(dtype), 0)
        many = evaluate(name, np.arange(3, dtype=dtype), dtype(3), dtype(4))
        assert many.tolist() == [4.0, 7.0, 10.0]
        assert evaluate(name, np.zeros((0, 2), dtype), dtype(1), dtype(1)).shape == (0, 2)
