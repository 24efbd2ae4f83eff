"""Columns folded side by side in registers: exact at every number of columns and rows, in every form of the kernel."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from kernel_tools import COUNTS, compiled, is_widened, kernel, three_ways
from tracejit.codegen.identity import features
from tracejit.codegen.lower.lower import LoweringError, lower_kernel

TYPES = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64"}


def sums(short: str, expected: int, results: int = 1) -> str:
    """A kernel of column sums, and of sums of multiples, with a pitch between rows and every few of them left out."""
    zero = f"{TYPES[short]}(0)"
    starts = "".join(f"    a{n} = {zero}\n" for n in range(results))
    folds = "".join(f"        a{n} += v * s[{n}]\n" for n in range(results))
    ends = "".join(f"    out[{n} * pitch + i] = a{n}\n" for n in range(results))
    return kernel(
        f'x: "{short}*", s: "{short}*", out: "{short}*", pitch: "i64", n: "i64", step: "i64"',
        f"for i in columns(1, n, {expected}):\n{starts}"
        f"    for row in range(lo, hi, step):\n        v = x[row * pitch + i]\n{folds}{ends}return 0",
    )


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("results", [1, 2, 5])
@pytest.mark.parametrize("short", TYPES)
def test_columns_are_vector_code(short: str, results: int, bits: int) -> None:
    source = sums(short, 96, results)
    assert is_widened(source, bits)
    text = lower_kernel(source, "k", noalias=True, vector_bits=bits, lacking=(), widen=bits).text
    lanes = bits // (32 if short.endswith("32") else 64)
    parts = (
        text.count(f"phi <{lanes} x ") // 4
    )  # of rows and ends, of whole panels and what is left
    assert parts % results == 0
    assert parts <= (16 if bits == 512 else 8) or parts == results  # registers


@pytest.mark.sampled(4)
@pytest.mark.parametrize("expected", [1, 32, 128, 1000])
@pytest.mark.parametrize("short", TYPES)
def test_sums_are_exact_at_every_number_of_columns(short: str, expected: int) -> None:
    source = sums(short, expected, 2)
    ways = three_ways(source) if (short, expected) == ("f32", 32) else [compiled(source)]
    element = np.dtype(TYPES[short])
    for n in COUNTS:
        for rows, step in ((0, 1), (1, 1), (2, 3), (9, 1), (11, 2)):
            pitch = n + 3
            x = np.arange(max(rows, 1) * pitch).reshape(-1, pitch) % 11 - 4
            expected_sum = x[:rows:step, 1:n].sum(0)
            for run in ways:
                out = np.full(2 * pitch, 77, element)
                given = x.ravel().astype(element), np.array([1, 3], element), out
                assert run(*given, pitch, n, step, 0, rows, 0) == 0
                for times, part in ((1, out[:pitch]), (3, out[pitch:])):
                    assert (part[1 : max(n, 1)] == expected_sum * times).all()
                    assert (part[max(n, 1) :] == 77).all(), "columns behind the last are written to"
                    assert part[0] == 77


@pytest.mark.parametrize("short", ["f32", "f64"])
def test_extremes_keep_not_a_number(short: str) -> None:
    inf = f"{TYPES[short]}(inf)"
    source = kernel(
        f'x: "{short}*", low: "{short}*", high: "{short}*", n: "i64"',
        f"""
for i in columns(0, n, 64):
    a = {inf}
    b = -{inf}
    for row in range(lo, hi):
        v = x[row * n + i]
        a = minimum_{short}(a, v)
        b = maximum_{short}(b, v)
    low[i] = a
    high[i] = b
return 0
""",
    )
    assert is_widened(source)
    ways = three_ways(source)
    for n in (1, 16, 64, 100):
        x = np.random.default_rng(n).standard_normal((7, n)).astype(TYPES[short])
        x[3, n // 2], x[5, 0] = np.nan, np.inf
        for run in ways:
            low, high = np.zeros((2, n), x.dtype)
            assert run(x.ravel(), low, high, n, 0, 7, 0) == 0
            np.testing.assert_array_equal(low, x.min(0))
            np.testing.assert_array_equal(high, x.max(0))


def test_what_is_computed_on_the_way_may_be_written() -> None:
    source = kernel(
        'x: "f32*", by: "f32*", y: "f32*", out: "f32*", n: "i64"',
        """
