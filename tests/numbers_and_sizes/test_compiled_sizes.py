"""A kernel serves every size: new batch sizes are recorded again and compile nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn

SIZES = (1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 32, 64, 100, 128, 255, 256, 512, 1000, 2048, 4096)


def classifier() -> Any:
    """A training loss with a layer norm, an activation, linear layers and cross entropy."""
    tj.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 12), nn.LayerNorm(12), nn.GELU(), nn.Linear(12, 5))
    loss = nn.CrossEntropyLoss()
    return lambda x, y: loss(model(x), y)


@pytest.mark.parametrize("sizes", [SIZES, SIZES[::-1]], ids=["growing", "shrinking"])
def test_batch_sizes_share_all_kernels_forward_and_backward(sizes: tuple[int, ...]) -> None:
    objective = classifier()
    compiled = tj.compile(objective, strict=True, dynamic=False)
    rng = np.random.default_rng(0)
    known: set[Any] = set()
    for size in sizes:
        x = tj.tensor(rng.standard_normal((size, 6)).astype(np.float32))
        y = tj.tensor(rng.integers(0, 5, size))
        for _ in range(2):
            result = compiled(x, y)
            result.backward()
        np.testing.assert_allclose(result.item(), objective(x, y).item(), rtol=1e-5)
        keys = {key for kernel in compiled.kernels for key in kernel.keys}
        known = known or keys
        assert keys == known, f"size {size} needed other kernels"
    assert compiled.stats.recordings == len(sizes)


def test_softmax_layer_norm_and_cross_entropy_are_one_kernel_each() -> None:
    import tracejit.nn.functional as F

    x = tj.randn(9, 7)
    y = tj.arange(9) % 7
    weight, bias = tj.ones(7), tj.zeros(7)
    for function in (
        lambda: F.softmax(x, -1),
        lambda: F.layer_norm(x, (7,), weight, bias),
        lambda: F.cross_entropy(x, y, ignore_index=-1),
    ):
        compiled = tj.compile(function, strict=True)
        for _ in range(2):
            result = compiled()
        np.testing.assert_allclose(result.numpy(), function().numpy(), rtol=1e-5, atol=1e-6)
        assert len(compiled.kernels) == 1, [k.name for k in compiled.kernels]
