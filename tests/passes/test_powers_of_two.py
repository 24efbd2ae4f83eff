"""Whole numbers divided by powers of two, and by anything else, whatever their size."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit.ir import parse
from tracejit.passes.simplify.simplify import simplify


@pytest.mark.parametrize(
    ("dtype", "expression", "result"),
    [
        ("i64", "floor_divide(x, 65536)", "bitwise_right_shift(x, 16)"),
        ("i64", "remainder(x, 131072)", "bitwise_and(x, 131071)"),
        ("i32", "remainder(x, 536870912)", "bitwise_and(x, 536870911)"),
        ("i32", "floor_divide(x, 1073741824)", "bitwise_right_shift(x, 30)"),
    ],
)
def test_bits_are_cut_off(dtype: str, expression: str, result: str):
    form = "graph f(x: {0}[3]) {{ %0: {0}[3] = {1} return %0 }}"
    assert simplify(parse(form.format(dtype, expression))) == parse(form.format(dtype, result))


@pytest.mark.parametrize(
    ("dtype", "expression"),
    [
        ("i64", "floor_divide(x, 65538)"),
        ("i64", "floor_divide(x, -65536)"),
        ("i32", "remainder(x, 2147483648)"),  # which is negative there
        ("i64", "floor_divide(65536, x)"),
        ("f32", "remainder(x, 65536)"),
        ("i64", "fmod(x, 65536)"),  # rounds towards zero
        ("i64", "floor_divide(x, 8)"),  # which may be a size
    ],
)
def test_other_quotients_stay(dtype: str, expression: str):
    graph = parse(f"graph f(x: {dtype}[3]) {{ %0: {dtype}[3] = {expression} return %0 }}")
    assert simplify(graph) == graph


@pytest.mark.parametrize("dtype", [tj.int32, tj.int64])
def test_programs_with_other_divisors_are_others(dtype: tj.dtypes.DType):
    def function(x: tj.Tensor, n: int) -> tuple[tj.Tensor, tj.Tensor]:
        return x // n, x % n

    compiled = tj.compile(function)
    for size in (7, 40, 300):
        x = tj.arange(size).sub(size // 2).to(dtype)
        for n in (2, 3, 4, 6, 64, 1, 65536, 5, 1 << 30):
            for found, expected in zip(compiled(x, n), function(x, n), strict=True):
                assert found.dtype is expected.dtype
                assert found.tolist() == expected.tolist(), (size, n)


def test_kernels_have_the_bits():
    compiled = tj.compile(lambda x: (x * 1003 % 65536).sum())
    x = tj.arange(5000)
    for _ in range(3):
        assert compiled(x).item() == int((np.arange(5000) * 1003 % 65536).sum())
    assert "remainder" not in compiled.source()
    assert "& " in compiled.source() or "bitwise_and" in compiled.source()


def test_large_numbers_are_divided_exactly():
    """In vectors, where most numbers are small and where they are not."""
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 63, 4000)
    x = rng.integers(-(2**63), 2**63 - 1, 4000) >> bits
    x[:6] = [2**63 - 1, -(2**63), 2**62, -(2**62) - 1, 2**53 + 1, -1]
    divisors = [3, 7, 1_000_003, 2**31 - 1, 2**52 + 1, 2**62 - 57, 2**63 - 1, -5, -(2**61) - 1]
    for divisor in divisors:
        compiled = tj.compile(lambda x, n=divisor: (x // n, x % n))
        for _ in range(2):
            quotient, rest = compiled(tj.from_numpy(x))
        assert quotient.tolist() == [a // divisor for a in x.tolist()]
        assert rest.tolist() == [a % divisor for a in x.tolist()]


def test_sizes_that_are_powers_of_two_need_no_kernel_of_their_own():
    compiled = tj.compile(lambda x: (tj.arange(60) % len(x)).sum() + x.sum())
    kernels = []
    for size in (3, 7, 5, 4, 8, 16, 6, 2):
        x = tj.ones(size)
        for _ in range(2):
            assert compiled(x).item() == sum(i % size for i in range(60)) + size
        kernels.append(len({key for kernel in compiled.kernels for key in kernel.keys}))
    assert kernels[3:] == kernels[3:4] * 5