for i in columns(0, n, 32):
    a = float32(0)
    for row in range(lo, hi):
        v = x[row * n + i] * by[row] + float32(row)
        y[row * n + i] = v
        a += v
    out[i] = a
return 0
""",
    )
    ways = three_ways(source)
    for n in (3, 32, 50):
        x = np.arange(4 * n, dtype=np.float32)
        by = np.array([1, 2, -1, 0], np.float32)
        expected = x.reshape(4, n) * by[:, None] + np.arange(4, dtype=np.float32)[:, None]
        for run in ways:
            y, out = np.zeros(4 * n, np.float32), np.zeros(n, np.float32)
            assert run(x, by, y, out, n, 0, 4, 0) == 0
            np.testing.assert_array_equal(y.reshape(4, n), expected)
            np.testing.assert_array_equal(out, expected.sum(0))


OTHERS = {
    "apart": (
        "    for row in range(lo, hi):\n        a += x[row + i * n]\n    out[i] = a",
        lambda x, n: x.reshape(n, n).sum(1),
    ),
    "used": (
        "    for row in range(lo, hi):\n        a += x[row * n + i]\n    out[i] = a + float32(1)",
        lambda x, n: x.reshape(n, n).sum(0) + 1,
    ),
    "not folded": (
        "    for row in range(lo, hi):\n        a = a * float32(0.5) + x[row * n + i]\n    out[i] = a",
        lambda x, n: (x.reshape(n, n) * 0.5 ** np.arange(n)[::-1, None]).sum(0),
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_loops_over_columns_are_left_to_llvm(name: str) -> None:
    body, expected = OTHERS[name]
    source = kernel(
        'x: "f32*", out: "f32*", n: "i64"',
        f"for i in columns(0, n, 32):\n    a = float32(0)\n{body}\nreturn 0",
    )
    assert not is_widened(source)
    x = np.arange(25, dtype=np.float32)
    for run in three_ways(source):
        out = np.zeros(5, np.float32)
        assert run(x, out, 5, 0, 5, 0) == 0
        np.testing.assert_allclose(out, expected(x, 5), 1e-6)


@pytest.mark.parametrize(
    "call", ["columns(n)", "columns(0, n)", "columns(0, 1, n)", "columns(0, n, 1, 1)", "row(0, n)"]
)
def test_a_loop_over_columns_names_how_many_there_will_be(call: str) -> None:
    source = kernel('out: "f32*", n: "i64"', f"for i in {call}:\n    out[i] = float32(0)\nreturn 0")
    with pytest.raises(LoweringError, match="range"):
        lower_kernel(source, "k", noalias=True, vector_bits=512, lacking=(), widen=512)


def test_few_columns_are_folded_in_registers_and_more_by_the_same_kernel() -> None:
    from tracejit.runtime.machine_code.kernels import COUNTS as KERNELS

    function = tj.compile(lambda x: (x.sum(1), x.amax(1)))
    before = None
    for rows, columns in ((300, 128), (7, 9), (64, 128), (50, 500), (1, 100), (3, 1), (100, 1030)):
        x = np.random.default_rng(columns).integers(-9, 9, (3, rows, columns)).astype(np.float32)
        for _ in range(2):
            total, top = function(tj.from_numpy(x))
            np.testing.assert_array_equal(total.numpy(), x.sum(1))
            np.testing.assert_array_equal(top.numpy(), x.max(1))
        if columns == 9:
            before = KERNELS.compiled
    in_registers = "in columns(start, wide, 128):" in function.source()
    assert in_registers is ("avx512bw" in features())
    assert KERNELS.compiled == before
