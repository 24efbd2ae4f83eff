"""Pointwise work whose last dimension has a few elements: these are printed apart, and the one before is the loop."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.codegen.cpu import short_rows as cpu_short_rows
from tracejit.codegen.lower.lower import lower_kernel

FUNCTIONS: dict[str, Callable[[tj.Tensor, tj.Tensor], Any]] = {
    "end": lambda x, s: x * s + 1,
    "middle": lambda x, s: x[:, :1] - x[:, None] * s,
    "rows": lambda x, s: x.exp() * x[..., :1],
    "two": lambda x, s: ((x - s).abs(), x > s),
    "parts": lambda x, s: tj.cat([x * s, x - s], -1),
    "crossed": lambda x, s: x.transpose(0, 1) + s,
    "turned": lambda x, s: (x.transpose(0, 1) * 2 + s).transpose(0, 1).contiguous(),
    "frequencies": lambda x, s: tj.cat(
        [f(x * 2.0**i + s) for i in range(5) for f in (tj.sin, tj.cos)], -1
    ),
    "numbers": lambda x, s: x + tj.arange(x.shape[-1]) * s,
}


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few points there are."""
    monkeypatch.setattr(cpu_short_rows, "LEAST_POINTS", 0)


@pytest.mark.sampled(64)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("end", [1, 2, 3, 4, 7, 10, 11])
def test_as_eager(name: str, end: int) -> None:
    function = FUNCTIONS[name]
    for dtype in (tj.float32, tj.float64, tj.float16, tj.int64):
        whole = (tj.randn(19, 23, 2 * end) * 4).to(dtype)
        for x in (
            whole[..., :end].contiguous(),
            whole[..., ::2],
            whole[..., :end],
            whole[:1, :, :end],
        ):
            compiled = tj.compile(function, strict=True)
            s = (tj.randn(end) * 4).to(dtype)
            for _ in range(2):
                found, expected = compiled(x, s), function(x, s)
            pairs = (
                zip(found, expected, strict=True)
                if isinstance(found, tuple)
                else [(found, expected)]
            )
            for a, b in pairs:
                assert a.dtype is b.dtype
                tolerance = 2e-3 if dtype is tj.float16 else 2e-6
                np.testing.assert_allclose(
                    a.double().numpy(), b.double().numpy(), tolerance, tolerance
                )


@pytest.mark.sampled(8)
@pytest.mark.parametrize("ends", [(2, 3), (4, 4), (3, 6), (3, 10), (20, 3)], ids=str)
@pytest.mark.parametrize("dtype", [tj.float32, tj.bfloat16, tj.int32], ids=str)
def test_two_short_dimensions(ends: tuple[int, int], dtype: tj.dtype) -> None:
    first, second = ends
    for x, y in (
        (tj.randn(50, first, 1), tj.randn(50, 1, second)),
        (tj.randn(50, 1, second), tj.randn(first, 1)),
        (
            tj.randn(first, 50, 2).permute(1, 0, 2)[..., 1:],
            tj.randn(1, second, 50).permute(2, 0, 1),
        ),
    ):
        a, b = (x * 4).to(dtype), (y * 4).to(dtype)
        compiled = tj.compile(crossed, strict=True)
        for _ in range(2):
            found = compiled(a, b)
        for mine, expected in zip(found, crossed(a, b), strict=True):
            assert tj.equal(mine, expected)


REDUCED: dict[str, Callable[[tj.Tensor, tj.Tensor], Any]] = {
    "all": lambda x, s: ((x * s).sum(), (x - s).amax()),
    "columns": lambda x, s: ((x * s).sum(0), (x + s).amin(0), x * s),
    "softmax": lambda x, s: ((x * s).softmax(0),),
    "moments": lambda x, s: tj.var_mean(x * s + x[:, :1], dim=0),
    "outer": lambda x, s: ((x[:, :, None] * (x - s)[:, None]).sum(), (x @ x.t() * s[0]).sum()),
    "positions": lambda x, s: ((x * s).argmax(), (x - s).argmin(0)),
}


