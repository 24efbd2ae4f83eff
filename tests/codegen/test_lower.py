"""The kernel language: one text with one meaning in plain Python, under Numba and as machine code; strict types."""

from __future__ import annotations

import platform
import re

import numpy as np
import pytest

from kernel_tools import ADD, GATHER, SOFTMAX, compiled, kernel, rng, three_ways
from tracejit.codegen.lower.lower import LoweringError, lower

CONTROL = kernel(
    'x: "i32*", out: "i32*", flags: "u8*", n: "i64"',
    """
for i in range(lo, hi):
    v = x[i]
    steps = int32(0)
    while v > int32(1) and steps < int32(200):
        if (v & int32(1)) == int32(0):
            v = v >> int32(1)
        else:
            v = int32(v * int32(3)) + int32(1)
        steps += int32(1)
    if i > 0 and not (x[i - 1] == x[i]):
        flag = uint8(1)
    elif n > 3:
        flag = uint8(2)
    else:
        flag = uint8(0)
    out[i] = steps
    flags[i] = flag
return 0
""",
)
STEPS = kernel(
    'out: "i64*", n: "i64"',
    """
for i in range(lo, hi, 2):
    out[i] = i
for i in range(n - 1, -1, -3):
    out[i] += 100 * i % 7 + i // 2
pass
return 0
""",
)
SCALARS = kernel(
    'a: "f32", b: "f64", c: "i32", d: "u8", e: "i64", out: "f64*"',
    """
for i in range(lo, hi):
    out[i] = float64(a) + b * float64(c) - float64(d) + float64(e)
return 0
""",
)


def test_a_row_kernel_runs_the_same_in_all_ways() -> None:
    x = rng().standard_normal((5, 40)).astype("f4") * 3
    x[1, 3], x[2, 7] = np.inf, np.nan
    with np.errstate(all="ignore"):
        wide = np.exp(x.astype("f8") - x.max(1, keepdims=True))
        exact = wide / wide.sum(1, keepdims=True)
    for run in three_ways(SOFTMAX):
        out = np.full((5, 33), -1, "f4")
        assert run(x.ravel(), out.ravel(), 33, 40, 0, 5, 0) == 0
        with np.errstate(all="ignore"):
            part = np.exp(x[:, :33].astype("f8") - x[:, :33].max(1, keepdims=True))
            exact = part / part.sum(1, keepdims=True)
        np.testing.assert_allclose(out, exact, rtol=2e-6, atol=0)


def test_only_the_asked_range_is_written() -> None:
    x, y = rng().standard_normal((2, 50)).astype("f4")
    for run in three_ways(ADD):
        out = np.full(50, 9, "f4")
        assert run(x, y, out, 10, 40, 0) == 0
        assert np.array_equal(out[10:40], (x + y)[10:40])
        assert (out[:10] == 9).all()
        assert (out[40:] == 9).all()
        assert run(x, y, out, 5, 5, 0) == 0
        assert run(x, y, out, 5, 2, 0) == 0


def test_error_codes_end_the_kernel() -> None:
    x = rng().standard_normal(9)
    for run in three_ways(GATHER):
        out = np.zeros(4)
        assert run(x, np.array([0, -1, 8, -9]), out, 9, 0, 4, 0) == 0
        assert np.array_equal(out, x[[0, -1, 8, -9]])
        out[:] = 0
        assert run(x, np.array([1, 9, 2, 3]), out, 9, 0, 4, 0) == 7
        assert out.tolist() == [x[1], 0, 0, 0]
        assert run(x, np.array([1, 2, 3, -10]), out, 9, 0, 4, 0) == 7


