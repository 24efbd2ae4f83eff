"""Operands whose memory is short lines across the results, such as pixels of three colours beside planes of each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tracejit as tj
from tracejit.codegen.cpu import short_rows as cpu_short_rows

F = tj.nn.functional
DTYPES = (tj.float32, tj.float64, tj.bfloat16, tj.uint8, tj.int64)
FUNCTIONS: dict[str, Callable[[tj.Tensor], tj.Tensor]] = {
    "planes": lambda x: x.permute(0, 3, 1, 2) * 2,
    "converted": lambda x: x.permute(0, 3, 1, 2).float() / 255,
    "narrowed": lambda x: x.permute(0, 3, 1, 2).to(tj.bfloat16),
    "moved": lambda x: (x - x[0, 0, 0]).permute(0, 3, 1, 2).contiguous(),
    "columns": lambda x: x[0, 0].t() + 1,
    "shown": lambda x: x.permute(0, 3, 1, 2)[:, :, 1:, 2:] + x[0, 1:, 2:].permute(2, 0, 1),
}


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few points there are."""
    monkeypatch.setattr(cpu_short_rows, "LEAST_POINTS", 0)


def same(function: Callable[..., tj.Tensor], *arguments: tj.Tensor) -> tj.compiler.CompiledFunction:
    compiled = tj.compile(function, strict=True)
    for _ in range(2):
        found = compiled(*arguments)
    expected = function(*arguments)
    assert found.dtype is expected.dtype
    tolerance = 1e-2 if expected.dtype is tj.bfloat16 else 1e-6
    np.testing.assert_allclose(
        found.double().numpy(), expected.double().numpy(), tolerance, tolerance
    )
    return compiled


@pytest.mark.sampled(64)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("colours", [1, 2, 3, 4, 5, 8, 9, 12, 16, 17])
def test_as_eager(name: str, colours: int) -> None:
    for dtype in DTYPES:
        for shape in ((2, 9, 21), (1, 3, 70), (1, 40, 5)):
            same(FUNCTIONS[name], (tj.rand(*shape, colours) * 200).to(dtype))


@pytest.mark.parametrize("dtype", [tj.float32, tj.uint8], ids=str)
def test_all_colours_of_a_pixel_are_read_at_once(dtype: tj.dtype) -> None:
    compiled = same(FUNCTIONS["converted"], (tj.rand(2, 30, 40, 3) * 200).to(dtype))
    (kernel,) = compiled.kernels
    assert "[2, 30, 40, 3]: pointwise" in kernel.source
    assert "* 3 + 2]" in kernel.source


def test_halves_that_stay_halves_are_turned_in_squares() -> None:
    compiled = same(FUNCTIONS["planes"], (tj.rand(2, 30, 40, 9) * 200).to(tj.bfloat16))
    (kernel,) = compiled.kernels
    assert "turn_8" in kernel.source


@pytest.mark.sampled(4)
@pytest.mark.parametrize("size", [2, 3, 4, 5, 7, 15, 16, 20])
@pytest.mark.parametrize("factor", [2, 3, 4])
def test_shuffled_pixels(size: int, factor: int) -> None:
    x = tj.randn(3, 2 * factor**2, size, size + 1)
    same(lambda x: F.pixel_shuffle(x, factor), x)
    same(lambda x: F.pixel_unshuffle(x, factor), F.pixel_shuffle(x, factor))
    same(lambda x: F.pixel_unshuffle(x, factor).transpose(1, 2).exp(), F.pixel_shuffle(x, factor))


def test_other_sizes_are_other_programs() -> None:
    compiled = tj.compile(FUNCTIONS["planes"], strict=True)
    for colours in (3, 4, 3, 20, 3, 4):
        for rows in (10, 17):
            x = tj.randn(2, rows, 31, colours)
            for _ in range(2):
                assert tj.equal(compiled(x), FUNCTIONS["planes"](x))


def test_gradients() -> None:
    x = tj.randn(2, 12, 15, 3, requires_grad=True)
    w = tj.randn(2, 3, 12, 15)

    def loss(x: tj.Tensor) -> tj.Tensor:
        return (x.permute(0, 3, 1, 2).sin() * w).sum()

    compiled = tj.compile(loss, strict=True)
    for _ in range(3):
        x.grad = None
        compiled(x).backward()
    assert x.grad is not None
    expected = x.detach().cos() * w.permute(0, 2, 3, 1)
    np.testing.assert_allclose(x.grad.numpy(), expected.numpy(), 1e-5, 1e-5)


def corners(boxes: tj.Tensor) -> tj.Tensor:
    x, y, width, height = boxes.unbind(-1)
    parts = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    return tj.stack(parts, -1)


def test_components_of_short_rows_are_read_together() -> None:
    compiled = same(corners, tj.randn(9000, 4))
    (kernel,) = compiled.kernels
    assert "in1" not in kernel.source


def test_steps_of_few_points_are_sizes() -> None:
    compiled = tj.compile(corners, strict=True)
    for count in (7, 90, 1):
        x = tj.randn(count, 4)
        for _ in range(2):
            assert tj.equal(compiled(x), corners(x))
    assert not any("in0[i0 * 4" in kernel.source for kernel in compiled.kernels)


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    "shape", [(70, 90), (9, 500), (15, 12), (8, 64, 50), (3, 20, 17), (130, 8)]
)
def test_squares(shape: tuple[int, ...]) -> None:
    for dtype in DTYPES:
        x = (tj.rand(*shape) * 100).to(dtype)
        same(lambda x: x.transpose(-1, -2) * 2, x)
        same(lambda x: (x + x.transpose(-1, -2).contiguous().transpose(-1, -2)).transpose(0, -1), x)
        same(lambda x: x.transpose(-1, -2).float().softmax(0), x)


@pytest.mark.parametrize("shape", [(1, 2, 33, 2), (6, 3, 20, 4), (4, 5, 9, 3), (3, 40, 70, 5)])
def test_products_of_operands_that_are_lines(shape: tuple[int, ...]) -> None:
    """A product whose batch is a short line gets matrices one by one, its operands not."""
    x = tj.randn(*shape)
    for function in (
        lambda x: (y := x.transpose(1, 3)).mT @ y,
        lambda x: x.permute(0, 3, 1, 2) @ x.permute(0, 3, 2, 1),
        lambda x: (x.permute(3, 0, 1, 2) * 2) @ x.permute(3, 0, 2, 1),
        lambda x: x.permute(3, 0, 2, 1).exp() @ (x.permute(3, 0, 1, 2) + 1),
    ):
        compiled = tj.compile(function, strict=True)
        for _ in range(3):
            found = compiled(x)
        np.testing.assert_allclose(found.numpy(), function(x).numpy(), 1e-4, 1e-4)
