"""Elements some steps apart in vector code: as Python computes it, and nothing else is read or written."""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Any

import numpy as np
import pytest

from kernel_tools import COUNTS, kernel
from tracejit.codegen import llvm
from tracejit.codegen.lower.lower import lower_kernel

DTYPES = {"f32": "f4", "f64": "f8", "i32": "i4", "u8": "u1", "i64": "i8", "u16": "u2"}
#: The step, and what is done in a round.
BODIES = {
    "every other": (2, "out[i] = x[i * 2]"),
    "and the other": (2, "out[i] = x[i * 2 + 1]"),
    "both": (2, "out[i] = x[i * 2] + x[i * 2 + 1]"),
    "windows": (2, "out[i] = x[i * 2] + x[i * 2 + 1] + x[i * 2 + 2]"),
    "far windows": (2, "out[i] = x[i * 2] + x[i * 2 + 5]"),
    "of three": (3, "out[i] = x[i * 3 + 2] - x[i * 3]"),
    "of four": (4, "out[i] = x[i * 4 + 1] + x[i * 4 + 3]"),
    "of five": (5, "out[i] = x[i * 5 + 4] - x[i * 5 + 1]"),
    "of six": (6, "out[i] = x[6 * i + 5] - x[6 * i + 2]"),
    "of seven": (7, "out[i] = x[i * 7 + 3] - x[i * 7]"),
    "of eight": (8, "out[i] = x[i * 8 + 6] - x[i * 8 + 1]"),
    "written": (2, "out[i * 2 + 1] = x[i]"),
    "written in turn": (2, "out[i * 2] = x[i]\nout[i * 2 + 1] = x[i * 2]"),
    "written in threes": (3, "out[i * 3 + 2] = x[i * 3]\nout[i * 3] = x[i * 3 + 1]"),
    "all threes": (3, "out[i * 3 + 1] = x[i]\nout[i * 3 + 2] = x[i + 1]\nout[i * 3] = x[i + 2]"),
    "all fours": (
        4,
        "out[i * 4 + 3] = x[i * 4]\nout[i * 4 + 1] = x[i * 4 + 2]\n"
        "out[i * 4 + 2] = x[i * 4 + 1]\nout[i * 4] = x[i * 4 + 3]",
    ),
    "some of six": (6, "out[i * 6 + 4] = x[i]\nout[i * 6 + 1] = x[i * 6 + 3]"),
    "in place": (3, "x[i * 3 + 1] = x[i * 3 + 1] + x[i * 3 + 1]"),
    "of a row": (2, "out[i] = x[n * 2 + i * 2 - n * 2 + 1]"),
    # n is 5 in these calls, which the text does not say
    "beside rows of any length": (
        5,
        "out[i * 2 + 1] = x[i * n]\nout[i * 2] = x[i * n + 1] - x[i * 3]",
    ),
    "to rows of any length": (5, "out[i * n + 2] = x[i * 3] + x[i * 4 + 1]"),
}


def numbers(count: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 100, count).astype(dtype)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("type_", DTYPES)
@pytest.mark.parametrize("name", BODIES)
def test_as_python(built: Any, name: str, type_: str) -> None:
    step, lines = BODIES[name]
    body = lines.replace("\n", "\n    ")
    text = kernel(
        f'x: "{type_}*", out: "{type_}*", n: "i64"',
        f"for i in range(lo, hi):\n    {body}\nreturn 0",
    )
    fast, slow = built(text), llvm.as_python(text, "k")
    for count in COUNTS[::3]:
        size = step * (count + 5) + 9
        x = numbers(size, DTYPES[type_])
        runs = []
        for run in (fast, slow):
            own, out = x.copy(), np.full(size, 77, x.dtype)
            assert run(own, out, 5, 3, 3 + count, 0) == 0 if count else True
            runs.append(np.concatenate([own, out]))
        np.testing.assert_array_equal(*runs)


