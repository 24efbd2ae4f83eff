"""Folds beside narrow numbers, for processors without masks of bytes: what is left of a row goes word by word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernel_tools import Loaded, kernel
from tracejit.codegen import llvm
from tracejit.codegen.lower.lower import LoweredKernel, lower_kernel

#: Types of a number that is read and of one that is written beside a fold, that of others, what is written, and whether
#: there is a sum, which takes eight lanes.
NEIGHBOURS = {
    "bytes": ("u8", "u8", "f32", "uint8(v > float32(0.5)) ^ m", True),
    "words": ("u16", "i16", "f32", "int16(m) + int16(3)", True),
    "bytes of doubles": ("u8", "u8", "f64", "m + uint8(1)", True),
    "words of doubles": ("i16", "u8", "f64", "uint8(m != int16(0))", True),
    "half a word": ("u8", "u8", "f64", "uint8(v > float64(0.5)) ^ m", False),
    "a word": ("i16", "i16", "f64", "m + int16(1)", False),
}
COUNTS = (*range(36), 63, 64, 65, 97, 100, 131)


def text_of(name: str) -> str:
    """Rows: sums of what a narrow number chooses, whether all chose, and narrow numbers written."""
    narrow, written, wide, value, sums = NEIGHBOURS[name]
    zero = f"{'float32' if wide == 'f32' else 'float64'}(0)"
    adds = f"total += select(m != {_cast(narrow)}(0), v, {zero})" if sums else ""
    return kernel(
        f'choice: "{narrow}*", x: "{wide}*", n: "i64", kept: "{written}*", out: "{wide}*", every: "u8*"',
        f"""for row in range(lo, hi):
    total = {zero}
    chosen = bool_(1)
    for i in range(n):
        m = choice[row * n + i]
        v = x[row * n + i]
        {adds}
        chosen = chosen & (m != {_cast(narrow)}(0))
        kept[row * n + i] = {value}
    out[row] = total
    every[row] = uint8(chosen)
return 0""",
    )


def _cast(kind: str) -> str:
    return {"u8": "uint8", "u16": "uint16", "i16": "int16"}[kind]


def lowered(text: str, bits: int) -> LoweredKernel:
    return lower_kernel(
        text, "k", noalias=True, vector_bits=bits, lacking=llvm._lacking(), widen=bits
    )


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_what_is_left_of_a_row_is_read_and_written_word_by_word(name: str) -> None:
    text = text_of(name)
    found = lowered(text, 256)
    assert found.widened
    assert "tj.first.read" in found.text
    assert "tj.first.write" in found.text
    assert "masked.load.v8i8" not in found.text
    fast, slow = Loaded(llvm.compile_text(found.text), "k"), llvm.as_python(text, "k")
    narrow, written, wide, *_ = NEIGHBOURS[name]
    rng = np.random.default_rng(1)
    for count in COUNTS:
        run_both(rng, (fast, slow), (narrow, written, wide), count)


def run_both(
    rng: np.random.Generator, ways: tuple[Any, Any], kinds: tuple[str, str, str], count: int
) -> None:
    """The same by both ways, and nothing else written."""
    types = {"u8": "u1", "u16": "u2", "i16": "i2", "f32": "f4", "f64": "f8"}
    narrow, written, wide = (np.dtype(types[kind]) for kind in kinds)
    choice = rng.integers(0, 3, 3 * count).astype(narrow)
    choice[count : 2 * count] = 1
    x = rng.integers(-8, 9, 3 * count).astype(wide)
    results = []
    for run in ways:
        kept = np.full(3 * count + 16, 77, written)
        out, every = np.zeros(3, wide), np.zeros(3, "u1")
        assert run(choice, x, count, kept[8:], out, every, 0, 3, 0) == 0
        results.append((kept, out, every))
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert (results[0][0][:8] == 77).all()
    assert (results[0][0][8 + 3 * count :] == 77).all()
    assert results[0][2][1] == 1


def test_there_are_masks_with_wider_vectors() -> None:
    found = lowered(text_of("bytes"), 512)
    assert found.widened
    assert "tj.first" not in found.text
