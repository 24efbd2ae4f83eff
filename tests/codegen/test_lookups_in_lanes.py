"""Lookups as vector code: what they find, and what happens where a place is out of range."""

from __future__ import annotations

import llvmlite.binding
import numpy as np
import pytest

import tracejit as tj
from tracejit.codegen.lower.lower import lower_kernel

HEAD = 'def k(x: "f32*", at: "i64*", n: "i64", out: "f32*", lo: "i64", hi: "i64", worker: "i64") -> "i32":'
CHECKED = f"""
{HEAD}
    for i in range(lo, hi):
        v = at[i]
        if uint64(v) >= uint64(n):
            return 1
        out[i] = exp_f32(x[v])
    return 0
"""
FLIPPED = f"""
{HEAD}
    for i in range(lo, hi):
        out[i] = x[n - i]
    return 0
"""
STORED = f"""
{HEAD}
    for i in range(lo, hi):
        v = at[i]
        out[i] = out[v] + x[i]
    return 0
"""
SAME = f"""
{HEAD}
    for i in range(lo, hi):
        v = at[0]
        if uint64(v) >= uint64(n):
            return 1
        out[i] = x[v]
    return 0
"""


ADDED = f"""
{HEAD}
    for i in range(lo, hi):
        v = at[i]
        out[i] = out[i] + x[v]
    return 0
"""


def text_of(source: str) -> str:
    return lower_kernel(source, "k", noalias=True, vector_bits=512, lacking=(), widen=512).text


def test_lookups_are_gathered() -> None:
    assert "llvm.masked.gather.v8f32" in text_of(CHECKED)


def test_what_is_left_over_is_looked_up_one_by_one() -> None:
    text = text_of(ADDED)  # elements that are added to others are done singly at the end
    assert "llvm.masked.gather.v8f32" in text
    assert "llvm.masked.load" not in text
    module = llvmlite.binding.parse_assembly(text)
    module.verify()


@pytest.mark.parametrize("source", [FLIPPED, STORED, SAME])
def test_what_may_not_be_gathered_is_not(source: str) -> None:
    assert "llvm.masked.gather" not in text_of(source)


def compiled(table: tj.Tensor, at: tj.Tensor, more: tj.Tensor) -> tj.Tensor:
    return (table[at] * more).remainder(2.5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "dtype", [tj.float32, tj.float64, tj.float16, tj.bfloat16, tj.int32, tj.uint8]
)
@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 16, 31, 33, 257])
def test_all_lanes_find_what_eager_code_finds(dtype: tj.dtype, count: int) -> None:
    rng = np.random.default_rng(count)
    table = tj.tensor(rng.integers(1, 9, 50)).to(dtype)
    at = tj.tensor(rng.integers(-50, 50, count))
    more = tj.tensor(rng.normal(size=count).astype(np.float32))
    f = tj.compile(compiled, strict=True)
    for _ in range(3):
        found = f(table, at, more)
    expected = compiled(table, at, more)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.float().numpy(), expected.float().numpy())
    assert f.stats.compiled_calls == 2


@pytest.mark.parametrize("wrong", [50, -51, 1 << 40, -(1 << 40), (1 << 63) - 1])
@pytest.mark.parametrize("place", [0, 1, 7, 8, 15, 16, 30, 31, 36])
def test_a_place_out_of_range_is_the_error_of_eager_code(wrong: int, place: int) -> None:
    table, more = tj.rand(50), tj.rand(37)
    at = tj.tensor(np.random.default_rng(place).integers(-50, 50, 37))
    f = tj.compile(compiled)
    for _ in range(3):
        f(table, at, more)
    at[place] = wrong
    with pytest.raises(IndexError) as expected:
        compiled(table, at, more)
    with pytest.raises(IndexError) as found:
        f(table, at, more)
    assert str(found.value) == str(expected.value)
    at[place] = 3
    assert f(table, at, more).tolist() == compiled(table, at, more).tolist()


def test_nothing_is_read_of_an_empty_table() -> None:
    f = tj.compile(compiled)
    at, more = tj.zeros(20, dtype=tj.int64), tj.rand(20)
    for _ in range(3):
        f(tj.rand(4), at, more)
    for _ in range(3):
        with pytest.raises(IndexError):
            f(tj.rand(0), at, more)
    assert f(tj.rand(0), at[:0], more[:0]).shape == (0,)


@pytest.mark.parametrize("count", [5, 64, 1000, 70_001])
def test_sums_of_what_is_looked_up(count: int) -> None:
    table = tj.rand(300, dtype=tj.float64)
    at = tj.tensor(np.random.default_rng(count).integers(0, 300, count))
    f = tj.compile(lambda table, at: (table[at].sum(), table[at].max()), strict=True)
    for _ in range(3):
        total, most = f(table, at)
    assert total.item() == pytest.approx(table[at].sum().item(), rel=1e-12)
    assert most.item() == table[at].max().item()
    at[count // 2] = 300
    with pytest.raises(IndexError):
        f(table, at)


def test_a_table_of_a_table() -> None:
    first, second = tj.tensor(np.random.default_rng(0).integers(0, 90, 40)), tj.rand(90)
    at = tj.tensor(np.random.default_rng(1).integers(0, 40, 100))
    f = tj.compile(lambda at: second[first[at]] * 3, strict=True)
    for _ in range(3):
        found = f(at)
    assert found.tolist() == (second[first[at]] * 3).tolist()
    first[5] = 90
    at[50] = 5
    with pytest.raises(IndexError):
        f(at)
