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


def between(image: tj.Tensor, x: tj.Tensor, y: tj.Tensor) -> tj.Tensor:
    """Elements between those of an image."""
    left, top = x.floor(), y.floor()
    a, b, i, j = x - left, y - top, top.long(), left.long()
    upper = image[i, j] * (1 - a) + image[i, j + 1] * a
    return upper * (1 - b) + (image[i + 1, j] * (1 - a) + image[i + 1, j + 1] * a) * b


@pytest.mark.parametrize("count", [1, 7, 16, 33, 5000])
def test_computed_places_are_looked_up_where_they_are_computed(count: int) -> None:
    numbers = np.random.default_rng(count)
    image = tj.tensor(numbers.normal(size=(20, 30)).astype("f4"))
    x = tj.tensor(numbers.uniform(0, 28, count).astype("f4"))
    y = tj.tensor(numbers.uniform(-19, 18, count).astype("f4"))
    f = tj.compile(between, strict=True)
    for _ in range(3):
        found = f(image, x, y)
    np.testing.assert_allclose(found.numpy(), between(image, x, y).numpy(), 1e-5, 1e-5)
    assert len(f.kernels) == 1
    assert "wrap_index" not in f.kernels[0].name
    for wrong in (29.5, -31.0, 1e30, float("nan"), float("inf")):
        x[count // 2] = wrong
        with pytest.raises(IndexError) as expected:
            between(image, x, y)
        with pytest.raises(IndexError) as error:
            f(image, x, y)
        assert str(error.value) == str(expected.value)


def test_gradients_of_what_lies_between() -> None:
    numbers = np.random.default_rng(0)
    f, found = tj.compile(between, strict=True), []
    x, y = (tj.tensor(numbers.uniform(0, high, 70)) for high in (28, 18))
    values = numbers.normal(size=(20, 30))
    for call in (between, f, f, f):
        image, at = tj.tensor(values, requires_grad=True), x.clone().requires_grad_()
        call(image, at, y).square().sum().backward()
        assert image.grad is not None
        assert at.grad is not None
        found.append((image.grad.numpy(), at.grad.numpy()))
    for grads in found[1:]:
        for mine, expected in zip(grads, found[0], strict=True):
            np.testing.assert_allclose(mine, expected, 1e-10, 1e-12)


def test_nothing_is_written_where_a_computed_place_is_out_of_range() -> None:
    def step(table: tj.Tensor, at: tj.Tensor, total: tj.Tensor) -> tj.Tensor:
        total += table[(at * 2).long()]
        return total * 2

    f = tj.compile(step)
    table, at = tj.rand(100), tj.linspace(0, 49, 40)
    for _ in range(3):
        f(table, at, tj.zeros(40))
    at[20], total = 50.0, tj.ones(40)
    with pytest.raises(IndexError):
        f(table, at, total)
    assert total.tolist() == [1.0] * 40
