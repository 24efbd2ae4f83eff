"""Result dtypes of arithmetic, comparison and reductions; Python numbers and 0-d tensors are weak."""

from __future__ import annotations

import itertools

import pytest

import tracejit as tj
from tracejit import dtypes

#: The documented table of dtype promotion, upper triangle, rows and columns in this order.
ORDER = [
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "bool",
]
TABLE = """
u8 i16 i16 i32 i64 f16 bf16 f32 f64 u8
i8 i16 i32 i64 f16 bf16 f32 f64 i8
i16 i32 i64 f16 bf16 f32 f64 i16
i32 i64 f16 bf16 f32 f64 i32
i64 f16 bf16 f32 f64 i64
f16 f32 f32 f64 f16
bf16 f32 f64 bf16
f32 f64 f32
f64 f64
bool
"""


def test_the_table_of_promotion():
    rows = [line.split() for line in TABLE.strip().splitlines()]
    for i, row in enumerate(rows):
        for j, short in enumerate(row):
            a, b = dtypes.by_name(ORDER[i]), dtypes.by_name(ORDER[i + j])
            expected = dtypes.by_name(short)
            assert tj.promote_types(a, b) is expected
            assert tj.promote_types(b, a) is expected
            assert (tj.ones(2, dtype=a) + tj.ones(2, dtype=b)).dtype is expected
            assert (tj.ones(2, dtype=b) * tj.ones((), dtype=b)).dtype is b


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_python_numbers_and_0d_tensors_change_only_the_category(dtype):
    x = tj.ones(3, dtype=dtype)
    whole = dtype if dtype is not tj.bool else tj.int64
    floating = dtype if dtype.is_floating_point else tj.float32
    assert (x * 2).dtype is whole
    assert (2 * x).dtype is whole
    assert (x * 2.5).dtype is floating
    assert (x * True).dtype is dtype
    assert (x * tj.tensor(2.5, dtype=tj.float64)).dtype is (
        dtype if dtype.is_floating_point else tj.float64
    )
    assert (x * tj.tensor(2, dtype=tj.int32)).dtype is (dtype if dtype is not tj.bool else tj.int32)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(dtypes.ALL, repeat=2)), ids=str)
def test_division_and_comparison(a, b):
    x, y = tj.ones(2, dtype=a), tj.ones(2, dtype=b)
    common = tj.promote_types(a, b)
    assert (x / y).dtype is (common if common.is_floating_point else tj.float32)
    assert (x < y).dtype is tj.bool
    assert (x == y).tolist() == [True, True]
    assert tj.where(x > 0, x, y).dtype is common
    assert tj.cat([x, y]).dtype is common


def test_default_dtype_decides_for_floats():
    tj.set_default_dtype(tj.float64)
    try:
        assert (tj.ones(1, dtype=tj.int64) / 2).dtype is tj.float64
        assert tj.sqrt(tj.tensor([4])).dtype is tj.float64
        assert tj.zeros(1).dtype is tj.float64
    finally:
        tj.set_default_dtype(tj.float32)
    assert tj.sqrt(tj.tensor([4])).dtype is tj.float32


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_reductions(dtype):
    x = tj.ones(2, 2, dtype=dtype)
    counted = dtype if dtype.is_floating_point else tj.int64
    assert x.sum().dtype is counted
    assert x.prod(0).dtype is counted
    assert x.amax().dtype is dtype
    assert x.any().dtype is (tj.uint8 if dtype is tj.uint8 else tj.bool)
    assert x.sum(dtype=tj.float64).dtype is tj.float64
    assert x.cumsum(0).dtype is counted


def test_integers_wrap_around():
    x = tj.tensor([250], dtype=tj.uint8)
    assert (x + 10).tolist() == [4]
    assert (x + 300).tolist() == [(250 + 300) % 256]
    assert (-tj.tensor([-128], dtype=tj.int8)).tolist() == [-128]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda b: b - b, "two bool tensors"),
        (lambda b: b - 1, "with a bool tensor"),
        (lambda b: 1 - b, "with a bool tensor"),
        (lambda b: -b, "not implemented for 'Bool'"),
        (lambda b: tj.floor(b), "not implemented for 'Bool'"),
        (lambda b: tj.tensor([1]) ** -1, "negative integer powers"),
        (lambda b: tj.tensor([1]) // 0, "ZeroDivisionError"),
        (lambda b: tj.tensor([1]) % tj.tensor([0]), "ZeroDivisionError"),
        (lambda b: tj.ones(1) & tj.ones(1), "not implemented for 'Float'"),
        (lambda b: b << 1 << 1.5, "not implemented for 'Float'"),
        (lambda b: tj.add(tj.tensor([1]), 1, alpha=1.5), "must not be a floating point"),
        (lambda b: tj.mean(tj.tensor([1])), "could not infer output dtype"),
        (lambda b: tj.softmax(tj.tensor([1]), 0), "not implemented for 'Long'"),
        (lambda b: tj.where(tj.ones(1), 1, 2), "boolean tensor"),
    ],
)
def test_refused_dtypes(call, match):
    with pytest.raises(RuntimeError, match=match):
        call(tj.tensor([True, False]))


def test_masks_in_bytes_choose():
    mask, x = tj.tensor([1, 0, 2], dtype=tj.uint8), tj.tensor([1.0, 2.0, 3.0])
    compiled = tj.compile(lambda mask, x: tj.where(mask, x, -x))
    for found in (tj.where(mask, x, -x), x.where(mask, -x), *(compiled(mask, x) for _ in range(3))):
        assert found.tolist() == [1.0, -2.0, 3.0]
    with pytest.raises(RuntimeError, match="boolean tensor, but got int8"):
        tj.where(mask.to(tj.int8), x, x)