@pytest.mark.sampled(36)
@pytest.mark.filterwarnings("ignore:var.*degrees of freedom")  # single rows are among the shapes
@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("end", [1, 2, 3, 8, 9])
@pytest.mark.parametrize("dtype", [tj.float64, tj.bfloat16, tj.int32], ids=str)
def test_reductions(name: str, end: int, dtype: tj.dtype) -> None:
    if dtype is not tj.float64 and name in ("softmax", "moments", "outer"):
        dtype = tj.float32
    for x in (tj.randn(1100, end), tj.randn(1, end), tj.randn(end, 700).t()):
        compiled = tj.compile(REDUCED[name], strict=True)
        a, s = (x * 8).to(dtype), (tj.randn(end) * 4).to(dtype)
        for _ in range(2):
            found = compiled(a, s)
        for mine, expected in zip(found, REDUCED[name](a, s), strict=True):
            assert mine.dtype is expected.dtype
            tolerance = {tj.float64: 1e-11, tj.bfloat16: 2e-2}.get(dtype, 2e-4)
            np.testing.assert_allclose(
                mine.double().numpy(), expected.double().numpy(), tolerance, 10 * tolerance
            )


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    x, s = tj.randn(30000, 3), tj.randn(3)
    compiled = tj.compile(lambda x, s: ((x * s).sum(), (x * s).sum(0)), strict=True)
    before, found = tj.get_num_threads(), []
    try:
        for threads in (1, 2, 1):
            tj.set_num_threads(threads)
            found.append([y.numpy() for y in compiled(x, s)])
    finally:
        tj.set_num_threads(before)
    for a, b in zip(found[1], found[2], strict=True):
        np.testing.assert_array_equal(a, b)


def test_many_functions_of_short_rows_are_printed_once() -> None:
    """Three rows of ten functions are loops around the one over points, and vector code."""
    text = source(FUNCTIONS["frequencies"], tj.randn(4000, 3), tj.randn(3))
    assert len(re.findall(r"sin_f32|cos_f32", text)) == 10
    name = re.search(r"def (\w+)", text)
    assert name is not None
    assert lower_kernel(text, name[1], noalias=True, vector_bits=512, lacking=(), widen=512).widened


def test_few_columns_are_printed_apart() -> None:
    text = source(lambda x, s: (x * s).sum(0), tj.randn(500, 3), tj.randn(3))
    assert len(re.findall(r"^ +acc0_[012] \+= ", text, re.MULTILINE)) == 3
    text = source(lambda x, s: (x * s).sum(), tj.randn(500, 3), tj.randn(3))
    assert len(re.findall(r"^ +final0 \+= ", text, re.MULTILINE)) == 3 + 1  # the blocks' results


def crossed(a: tj.Tensor, b: tj.Tensor) -> tuple[tj.Tensor, tj.Tensor]:
    return a * b + 1, tj.cat([a - b, b * 2 - a], -1)


def woven(x: tj.Tensor) -> tj.Tensor:
    """Four parts that take turns along two dimensions."""
    _, rows, columns = x.shape
    return x.reshape(2, 2, rows, columns).permute(2, 0, 3, 1).reshape(2 * rows, 2 * columns)


def test_parts_that_take_turns_are_read_in_rows() -> None:
    """Read across, they would first be turned round in squares of which two rows are there."""
    compiled = tj.compile(woven, strict=True)
    for shape in ((4, 19, 23), (4, 32, 64)):
        x = tj.randn(*shape)
        for _ in range(2):
            found = compiled(x)
        np.testing.assert_array_equal(found.numpy(), woven(x).numpy())
    assert "_square" not in compiled.source()


def test_gradients_and_writes() -> None:
    def step(x: tj.Tensor, scale: tj.Tensor) -> tj.Tensor:
        y = x * scale
        y[..., 1] = x[..., 0]
        y.mul_(2.0)
        return (y - x[:, :1]).square().sum()

    compiled = tj.compile(step)
    for _ in range(3):
        found = []
        values = np.random.default_rng(0).normal(size=(31, 17, 3)), np.array([0.5, 2.0, -1.0])
        for call in (step, compiled):
            leaves = [tj.tensor(v, requires_grad=True) for v in values]
            call(*leaves).backward()
            found.append([leaf.grad.numpy() for leaf in leaves])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a, b, 1e-10)