def test_control_flow_runs_the_same_in_all_ways() -> None:
    x = np.array([7, 7, 1, 27, 0, 97, -5], "i4")

    def collatz(v: int) -> int:
        steps = 0
        while v > 1 and steps < 200:
            v, steps = (v // 2 if v % 2 == 0 else 3 * v + 1), steps + 1
        return steps

    for run in three_ways(CONTROL):
        out, flags = np.zeros(7, "i4"), np.full(7, 9, "u1")
        assert run(x, out, flags, 7, 0, 7, 0) == 0
        assert out.tolist() == [collatz(int(v)) for v in x]
        assert flags.tolist() == [2, 2, 1, 1, 1, 1, 1]


def test_range_steps_and_index_arithmetic() -> None:
    expected = np.zeros(11, "i8")
    expected[1:10:2] = range(1, 10, 2)
    for i in range(10, -1, -3):
        expected[i] += 100 * i % 7 + i // 2
    for run in three_ways(STEPS):
        out = np.zeros(11, "i8")
        assert run(out, 11, 1, 10, 0) == 0
        assert np.array_equal(out, expected)


def test_scalar_arguments_travel_as_bit_patterns() -> None:
    values = (np.float32(1.5), np.float64(-2.25), np.int32(-3), np.uint8(200), -(2**40))
    for run in three_ways(SCALARS):
        out = np.zeros(2)
        assert run(*values, out, 0, 2, 0) == 0
        assert out.tolist() == [1.5 + 6.75 - 200 - 2**40] * 2


INTS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
CASTS = {t: f"{'int' if t[0] == 'i' else 'uint'}{t[1:]}" for t in INTS}
CASTS |= {"f32": "float32", "f64": "float64"}
NUMPY = {t: np.dtype(f"{t[0]}{int(t[1:]) // 8}") for t in CASTS}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("source", CASTS)
@pytest.mark.parametrize("target", CASTS)
def test_casts_are_those_of_numpy(source: str, target: str) -> None:
    x = rng(1).integers(0, 256, 4096, dtype="u1").view(NUMPY[source])
    if source[0] == "f":
        edges = [0.5, -0.5, -1.9, 127.9, -128.9, 255.5, 3e4, -3e4, 2.0**31, -(2.0**31), 2.0**53]
        x = np.concatenate([x, np.array([*edges, *(-e for e in edges)], x.dtype)])
    if source[0] == "f" and target[0] != "f":
        # Outside the target's range NumPy promises nothing either.
        info = np.iinfo(NUMPY[target])
        with np.errstate(all="ignore"):
            x = x[(np.trunc(x) >= float(info.min)) & (np.trunc(x) < float(info.max))]
        assert x.size > 5
    text = kernel(
        f'x: "{source}*", out: "{target}*"',
        f"for i in range(lo, hi):\n    out[i] = {CASTS[target]}(x[i])\nreturn 0",
    )
    out = np.zeros(x.size, NUMPY[target])
    assert compiled(text)(x, out, 0, x.size, 0) == 0
    with np.errstate(all="ignore"):
        assert np.array_equal(out, x.astype(out.dtype), equal_nan=target[0] == "f")


@pytest.mark.parametrize("target", ["i8", "i16", "i32", "i64", "u8", "u16"])
def test_unrepresentable_floats_convert_to_the_low_bits_of_the_smallest_integer(
    target: str,
) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30] * 8, "f8")
    text = kernel(
        f'x: "f64*", out: "{target}*"',
        f"for i in range(lo, hi):\n    out[i] = {CASTS[target]}(x[i])\nreturn 0",
    )
    out = np.ones(x.size, NUMPY[target])
    compiled(text)(x, out, 0, x.size, 0)
    smallest = np.iinfo(target.replace("i", "int")).min if target in ("i32", "i64") else 0
    if platform.machine() in ("x86_64", "AMD64"):
        assert set(out.tolist()) == {smallest}


def test_bool_casts_and_logic() -> None:
    text = kernel(
        'x: "f32*", out: "u8*"',
        """
for i in range(lo, hi):
    a = bool_(x[i])
    b = x[i] > float32(0.0)
    both = (a & b) | (~a ^ b)
    out[i] = uint8(select(both, not b, True))
return 0
""",
    )
    x = np.array([0.0, -0.0, 1.0, -1.0, np.nan, 1e-45], "f4")
    outs = []
    for run in three_ways(text):
        out = np.full(6, 9, "u1")
        assert run(x, out, 0, 6, 0) == 0
        outs.append(out.tolist())
    a, b = x != 0, x > 0
    expected = np.where((a & b) | (~a ^ b), ~b, True).astype("u1").tolist()
    assert outs == [expected] * 4


