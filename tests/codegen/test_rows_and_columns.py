"""Kernels that reduce rows and, beside them, columns: one pass over memory, and the results of two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracejit as tj

F = tj.nn.functional
KINDS = [tj.float32, tj.float64, tj.float16, tj.bfloat16]
ROUNDING = {tj.float32: 2e-5, tj.float64: 1e-12, tj.float16: 4e-3, tj.bfloat16: 3e-2}


def softmax_columns(x: tj.Tensor) -> Any:
    return x.softmax(-1).sum(0)


def several(x: tj.Tensor) -> Any:
    y = x - x.mean(-1, keepdim=True)
    return y, y.amax(0), (y * y).sum(0), y.abs().amax(-1)


def columns_first(x: tj.Tensor) -> Any:
    y = (x * 0.5).tanh()
    return y.sum(0), y.amin(0), y.logsumexp(-1), y


def two_outside(x: tj.Tensor) -> Any:
    y = x.exp()
    z = y / y.sum((-1, -2), keepdim=True) if x.ndim > 2 else y / y.sum(-1, keepdim=True)
    return z.sum(0), z.amax(0)


def mean_of_columns(x: tj.Tensor) -> Any:
    return x.log_softmax(-1).mean(0), x.amax(-1)


def all_points(x: tj.Tensor) -> Any:
    y = x.softmax(-1)
    return (y * x).sum(), (y * y).mean() + 1, y.amax(-1)


PROGRAMS = [all_points, softmax_columns, several, columns_first, two_outside, mean_of_columns]
SHAPES = [(64, 48), (5, 11), (1, 40), (3, 1), (130, 16), (9, 1100), (2100, 17), (0, 20), (6, 4, 13)]


def parts(found: Any) -> list[np.ndarray]:
    return [x.double().numpy() for x in (found if isinstance(found, tuple) else (found,))]


def close(found: Any, expected: Any, rounding: float) -> None:
    for a, b in zip(parts(found), parts(expected), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rounding, rounding * max(40.0, b.size))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("dtype", KINDS)
def test_as_eager(program: Callable[[Any], Any], dtype: tj.dtype):
    compiled = tj.compile(program, strict=True)
    for shape in SHAPES:
        if 0 in shape and program in (several, columns_first, two_outside):
            continue  # there is no largest of nothing
        for _ in range(2):
            x = tj.randn(*shape).to(dtype)
            close(compiled(x), program(x), ROUNDING[dtype])


def layer_norm_loss(x: tj.Tensor, weight: tj.Tensor, bias: tj.Tensor) -> Any:
    return (F.layer_norm(x, (x.shape[-1],), weight, bias).tanh() * x).sum()


@given(st.integers(1, 70), st.integers(1, 90), st.integers(0, 3))
def test_gradients_of_layer_norm(rows: int, width: int, outer: int):
    shape = (rows, width) if not outer else (outer, rows, width)
    compiled = tj.compile(layer_norm_loss)
    rng = np.random.default_rng(rows * 100 + width)
    arrays = [rng.normal(size=s) for s in (shape, (width,), (width,))]
    for _ in range(2):
        found = []
        for call in (layer_norm_loss, compiled):
            leaves = [tj.tensor(a, requires_grad=True) for a in arrays]
            call(*leaves).backward()
            found.append([leaf.grad.numpy() for leaf in leaves])
        for expected, gradient in zip(*found, strict=True):
            scale = max(1.0, float(np.abs(expected).max()))
            np.testing.assert_allclose(gradient, expected, 1e-9, 1e-10 * scale)


def test_the_backward_pass_of_layer_norm_is_one_kernel():
    compiled = tj.compile(layer_norm_loss)
    leaves = [tj.randn(s, requires_grad=True) for s in ((64, 48), (48,), (48,))]
    for _ in range(2):
        compiled(*leaves).backward()
    walked = [k.code for k in compiled.kernels if k.code.group.domain == [64, 48]]
    both = [code for code in walked if code.group.ends_in_columns]
    assert len(both) == 1
    assert sum(level == "column" for level in both[0].group.level.values()) == 2
    assert len(walked) == 2, [code.name for code in walked]  # with that of the forward pass


@pytest.mark.parametrize("shape", [(4100, 33), (7, 20_000), (300, 300)])
def test_threads_change_no_bit(shape: tuple[int, int]):
    before = tj.get_num_threads()
    compiled = tj.compile(several)
    x = tj.randn(*shape)
    found = []
    try:
        for threads in (1, 2, 3):
            tj.set_num_threads(threads)
            found += [parts(compiled(x)) for _ in range(2)]
    finally:
        tj.set_num_threads(before)
    for other in found[2:]:
        for a, b in zip(found[1], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_nan_and_inf_stay_in_their_columns():
    x = tj.randn(40, 32)
    x[3, 5], x[7, 6], x[9, 8] = float("nan"), float("inf"), -float("inf")
    compiled = tj.compile(columns_first)
    for _ in range(3):
        for a, b in zip(parts(compiled(x)), parts(columns_first(x)), strict=True):
            np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
            np.testing.assert_allclose(a, b, 1e-5, 1e-5)


def test_short_rows_are_worked_on_side_by_side():
    compiled = tj.compile(softmax_columns)
    for _ in range(2):
        compiled(tj.randn(500, 4))
    assert not any(k.code.group.ends_in_columns for k in compiled.kernels)


def test_draws_and_elements_looked_up_in_rows():
    table = tj.randn(7)

    def drawn(x: tj.Tensor, index: tj.Tensor) -> Any:
        y = F.dropout(x, 0.3) * table[index]
        z = (y - y.mean(-1, keepdim=True)).softmax(-1)
        return z, z.sum(0), (z * y).sum()

    compiled = tj.compile(drawn, strict=True)
    x, index = tj.randn(50, 30), tj.randint(0, 7, (50, 30))
    for _ in range(3):
        found = []
        for call in (compiled, drawn):
            tj.manual_seed(3)
            found.append(call(x, index))
        close(*found, 1e-5)


def repeated(x: tj.Tensor) -> Any:
    """Reductions of what is the same at all points of a row."""
    total = x.exp().sum(-1, keepdim=True)
    wide = total.expand(*x.shape)
    return wide.sum(-1), wide.amax(-1), (x - wide).softmax(-1), (x * wide).sum(0), wide.sum(0)


def once_more(x: tj.Tensor) -> Any:
    y = (x * x).sum(-1, keepdim=True)
    z = y.softmax(-1)
    return z, (z * x).sum(-1, keepdim=True).softmax(-1) * x, z.sum(0), (z + x).sum()


@pytest.mark.sampled(16)
@pytest.mark.parametrize("program", [repeated, once_more])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (6, 1), (1, 1, 1), (7, 16), (40, 33)])
def test_repeats_are_counted(program: Callable[[Any], Any], shape: tuple[int, ...]):
    def with_gradient(x: tj.Tensor) -> Any:
        found = program(x)
        loss = sum((t * t).sum() for t in found)
        return *found, *tj.autograd.grad(loss, x)

    for function, rounding in ((program, 1e-11), (with_gradient, 1e-8)):
        compiled = tj.compile(function, strict=True)
        for _ in range(2):
            x = tj.randn(*shape, dtype=tj.float64, requires_grad=True)
            for a, b in zip(compiled(x), function(x), strict=True):
                a, b = a.detach().numpy(), b.detach().numpy()
                np.testing.assert_allclose(a, b, rounding, rounding * (1 + np.abs(b).max()))
