"""Vectors of which one element is stored, after a conversion to narrower integers: no byte more is written."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from kernel_tools import compiled, kernel
from tracejit.codegen.llvm_threads import compiler
from tracejit.codegen.lone_lanes import store_lone_lanes_alone

NAMES = {"i8": np.int8, "i16": np.int16, "i32": np.int32}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("thorough", [False, True])
@pytest.mark.parametrize("step", [1, 2, 3, 8, 16, 40])
@pytest.mark.parametrize("narrow", NAMES)
@pytest.mark.parametrize("wide", ["i64", "i32"])
def test_what_lies_between_is_left_alone(wide, narrow, step, thorough):
    name = f"int{narrow[1:]}"
    source = kernel(
        f'x: "{wide}*", out: "{narrow}*"',
        f"for i in range(lo, hi):\n    out[i * {step}] = {name}(x[i])\nreturn 0",
    )
    x = np.arange(1, 38).astype(f"int{wide[1:]}")
    out = np.full(len(x) * step + 64, 99, NAMES[narrow])
    expected = out.copy()
    for low, high in ((0, 1), (0, 9), (3, len(x))):
        assert compiled(source, thorough=thorough)(x, out, low, high, 0) == 0
        expected[low * step : high * step : step] = x[low:high]
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("columns", [1, 5, 9, 17])
@pytest.mark.parametrize("narrow", NAMES)
def test_rows_of_a_known_length_end_where_they_end(narrow, columns):
    name = f"int{narrow[1:]}"
    source = kernel(
        f'x: "i64*", out: "{narrow}*"',
        f"""
for row in range(lo, hi):
    for i in range(0, {columns}):
        out[row * 64 + i] = {name}(x[i])
return 0
""",
    )
    x = np.arange(1, columns + 1)
    out = np.full((4, 64), 99, NAMES[narrow])
    expected = out.copy()
    expected[:3, :columns] = x
    assert compiled(source, thorough=True)(x, out, 0, 3, 0) == 0
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", [tj.int8, tj.uint8, tj.int16, tj.int32], ids=str)
def test_extremes_of_what_is_transposed(dtype):
    x = tj.arange(256).reshape(8, 16, 2).to(dtype)

    def largest(x):
        return (x.transpose(0, -1) + 1).max(0)

    compiled_largest = tj.compile(largest)
    for _ in range(3):
        for found, expected in zip(compiled_largest(x), largest(x), strict=True):
            assert found.tolist() == expected.tolist()


STORE = """
define void @f(<4 x i64> %x, ptr %p) {{
  %y = trunc <4 x i64> %x to <4 x i8>
  call void @llvm.masked.store.v4i8.p0(<4 x i8> {what}, ptr %p, i32 1, <4 x i1> {mask})
  ret void
}}
declare void @llvm.masked.store.v4i8.p0(<4 x i8>, ptr, i32, <4 x i1>)
"""


@pytest.mark.parametrize("what", ["%y", "zeroinitializer", "<i8 1, i8 2, i8 3, i8 4>"])
@pytest.mark.parametrize(
    ("mask", "alone"),
    [
        ("<i1 0, i1 0, i1 1, i1 0>", True),
        ("<i1 1, i1 poison, i1 0, i1 undef>", True),
        ("<i1 0, i1 1, i1 1, i1 0>", False),
        ("<i1 1, i1 1, i1 1, i1 1>", False),
        ("zeroinitializer", False),
    ],
)
def test_which_stores_are_written_otherwise(what, mask, alone):
    with compiler() as made:
        module = made.parse(STORE.format(what=what, mask=mask))
        text = str(store_lone_lanes_alone(module, made))
    assert ("store i8 " in text) is alone
    assert ("call void @llvm.masked.store" in text) is not alone
