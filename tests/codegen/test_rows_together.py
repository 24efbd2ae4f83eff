"""Short rows whose lanes are folded together: exact at every number of rows and elements, and left alone elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from kernel_tools import COUNTS, compiled, is_widened, kernel, three_ways
from tracejit.codegen.lower.lower import LoweringError, lower_kernel

TYPES = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64"}
ROWS = (0, 1, 2, 7, 8, 9, 15, 16, 17, 40)


def sums(short: str, place: str = "row") -> str:
    """A kernel of sums of rows and of their squares, with a number of each row before and after."""
    return kernel(
        f'x: "{short}*", s: "{short}*", out: "{short}*", more: "{short}*", pitch: "i64", n: "i64", step: "i64"',
        f"""
for row in together(lo, hi):
    scale = s[row]
    a = {TYPES[short]}(0)
    b = {TYPES[short]}(0)
    for i in range(1, n):
        v = x[row * pitch + i]
        a += v
        b += v * v
    c = a * scale
    out[{place}] = c
    more[{place}] = b - c
return 0
""",
    )


def text_of(source: str, bits: int = 512) -> str:
    return lower_kernel(source, "k", noalias=True, vector_bits=bits, lacking=(), widen=bits).text


def is_together(source: str, bits: int = 512) -> bool:
    """Are lanes of several rows put into one register?"""
    return " = alloca [" in text_of(source, bits)


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("short", TYPES)
def test_rows_are_vector_code(short: str, bits: int) -> None:
    source = sums(short)
    assert is_widened(source, bits)
    assert is_together(source, bits)
    # Written for all rows at once: a store of one number would be for one row.
    kind = {"f32": "float", "f64": "double", "i32": "i32", "i64": "i64"}[short]
    one_by_one = [line for line in text_of(source, bits).splitlines() if f"store {kind} " in line]
    assert all(".slot" in line or "%rows." in line or "%w." in line for line in one_by_one)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("place", ["row", "row * step", "row * step + 1"])
@pytest.mark.parametrize("short", TYPES)
def test_sums_are_exact_at_every_number_of_rows(short: str, place: str) -> None:
    source = sums(short, place)
    ways = three_ways(source) if (short, place) == ("f32", "row") else [compiled(source)]
    element, step = np.dtype(TYPES[short]), 1 if place == "row" else 3
    for n in COUNTS:
        for rows in ROWS:
            pitch, first = n + 3, rows // 5
            x = np.arange(max(rows, 1) * pitch).reshape(-1, pitch) % 11 - 4
            a, b = x[first:rows, 1:n].sum(1), (x[first:rows, 1:n] ** 2).sum(1)
            scale = np.arange(max(rows, 1)) % 5
            a = a * scale[first:rows]
            for run in ways:
                out, more = np.full((2, rows * 3 + 4), 77, element)
                given = x.ravel().astype(element), scale.astype(element), out, more
                assert run(*given, pitch, n, step, first, rows, 0) == 0
                begin = first * step + place.endswith("1")
                end = begin + (rows - first) * step
                for found, expected in ((out, a), (more, b - a)):
                    assert (found[begin:end:step] == expected).all()
                    found[begin:end:step] = 77
                    assert (found == 77).all(), "something else is written to"


@pytest.mark.parametrize("short", ["f32", "f64"])
def test_extremes_keep_not_a_number(short: str) -> None:
    inf = f"{TYPES[short]}(inf)"
    source = kernel(
        f'x: "{short}*", low: "{short}*", high: "{short}*", n: "i64"',
        f"""
for row in together(lo, hi):
    a = {inf}
    b = -{inf}
    for i in range(n):
        v = x[row * n + i]
        a = minimum_{short}(a, v)
        b = maximum_{short}(b, v)
    low[row] = a
    high[row] = b
return 0
""",
    )
    assert is_together(source)
    rng = np.random.default_rng(3)
    for n in (1, 5, 16, 33, 100):
        x = rng.normal(size=(37, n)).astype(TYPES[short])
        x[rng.random(x.shape) < 0.05] = np.nan
        x[rng.random(x.shape) < 0.05] = np.inf
        x[rng.random(x.shape) < 0.05] = -0.0
        for run in three_ways(source):
            low, high = np.zeros((2, 37), x.dtype)
            assert run(x.ravel(), low, high, n, 0, 37, 0) == 0
            np.testing.assert_array_equal(low, x.min(1))
            np.testing.assert_array_equal(high, x.max(1))


@pytest.mark.parametrize("short", ["f32", "f64"])
@pytest.mark.parametrize("fold", ["+", "*"])
def test_a_few_terms_are_folded_in_turn(fold: str, short: str) -> None:
    source = kernel(
        f'x: "{short}*", out: "{short}*", n: "i64"',
        f"""