def test_names_assigned_on_both_branches_stay_in_scope() -> None:
    text = kernel(
        'x: "f32*", out: "f32*"',
        """
for i in range(lo, hi):
    if x[i] < float32(0.0):
        v = -x[i]
    else:
        v = x[i] + float32(1.0)
    out[i] = v
return 0
""",
    )
    x = np.array([-2.0, 3.0, np.nan], "f4")
    for run in three_ways(text):
        out = np.zeros(3, "f4")
        run(x, out, 0, 3, 0)
        assert np.array_equal(out, np.array([2.0, 4.0, np.nan], "f4"), equal_nan=True)


BAD = {
    "mixed types": ("out[0] = x[0] + float64(1.0)", "different types: f32 and f64"),
    "untyped literal": ("out[0] = x[0] + 0.5", "float literal needs a type"),
    "unknown function": ("out[0] = frobnicate(x[0])", "not a function of tracejit.scalar_math"),
    "unknown name": ("out[0] = y", "'y' has no value here"),
    "wrong operand": ("out[0] = exp_f64(x[0])", r"exp_f64 takes \(f64\)"),
    "changed type": ("v = x[0]\nv = 1\nout[0] = x[0]", "'v' is f32 and cannot become i64"),
    "stored type": ("out[0] = float64(1.0)", "f64 is stored through f32"),
    "index type": ("out[int32(0)] = x[0]", "index must be i64"),
    "condition": ("if lo:\n    out[0] = x[0]", "condition must be b1"),
    "tuple": ("a, b = x[0], x[1]", "assignment to a name"),
    "attribute": ("out[0] = x.size", "Attribute is not part"),
    "chained": ("out[0] = select(0 < lo < hi, x[0], x[1])", "chained comparisons"),
    "float floor division": ("out[0] = x[0] // x[1]", "not defined on f32"),
    "int division": ("out[0] = float32(lo / hi)", "not defined on i64"),
    "scope": ("if lo > 0:\n    v = x[0]\nout[0] = v", "'v' has no value here"),
    "pointer value": ("out[0] = x", "a pointer can only be indexed"),
    "big literal": ("out[0] = float32(int8(300))", "300 does not fit in i8"),
    "import": ("import os", "Import is not part"),
    "range type": ("for i in range(int32(3)):\n    out[i] = x[i]", "range takes"),
    "zero step": ("for i in range(lo, hi, 0):\n    out[i] = x[i]", "step of a range"),
    "bare inf": ("out[0] = inf", r"float32\(inf\)"),
    "not on ints": ("out[0] = float32(not lo)", "not defined on i64"),
}


@pytest.mark.parametrize("case", BAD)
def test_text_outside_the_language_is_refused_with_its_line(case: str) -> None:
    body, message = BAD[case]
    source = kernel('x: "f32*", out: "f32*"', f"{body}\nreturn 0")
    with pytest.raises(LoweringError, match=message) as caught:
        lower(source, "k")
    assert re.search(r"kernel source line [2-9]", str(caught.value))


def test_bad_signatures_are_refused() -> None:
    with pytest.raises(LoweringError, match="every path must end in a return"):
        lower(kernel('x: "f32*"', "x[0] = float32(1.0)"), "k")
    with pytest.raises(LoweringError, match=r"unknown type 'f16\*'"):
        lower(kernel('x: "f16*"', "return 0"), "k")
    with pytest.raises(LoweringError, match="a kernel ends with parameters"):
        lower('def k(n: "i64") -> "i32":\n    return 0\n', "k")
    with pytest.raises(LoweringError, match="defines no function 'other'"):
        lower(ADD, "other")
    with pytest.raises(LoweringError, match="kernel source line 2: invalid syntax"):
        lower("\nx = = 1", "k")
