"""Loops that the lowering makes vector code of: the same results for all counts and overlaps, or left to LLVM."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from kernel_tools import COUNTS, SOFTMAX, Loaded, is_widened, kernel
from tracejit.codegen import llvm
from tracejit.codegen.lower.instructions import NotWidened, read, with_calls_inline
from tracejit.codegen.lower.lower import lower_kernel
from tracejit.nn import functional as F
from tracejit.scalar_math import library as scalar_math


def numbers(dtype: str, count: int) -> np.ndarray:
    random = np.random.default_rng(count)
    if dtype.startswith(("i", "u")):
        return random.integers(0, 100, count).astype(dtype)
    values = random.standard_normal(count).astype(dtype)
    values[::7] = [(-0.0, np.inf, np.nan, -np.inf)[i % 4] for i in range(len(values[::7]))]
    return values


def same(mine: np.ndarray, theirs: np.ndarray) -> None:
    """Bit for bit, where the sign of NaN has no meaning."""
    if mine.dtype.kind == "f":
        assert np.array_equal(np.isnan(mine), np.isnan(theirs))
        mine, theirs = (np.where(np.isnan(a), 0, a) for a in (mine, theirs))
    assert mine.tobytes() == theirs.tobytes()


ELEMENTS = {
    "f4 f4": ("f32", "f32", "exp_f32(v) * v + float32(1.5)"),
    "f4 f8": ("f32", "f64", "float64(v) * float64(3)"),
    "f8 f4": ("f64", "f32", "float32(v) - float32(k)"),
    "f4 u1": ("f32", "u8", "uint8(v > float32(0.25))"),
    "f4 i4": ("f32", "i32", "int32(select(v > float32(-9), float32(7), v))"),
    "u1 u1": ("u8", "u8", "(v ^ uint8(3)) + uint8(1)"),
    "i8 i8": ("i64", "i64", "maximum_i64(v * int64(3), int64(50)) - k"),
    "u2 f4": ("u16", "f32", "float32(v) / float32(7)"),
    "i4 i8": ("i32", "i64", "int64(v) + i"),
    "f4 i8": ("f32", "i64", "i * 3 - int64(v == v)"),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", ELEMENTS)
def test_elements(built: Any, name: str) -> None:
    source, target, expression = ELEMENTS[name]
    kinds = name.split()
    text = kernel(
        f'x: "{source}*", out: "{target}*", k: "i64"',
        f"for i in range(lo, hi):\n    v = x[i + 2]\n    out[i + k] = {expression}\nreturn 0",
    )
    fast, slow = built(text), llvm.as_python(text, "k")
    for count in COUNTS:
        for start in (0, 5):
            x = numbers(kinds[0], count + start + 2)
            outs = [np.full(count + start + 5, 77, kinds[1]) for _ in range(2)]
            for run, out in zip((fast, slow), outs, strict=True):
                assert run(x, out, 3, start, start + count, 0) == 0
            same(*outs)


APART = {
    "read": ("f32", "f4", "out[i] = exp_f32(x[i * k + 1])"),
    "written": ("f64", "f8", "out[i * k] = exp_f64(x[i])"),
    "both": ("f32", "f4", "out[k * (i + 2)] = x[i * k] + x[i * k + i] + float32(i * k)"),
    "in place": ("f32", "f4", "out[i * k] = out[i * k] * x[i]"),
    "whole": ("i64", "i8", "out[i * k] = x[i + k * 2] + (i * k - 5)"),
    "bytes": ("u8", "u1", "out[i * k] = x[i * k] + uint8(3)"),
    "words": ("u16", "u2", "out[i] = x[i * k] ^ uint16(5)"),
    "several": ("f32", "f4", "out[i * k] = x[i]\n    more[i * k + 1] = x[i * 2] + x[i]"),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", APART)
def test_elements_apart(built: Any, name: str) -> None:
    scalar, dtype, body = APART[name]
    text = kernel(
        f'x: "{scalar}*", out: "{scalar}*", more: "{scalar}*", k: "i64"',
        f"for i in range(lo, hi):\n    {body}\nreturn 0",
    )
    fast, slow = built(text), llvm.as_python(text, "k")
    for count in COUNTS:
        for start, step in ((0, 3), (5, 7), (0, 1)):
            size = (count + start + 3) * (step + 1) + 2
            x = numbers(dtype, size)
            outs = [np.full(size, 77, dtype) for _ in range(2)]
            for run, out in zip((fast, slow), outs, strict=True):
                more = np.full(size, 77, dtype)
                assert run(x, out, more, step, start, start + count, 0) == 0
                out[out == 77] = more[out == 77]
            same(*outs)


def test_sums_of_elements_apart(built: Any) -> None:
    text = kernel(
        'x: "f64*", out: "f64*", k: "i64"',
        "a = float64(0)\nfor i in range(lo, hi):\n    a += x[i * k] * x[i]\nout[0] = a\nreturn 0",
    )
    run = built(text)
    for count in COUNTS:
        x, out = np.random.default_rng(count).uniform(0.75, 1.25, 3 * count), np.zeros(1)
        assert run(x, out, 3, 0, count, 0) == 0
        np.testing.assert_allclose(out[0], (x[::3] * x[:count]).sum(), rtol=1e-13)


FOLDS = {
    "sum": ("f32", "f4", "0", "{a} += v"),
    "sum of doubles": ("f64", "f8", "0", "{a} += v * v"),
    "product": ("f32", "f4", "1", "{a} *= v"),
    "whole sum": ("i64", "i8", "0", "{a} += v"),
    "bits": ("i32", "i4", "0", "{a} = {a} | v"),
    "maximum": ("f32", "f4", "-inf", "{a} = maximum_f32({a}, v)"),
    "minimum": ("f64", "f8", "inf", "{a} = minimum_f64({a}, v)"),
    "whole maximum": ("i64", "i8", "-5", "{a} = maximum_i64({a}, v)"),
    "twice": ("i64", "i8", "0", "{a} += v\n    {a} += v * 2"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("name", FOLDS)
def test_folds(built: Any, name: str, special: bool) -> None:
    scalar, dtype, first, fold = FOLDS[name]
    cast = {"f32": "float32", "f64": "float64", "i64": "int64", "i32": "int32"}[scalar]
    text = kernel(
        f'x: "{scalar}*", out: "{scalar}*"',
        f"a = {cast}({first})\nb = {cast}({first})\nfor i in range(lo, hi):\n    v = x[i]\n"
        f"    {fold.format(a='a')}\n    {fold.format(a='b')}\nout[0] = a\nout[1] = b\nreturn 0",
    )
    fast, slow = built(text), llvm.as_python(text, "k")
    for count in COUNTS:
        x = numbers(dtype, count)
        if not special and x.dtype.kind == "f":
            x = np.random.default_rng(count).uniform(0.75, 1.25, count).astype(dtype)
        outs = [np.zeros(2, dtype) for _ in range(2)]
        for run, out in zip((fast, slow), outs, strict=True):
            assert run(x, out, 0, count, 0) == 0
        if x.dtype.kind == "f":
            np.testing.assert_allclose(*outs, rtol=1e-5 if dtype == "f4" else 1e-13)
        else:
            same(*outs)
        assert outs[0][0].tobytes() == outs[0][1].tobytes()


@pytest.mark.parametrize("scalar", ["f32", "f64"])
def test_short_sums_are_added_in_turn(built: Any, scalar: str) -> None:
    """A branch on a sum of few elements goes where eager execution goes."""
    text = kernel(
        f'x: "{scalar}*", out: "{scalar}*"',
        f"a = float{scalar[1:]}(0)\nfor i in range(lo, hi):\n    a += x[i]\nout[0] = a\nreturn 0",
    )
    fast = built(text)
    for count in range(1, 8):
        for seed in range(20):
            x = (
                np.random.default_rng(seed)
                .standard_normal(count)
                .astype(f"f{int(scalar[1:]) // 8}")
            )
            out = np.zeros_like(x)
            assert fast(x, out, 0, count, 0) == 0
            assert out[0] == x.sum()


def test_columns_are_added_to(built: Any) -> None:
    text = kernel(
        'x: "f32*", sums: "f32*", n: "i64"',
        "for row in range(lo, hi):\n    for i in range(n):\n        v = sums[i + 1]\n"
        "        v = v + x[row * n + i]\n        sums[i + 1] = v\nreturn 0",
    )
    fast, slow = built(text), llvm.as_python(text, "k")
    for n in COUNTS:
        x, outs = numbers("f4", 5 * n), [np.ones(n + 3, "f4") for _ in range(2)]
        for run, out in zip((fast, slow), outs, strict=True):
            assert run(x, out, n, 0, 5, 0) == 0
        same(*outs)


@pytest.mark.parametrize("body", ["x[i] = x[i + d] + 1", "x[i + d] = x[i] * 2"])
def test_what_is_written_may_be_read_elsewhere(built: Any, body: str) -> None:
    """Elements of one array at some distance, known only at run time: as if one round came after the other."""
    text = kernel('x: "i64*", d: "i64"', f"for i in range(lo, hi):\n    {body}\nreturn 0")
    fast, slow = built(text), llvm.as_python(text, "k")
    for count in (0, 1, 5, 17, 40, 100):
        for distance in (-100, -40, -17, -8, -3, -1, 0, 1, 2, 9, 16, 33, 99, 100):
            outs = [np.arange(330) % 23 for _ in range(2)]
            for run, out in zip((fast, slow), outs, strict=True):
                assert run(out, distance, 110, 110 + count, 0) == 0
            same(*outs)


def test_what_is_the_same_in_all_rounds_is_read_only_if_there_are_rounds(built: Any) -> None:
    text = kernel(
        'x: "f32*", y: "f32*", out: "f32*", far: "i64", q: "i64"',
        "for i in range(lo, hi):\n    out[i] = x[i] * y[far] + float32(far // q)\nreturn 0",
    )
    fast = built(text)
    x, out = numbers("f4", 20), np.zeros(20, "f4")
    assert fast(x, x, out, 1 << 50, 0, 4, 4, 0) == 0
    assert fast(x, x, out, 3, 2, 0, 20, 0) == 0
    same(out, x * x[3] + np.float32(1))


ELEMENTARY = [
    f"{name}_{scalar}"
    for name in ("sin", "exp", "log", "tan", "erf", "pow", "atan2", "lgamma", "fmod")
    for scalar in ("f32", "f64")
    if scalar_math.source_of(f"{name}_{scalar}")
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ELEMENTARY)
def test_functions_of_what_is_the_same_in_all_rounds(built: Any, name: str) -> None:
    """Their tables and declarations are there, though no function is called any more."""
    source, scalar = scalar_math.source_of(name) or "", name.split("_")[-1]
    parameters = source.split(")")[0].count(":")
    call = f"{name}({', '.join(['c'] * parameters)})"
    text = kernel(
        f'c: "{scalar}", out: "{scalar}*"',
        f"for i in range(lo, hi):\n    out[i] = {call}\nreturn 0",
    )
    fast, slow = built(text), llvm.as_python(text, "k")
    dtype = f"f{int(scalar[1:]) // 8}"
    outs = [np.zeros(21, dtype) for _ in range(2)]
    for run, out in zip((fast, slow), outs, strict=True):
        assert run(np.dtype(dtype).type(1.75), out, 0, 21, 0) == 0
    same(*outs)


LEFT_ALONE = {
    "elements here and there": "out[i] = x[i * i]",
    "two ways through one array": "out[i * n] = x[i] + out[i]",
    "turned round": "out[n - i] = x[i]",
    "one element": "out[0] = x[i]",
    "read and written": "out[i] = x[i] + out[0]",
    "a choice": "if x[i] > 0:\n        out[i] = x[i]",
    "a division": "out[i] = x[i] // n",
    "the round before": "last = x[i] - last\n    out[i] = last",
    "the last round": "last = x[i]\n    out[i] = last",
    "a sum on its way": "last += x[i]\n    out[i] = last",
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_other_loops_are_left_to_llvm(name: str) -> None:
    text = kernel(
        'x: "i64*", out: "i64*", n: "i64"',
        f"last = int64(1)\nfor i in range(lo, hi):\n    {LEFT_ALONE[name]}\nout[n] = last\nreturn 0",
    )
    assert not is_widened(text)
    x = np.arange(1, 400)
    outs = [np.zeros(200, "i8") for _ in range(2)]
    for run, out in zip(
        (Loaded(llvm.compile_source(text, "k"), "k"), llvm.as_python(text, "k")), outs, strict=True
    ):
        assert run(x, out, 9, 0, 9, 0) == 0
    same(*outs)


def test_no_masks_of_bytes_below_512_bits() -> None:
    text = kernel('x: "u8*", out: "u8*"', "for i in range(lo, hi):\n    out[i] = x[i]\nreturn 0")
    narrow, wide = (
        lower_kernel(text, "k", noalias=True, vector_bits=bits, lacking=(), widen=bits)
        for bits in (256, 512)
    )
    assert narrow.widened
    assert "masked" not in narrow.text
    assert "masked" in wide.text
    summed = kernel(
        'x: "u8*", out: "i64*"',
        "a = int64(0)\nfor i in range(lo, hi):\n    a += int64(x[i])\nout[0] = a\nreturn 0",
    )
    assert is_widened(summed, 512)
    assert not is_widened(summed, 256)  # LLVM adds up more of them at once


def test_pointers_that_may_overlap_are_left_to_llvm() -> None:
    lowered = lower_kernel(SOFTMAX, "k", noalias=False, vector_bits=512, lacking=(), widen=512)
    assert not lowered.widened


PROGRAMS = {
    "chain": lambda x: tj.tanh(x * 2 + 0.5) - x.relu(),
    "softmax": lambda x: x.softmax(-1),
    "layer norm": lambda x: F.layer_norm(x, (x.shape[-1],)),
    "columns": lambda x: (x * 2).sum(0) + x.amax(0),
    "total": lambda x: ((x * 2 - 1) ** 2).mean(),
    "bfloat16": lambda x: x.to(tj.bfloat16) * 3 + 1,
    "truth": lambda x: ((x > 0.25) & (x < 0.5)).any(-1),
    "integers": lambda x: (x * 10).to(tj.int32) * 3 - 1,
    "masked": lambda x: F.softmax(x.reshape(4, 10, 50).masked_fill(x[:10] > 0.5, -tj.inf), -1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_of_programs_are_vector_code(name: str) -> None:
    """So that kernels cannot go the long way through LLVM unnoticed."""
    f = tj.compile(PROGRAMS[name])
    x = tj.rand(40, 50)
    for _ in range(2):
        f(x)
    assert f.kernels
    for made in f.kernels:
        entry = made.source.split("(")[0].removeprefix("def ")
        lowered = lower_kernel(
            made.source, entry, noalias=True, vector_bits=512, lacking=(), widen=512
        )
        assert lowered.widened, made.source


def test_only_what_the_lowering_prints_is_read() -> None:
    for line in (
        "next.1:",
        "  br label %next.1",
        "  %t.1 = load <8 x float>, ptr %x, align 4",
        "  %t.1 = phi i1 [ true, %a ], [ %t.0, %b ]",
        "  %t.1 = alloca i32",
    ):
        with pytest.raises(NotWidened):
            read([line])
    (call,) = read(["  %t.2 = call float @tj.loops(float %t.1)"])
    with pytest.raises(NotWidened):
        with_calls_inline(
            [call],
            lambda _: "define internal float @tj.loops(float %x) a {\nentry:\n  br label %b\n}",
        )


@pytest.mark.parametrize("bits", [128, 256, 512])
def test_numbers_that_all_lanes_share_do_not_narrow_vectors(bits: int) -> None:
    """A start of rows that is computed in two steps is a 64-bit number in memory, read once in a round."""
    body = """
base = lo * k
base = base * k
for i in range(lo, hi):
    out[base + i] = maximum_f32(out[base + i], x[i])
return 0
"""
    source = kernel('x: "f32*", out: "f32*", k: "i64"', body)
    text = lower_kernel(source, "k", noalias=True, vector_bits=bits, widen=bits, lacking=()).text
    assert f"load <{bits // 32} x float>" in text
    assert f"load <{bits // 64} x float>" not in text


def test_code_generation_does_not_see_through_the_counter() -> None:
    """Every address of a loop hangs on what the empty statement returns, in full rounds and in the rest."""
    body = "for i in range(lo, hi):\n    out[i] = x[i] + y[i + 3]\nreturn 0"
    source = kernel('x: "f32*", y: "f32*", out: "f32*"', body)
    text = lower_kernel(source, "k", noalias=True, vector_bits=512, widen=512, lacking=()).text
    hidden = re.findall(r"(%\S+) = call i64 asm \"\", \"=r,0\"", text)
    assert len(hidden) == 2
    counted = re.findall(r"getelementptr float, ptr %\S+, i64 (%\S+)\n", text)
    assert set(hidden) <= set(counted)
    assert not [ref for ref in counted if ref.endswith(".i")]
