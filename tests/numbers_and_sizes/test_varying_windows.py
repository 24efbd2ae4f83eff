"""Windows over images of any size: one recording for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.nn import functional as F

WINDOWS: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    {"kernel_size": 4, "stride": 3, "padding": 2, "count_include_pad": False},
    {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False},
]


def run(f: Any, size: int) -> list[Any]:
    x = tj.arange(2.0 * size * (size + 3)).reshape(1, 2, size, size + 3).sin().requires_grad_()
    y = f(x)
    (y * y).sum().backward()
    return [y.detach().numpy(), x.grad.numpy()]


@pytest.mark.parametrize("options", WINDOWS, ids=str)
def test_means_of_windows(options: dict[str, Any]) -> None:
    def pooled(x: Any) -> Any:
        return F.avg_pool2d(x, **options)

    compiled = tj.compile(pooled)
    for size in (8, 9, 10, 11, 12, 13, 15, 14):
        for found, expected in zip(run(compiled, size), run(pooled, size), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    # with ceil_mode the last window may reach over the end, or not
    assert compiled.stats.recordings <= (4 if "ceil_mode" in options else 3), compiled.explain()


def test_the_size_that_is_left_over_behind_strides() -> None:
    """Sizes are polynomials by then: one divides another without a rest."""
    weight = tj.ones(3, 2, 3, 3) / 9

    def lines(x: Any) -> Any:
        y = F.avg_pool2d(F.conv2d(x, weight, stride=2, padding=1), 2)
        return y.repeat(4, 1, 1, 1).view(y.shape[2], y.shape[3], -1) @ tj.ones(12, 2)

    compiled = tj.compile(lines)
    for size in (8, 10, 13, 16, 20):
        for found, expected in zip(run(compiled, size), run(lines, size), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert compiled.stats.recordings == 3, compiled.explain()