for row in together(lo, hi):
    a = {TYPES[short]}({"0" if fold == "+" else "1"})
    for i in range(n):
        a {fold}= x[row * n + i]
    out[row] = a
return 0
""",
    )
    assert is_together(source)
    rng, run = np.random.default_rng(5), compiled(source)
    for n in range(8):
        x = (rng.normal(size=(50, n)) * 10.0 ** rng.integers(-4, 5, (50, n))).astype(TYPES[short])
        expected = np.full(50, 0 if fold == "+" else 1, x.dtype)
        for i in range(n):
            expected = expected + x[:, i] if fold == "+" else expected * x[:, i]
        out = np.zeros(50, x.dtype)
        assert run(x.ravel(), out, n, 0, 50, 0) == 0
        assert out.tobytes() == expected.tobytes()


BEGIN = 'x: "f32*", out: "f32*", n: "i64"'
OTHER_FORMS = {
    "elements that the row tells": """
for row in together(lo, hi):
    a = float32(0)
    for i in range(row):
        a += x[row * n + i]
    out[row] = a
return 0
""",
    "what one row leaves to the next": """
most = float32(0)
for row in together(lo, hi):
    a = float32(0)
    for i in range(n):
        a += x[row * n + i]
    most = most + a
    out[row] = most
return 0
""",
    "what is known of a sum": """
for row in together(lo, hi):
    a = float32(0)
    for i in range(n):
        a += x[row * n + i]
    if a > float32(10):
        a = float32(10)
    out[row] = a
return 0
""",
    "a truth": """
for row in together(lo, hi):
    a = False
    for i in range(n):
        a = a | (x[row * n + i] > float32(3))
    out[row] = select(a, float32(1), float32(2))
return 0
""",
    "two loops": """
for row in together(lo, hi):
    a = float32(0)
    for i in range(n):
        a += x[row * n + i]
    b = float32(0)
    for i in range(n):
        b += x[row * n + i] * a
    out[row] = b
return 0
""",
    "every other row": """
for row in range(lo, hi, 2):
    a = float32(0)
    for i in range(n):
        a += x[row * n + i]
    out[row] = a
return 0
""",
}


@pytest.mark.parametrize("body", OTHER_FORMS.values(), ids=OTHER_FORMS.keys())
def test_other_forms_are_folded_row_by_row(body: str) -> None:
    source = kernel(BEGIN, body)
    assert not is_together(source)
    x = (np.arange(19 * 19) % 7 - 2).astype(np.float32)
    results = []
    for run in three_ways(source):
        out = np.zeros(19, np.float32)
        assert run(x, out, 19, 0, 19, 0) == 0
        results.append(out)
    assert all((found == results[0]).all() for found in results)
    assert results[0].any()


def test_one_form_among_others() -> None:
    """One loop that is not of the form leaves the others as they are."""
    body = """
for row in together(lo, hi):
    a = float32(0)
    for i in range(n):
        a += x[row * n + i]
    out[row] = a
for row in together(lo, hi):
    b = float32(-inf)
    for i in range(row):
        b = maximum_f32(b, x[row * n + i])
    out[row] = out[row] + maximum_f32(b, float32(0))
return 0
"""
    source = kernel(BEGIN, body)
    assert text_of(source).count("alloca [") == 1
    x = (np.arange(19 * 19) % 7 - 2).astype(np.float32)
    rows = x.reshape(19, 19)
    out = np.zeros(19, np.float32)
    assert compiled(source)(x, out, 19, 0, 19, 0) == 0
    largest = [max(0, rows[i, :i].max(initial=0)) for i in range(19)]
    assert (out == rows.sum(1) + largest).all()


def test_a_wrong_loop_is_refused() -> None:
    with pytest.raises(LoweringError, match="a loop is"):
        text_of(kernel(BEGIN, "for row in together(lo):\n    out[row] = float32(0)\nreturn 0"))


@pytest.mark.parametrize("length", [11, 16, 40, 128])
@pytest.mark.parametrize("rows", [1, 16, 37])
def test_programs_fold_short_rows_together(length: int, rows: int) -> None:
    rng = np.random.default_rng(length)
    x = tj.tensor(rng.normal(size=(rows, length)).astype(np.float32))

    def f(x: tj.Tensor) -> tuple[tj.Tensor, ...]:
        return x.mean(-1), x.std(-1), x.softmax(-1), x.amax(-1), x.argmin(-1), x.sum(-1)

    compiled_f = tj.compile(f)
    for _ in range(2):
        for found, expected in zip(compiled_f(x), f(x), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=2e-6, atol=1e-5)
    assert "in together(" in compiled_f.source()


def test_long_rows_are_folded_one_by_one() -> None:
    x = tj.randn(8, 1000)
    f = tj.compile(lambda x: x.softmax(-1))
    f(x), f(x)
    assert "together(" not in f.source()