def test_positions_that_are_read() -> None:
    table, index = tj.randn(50, 3), tj.arange(60).reshape(20, 3) % 50
    compiled = tj.compile(lambda t, i, s: tj.take(t, i) * s)
    s = tj.tensor([1.0, 2.0, 3.0])
    for _ in range(2):
        found = compiled(table, index, s)
    np.testing.assert_array_equal(found.numpy(), (tj.take(table, index) * s).numpy())
    with pytest.raises(IndexError):
        compiled(table, index + 500, s)


def stores(text: str) -> int:
    return len(re.findall(r"^ +out0\[", text, re.MULTILINE))


def source(function: Callable[..., Any], *args: Any) -> str:
    compiled = tj.compile(function)
    for _ in range(2):
        compiled(*args)
    assert len(compiled.kernels) == 1
    text: str = compiled.kernels[0].source
    return text


def test_what_is_printed_apart() -> None:
    s = tj.randn(3)
    text = source(lambda x, s: x * s, tj.randn(40, 3), s)
    assert len(re.findall(r"^ +for ", text, re.MULTILINE)) == 1
    assert "out0[i0 * 3 + 2]" in text
    assert stores(text) == 3
    assert stores(source(lambda x: x * 2, tj.randn(40, 3))) == 1, "one long row"
    many = source(lambda x, s: x * s, tj.randn(40, 30), tj.randn(30))
    assert stores(many) == 1


@pytest.mark.parametrize(
    ("shape", "apart", "loops"),
    [((40, 3, 4), 12, 1), ((40, 20, 4), 4, 2), ((40, 3, 8), 1, 2), ((40, 9), 1, 2)],
    ids=str,
)
def test_what_is_left_fills_vectors(shape: tuple[int, ...], apart: int, loops: int) -> None:
    """A loop of three rounds fills none: it is printed apart as well, or nothing is."""
    x, y = tj.randn(*shape[:-1], 1), tj.randn(*([1] * (len(shape) - 1)), shape[-1])
    text = source(lambda x, y: x * y, x, y.expand(shape[0], *y.shape[1:]).contiguous())
    assert stores(text) == apart
    assert len(re.findall(r"^ +for ", text, re.MULTILINE)) == loops


def test_few_points_share_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_short_rows, "LEAST_POINTS", 1000)
    assert stores(source(lambda x, s: x * s, tj.randn(300, 3), tj.randn(3))) == 1
    assert stores(source(lambda x, s: x * s, tj.randn(400, 3), tj.randn(3))) == 3


def test_random_numbers() -> None:
    def noisy(x: tj.Tensor, s: tj.Tensor) -> tj.Tensor:
        return x * s + tj.rand_like(x)

    compiled = tj.compile(noisy)
    x, s = tj.randn(30, 4), tj.randn(4)
    for seed in (1, 2, 3):
        tj.manual_seed(seed)
        expected = noisy(x, s)
        tj.manual_seed(seed)
        np.testing.assert_allclose(compiled(x, s).numpy(), expected.numpy(), 1e-6, 1e-6)


def test_positions_that_are_printed_apart() -> None:
    """They differ along the last dimension, though not along the one before."""

    def looked_up(t: tj.Tensor, i: tj.Tensor) -> tj.Tensor:
        return t[..., i] * tj.arange(20.0)[:, None]

    table, index = tj.randn(5, 20, 40), tj.arange(4) * 7 % 40
    compiled = tj.compile(looked_up, strict=True)
    for _ in range(2):
        found = compiled(table, index)
    np.testing.assert_allclose(found.numpy(), looked_up(table, index).numpy(), 1e-6)


@pytest.mark.parametrize("end", [1, 3, 20])
def test_positions_are_read_once_for_a_row(end: int) -> None:
    table, index = tj.randn(40, end), tj.arange(30) * 7 % 80 - 40
    compiled = tj.compile(lambda t, i: t[i].exp(), strict=True)
    for _ in range(2):
        found = compiled(table, index)
    np.testing.assert_allclose(found.numpy(), table[index].exp().numpy(), 1e-6)
    text = compiled.kernels[0].source
    check, element = text.index("return 1"), text.index("exp_f32(")
    assert "for i1 in" in text[check:element], "the inner loop has no way out"
    with pytest.raises(IndexError):
        compiled(table, index + 41)
    assert compiled(table[:, :0], index + 41).shape == (30, 0)
