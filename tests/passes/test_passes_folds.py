"""Windows that are added up a stride at once: the same sums in the same order as element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import host_ops
from tracejit.ops.windows import Windows

F = tj.nn.functional

PADDINGS = [(0, 0), (2, 1), (0, 5), (-1, 0), (-2, -3)]


def element_by_element(windows: Windows, x: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """What `Windows.fold` does for any windows."""
    rank = len(size)
    counts, lead = x.shape[-rank:], x.shape[: x.ndim - 2 * rank]
    buffer = np.zeros((*lead, *windows.buffer(size)), x.dtype)
    by_tap = x.reshape(*lead, -1, *counts)
    for tap, index in windows.taps(counts):
        buffer[index] += by_tap[(..., tap, *(slice(None),) * rank)]
    return buffer[windows.inside(size)]


@pytest.mark.parametrize("padding", PADDINGS, ids=str)
@pytest.mark.parametrize(("kernel", "stride"), [(4, 4), (5, 1), (9, 4), (16, 3), (40, 8), (8, 13)])
@pytest.mark.parametrize("size", [(61,), (50, 17)], ids=str)
def test_sums_have_the_same_bits(
    size: tuple[int, ...], kernel: int, stride: int, padding: tuple[int, int]
) -> None:
    kernels = tuple(min(kernel, n // 2) for n in size)
    windows = Windows(kernels, (stride,) * len(size), (padding,) * len(size), (1,) * len(size))
    shape = (2, *windows.kernel, *windows.counts(size))
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x[0, 0], x.flat[-1], x.flat[7] = -0.0, np.nan, np.inf
    found, expected = windows.fold(x, size), element_by_element(windows, x, size)
    assert found.flags.c_contiguous
    assert found.tobytes() == expected.tobytes()


def test_far_fewer_steps_are_asked_for() -> None:
    windows = Windows((400,), (160,), ((0, 0),), (1,))
    assert windows.is_blockwise()
    assert [taps for _, taps in windows.blocks()] == [(160,), (160,), (80,)]
    assert not windows._replace(stride=(1,)).is_blockwise()
    assert not windows._replace(dilation=(2,)).is_blockwise()


UNFOLDED = [
    ((4, 16_000), 1, 400, 160),
    ((1030, 3), 0, 64, 8),
    ((3, 1000), 1, 40, 40),
    ((2, 700), 1, 100, 90),
]


@pytest.mark.parametrize(("shape", "dim", "size", "step"), UNFOLDED)
def test_gradients_of_windows_are_kernels(
    shape: tuple[int, ...], dim: int, size: int, step: int
) -> None:
    def f(x: Any, w: Any) -> Any:
        return (x.unfold(dim, size, step) * w).sum()

    rng = np.random.default_rng(1)
    count = (shape[dim] - size) // step + 1
    weights = tj.tensor(rng.standard_normal((count, 1, size) if dim == 0 else (1, count, size)))
    eager = tj.tensor(rng.standard_normal(shape), requires_grad=True)
    f(eager, weights).backward()
    compiled = tj.compile(f, strict=True)
    for _ in range(3):
        x = eager.detach().requires_grad_()
        compiled(x, weights).backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), eager.grad.numpy())
    assert not host_ops(compiled)


@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.bfloat16, tj.float16])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(8, 4, 2), (16, 16, 0), ((4, 8), (4, 2), (0, 1))]
)
def test_folded_images(kernel: Any, stride: Any, padding: Any, dtype: tj.dtype) -> None:
    def f(x: Any) -> Any:
        windows = F.unfold(x, kernel, padding=padding, stride=stride)
        return F.fold(windows * 2, (32, 32), kernel, padding=padding, stride=stride)

    x = tj.tensor(np.random.default_rng(2).standard_normal((2, 3, 32, 32))).to(dtype)
    compiled = tj.compile(f, strict=True)
    compiled(x)
    assert tj.equal(compiled(x), f(x))
    assert "fold_windows" not in host_ops(compiled)


def test_other_lengths_need_no_other_kernels() -> None:
    f = tj.compile(lambda x: x.unfold(-1, 64, 16).cumsum(0).sum(), strict=True, dynamic=True)
    for length in (500, 516, 517, 640, 4096):
        x = tj.tensor(np.random.default_rng(3).standard_normal(length), requires_grad=True)
        f(x).backward()
        expected = tj.tensor(x.detach().numpy(), requires_grad=True)
        expected.unfold(-1, 64, 16).cumsum(0).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), expected.grad.numpy())
    assert (f.stats.recordings, f.stats.compiled_calls) == (2, 3)