@pytest.mark.parametrize("name", [name for name in BODIES if "any length" in name])
def test_rows_whose_length_a_call_tells_are_vector_code_beside_windows(name: str) -> None:
    body = BODIES[name][1].replace("\n", "\n    ")
    text = kernel(
        'x: "f32*", out: "f32*", n: "i64"', f"for i in range(lo, hi):\n    {body}\nreturn 0"
    )
    lowered = lower_kernel(text, "k", noalias=True, vector_bits=512, lacking=(), widen=512)
    assert lowered.widened
    assert "shufflevector <16 x float>" in lowered.text
    assert "llvm.masked." in lowered.text


def guarded(count: int, dtype: str) -> tuple[np.ndarray, mmap.mmap]:
    """An array that ends where the process may not read on."""
    page, size = mmap.PAGESIZE, count * np.dtype(dtype).itemsize
    pages = -(-size // page) * page
    memory = mmap.mmap(-1, pages + page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    library = ctypes.CDLL(None, use_errno=True)
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert library.mprotect(start + pages, page, 0) == 0
    return np.frombuffer(memory, dtype, count, pages - size), memory


@pytest.mark.sampled(4)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="protects pages of memory")
@pytest.mark.parametrize("type_", ["f32", "u8"])
@pytest.mark.parametrize(("step", "at"), [(2, 0), (2, 1), (3, 0), (3, 1), (4, 1), (5, 0), (8, 2)])
def test_nothing_behind_the_last_element_is_read(
    built: Any, step: int, at: int, type_: str
) -> None:
    text = kernel(
        f'x: "{type_}*", out: "{type_}*"',
        f"for i in range(lo, hi):\n    out[i] = x[i * {step} + {at}]\nreturn 0",
    )
    run = built(text)
    for count in (1, 2, 16, 31, 32, 64, 129):
        x, memory = guarded(step * (count - 1) + at + 1, DTYPES[type_])
        x[:] = numbers(x.size, DTYPES[type_])
        out = np.zeros(count, x.dtype)
        assert run(x, out, 0, count, 0) == 0
        np.testing.assert_array_equal(out, x[at::step])
        assert memory


@pytest.mark.parametrize("columns", [1, 2, 5, 7])
def test_columns_of_rows_whose_length_a_call_tells_are_vector_code(
    built: Any, columns: int
) -> None:
    lines = [f"    out[i * n + {c}] = x[i * {columns} + {c}] * c" for c in range(columns)]
    text = kernel(
        'x: "f32*", out: "f32*", n: "i64", c: "f32"',
        "\n".join(["for i in range(lo, hi):", *lines, "return 0"]),
    )
    assert lower_kernel(text, "k", noalias=True, vector_bits=512, lacking=(), widen=512).widened
    run = built(text)
    for count in COUNTS[1::3]:
        for step in (columns, columns + 3):
            x, out = numbers(columns * count, "f4"), np.full(step * count, 77, np.float32)
            assert run(x, out, step, np.float32(2), 0, count, 0) == 0
            expected = np.full((count, step), 77, np.float32)
            expected[:, :columns] = x.reshape(count, columns) * np.float32(2)
            np.testing.assert_array_equal(out.reshape(count, step), expected)


def test_columns_that_are_read_again_are_left_to_llvm() -> None:
    text = kernel(
        'out: "f32*", n: "i64"',
        "for i in range(lo, hi):\n    out[i * n] = out[i * n + 1]\n    out[i * n + 2] = out[i * n]\nreturn 0",
    )
    assert not lower_kernel(text, "k", noalias=True, vector_bits=512, lacking=(), widen=512).widened


def test_usual_choices_of_elements_some_steps_apart(built: Any) -> None:
    text = kernel(
        'x: "f32*", out: "f32*"',
        "for i in range(lo, hi):\n    out[i * 2 + 1] = sin_f32(x[i * 3])\n    out[i * 2] = x[i * 3 + 2]\nreturn 0",
    )
    fast, slow = built(text), llvm.as_python(text, "k")
    for count in COUNTS[1::3]:
        x = numbers(3 * count, "f4")
        x[:: max(count, 7)] = 1e30
        runs = []
        for run in (fast, slow):
            out = np.full(2 * count, 77, np.float32)
            assert run(x, out, 0, count, 0) == 0
            runs.append(out)
        np.testing.assert_array_equal(*runs)
