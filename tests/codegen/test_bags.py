"""Bags of embedding rows: which kernels they take, and what padding and empty bags mean."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj

F = tj.nn.functional


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_of_equal_length_are_summed_as_they_are_read(mode: str) -> None:
    compiled = tj.compile(lambda w, i: F.embedding_bag(i, w, mode=mode), strict=True)
    weight, places = tj.randn(50, 64), tj.randint(0, 50, (30, 7))
    for _ in range(2):
        found = compiled(weight, places)
    rows = weight.numpy()[places.numpy()]
    np.testing.assert_allclose(found.numpy(), getattr(rows, mode)(1), rtol=1e-5, atol=1e-5)
    names = [k.name for k in compiled.kernels]
    assert not any(name in ("k_take", "k_put") for name in names)
    assert any("take" in name and "sum" in name for name in names)


def test_bags_of_equal_length_are_those_of_offsets() -> None:
    weight, places = tj.randn(9, 4), tj.randint(0, 9, (5, 3))
    scores, offsets = tj.rand(5, 3), tj.arange(0, 15, 3)
    for options in (
        {"mode": "sum"},
        {"mode": "mean"},
        {"mode": "mean", "padding_idx": 2},
        {"mode": "max"},
    ):
        at_once = F.embedding_bag(places, weight, **options)
        apart = F.embedding_bag(places.reshape(-1), weight, offsets, **options)
        np.testing.assert_allclose(at_once.numpy(), apart.numpy(), rtol=1e-6, atol=1e-6)
    at_once = F.embedding_bag(places, weight, mode="sum", per_sample_weights=scores)
    apart = F.embedding_bag(
        places.reshape(-1), weight, offsets, mode="sum", per_sample_weights=scores.reshape(-1)
    )
    np.testing.assert_allclose(at_once.numpy(), apart.numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0)])
def test_bags_with_nothing_in_them(shape: tuple[int, int]) -> None:
    places = tj.zeros(shape, dtype=tj.int64)
    assert F.embedding_bag(places, tj.ones(4, 2)).tolist() == [[0.0, 0.0]] * shape[0]


def test_positions_out_of_range_are_refused() -> None:
    with pytest.raises(IndexError):
        F.embedding_bag(tj.tensor([[0, 4]]), tj.ones(4, 2))
