"""Eager functions by NumPy's loops: the values, the limits, and zeros of both signs."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tracejit as tj
from ir_graphs import SPECIAL
from tracejit.ops.extremes import zero_of

EDGES = [*SPECIAL, 1e-42, -1e-42, 88.0, -87.0, -104.0, 1e30]


@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.float16, tj.bfloat16])
@pytest.mark.parametrize("size", [0, 1, 13, 5000, 1 << 15])
def test_sigmoids(dtype: tj.dtype, size: int) -> None:
    numbers = (EDGES + list(np.linspace(-30.0, 30.0, 1 << 15)))[:size]
    x = tj.tensor(numbers, dtype=dtype)
    with np.errstate(over="ignore"):
        exact = 1 / (1 + np.exp(-x.to(tj.float64).numpy()))
    found = x.sigmoid().to(tj.float64).numpy()
    normal = ~(exact < float(tj.finfo(dtype).tiny))  # below, zero is as good
    np.testing.assert_allclose(
        found[normal], exact[normal], rtol=4 * float(tj.finfo(dtype).eps), atol=0
    )
    assert (found[~normal] <= float(tj.finfo(dtype).tiny)).all()
    assert (found[~normal] >= 0).all()


def test_a_sigmoid_of_one_number() -> None:
    assert float(tj.tensor(0.0).sigmoid()) == 0.5
    assert float(tj.tensor(-1000.0).sigmoid()) == 0.0


@pytest.mark.parametrize("size", [3, 4000, 1 << 16, (1 << 16) + 3])
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.float16, tj.int32])
def test_positive_parts_keep_the_sign_of_zero(dtype: tj.dtype, size: int) -> None:
    x = tj.arange(size).sub(size // 2).to(dtype)
    x[: min(size, 2)] = tj.tensor([-0.0, 0.0])[: min(size, 2)].to(dtype)
    for y in (x, x.reshape(1, -1), x[::2]):
        found = y.relu().numpy()
        kept = np.where(y.numpy() < 0, 0, y.numpy())
        np.testing.assert_array_equal(found, kept)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(kept))
    if dtype.is_floating_point:
        assert bool(tj.full((size,), math.nan, dtype=dtype).relu().isnan().all())


def test_zeros_to_compare_with_are_shared_and_stay_zeros() -> None:
    x = np.ones((20, 30), np.float32)
    zeros = zero_of(x)
    assert zeros.shape == x.shape
    assert not zeros.any()
    assert np.shares_memory(zeros, zero_of(x[0]))
    with pytest.raises(ValueError, match="read-only"):
        zeros[0] = 1
    assert zero_of(x.T).ndim == 0
