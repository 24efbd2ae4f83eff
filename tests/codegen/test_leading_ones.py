"""An extent of one in front of all others keeps nothing from being shared among threads."""

from __future__ import annotations

import numpy as np

import tracejit as tj


def loops(function, *given):
    compiled = tj.compile(function, strict=True)
    for _ in range(2):
        found = compiled(*given)
    np.testing.assert_array_equal(found.numpy(), function(*given).numpy())
    return [f.extent for k in compiled.kernels for f in k.code.functions]


def test_parts_of_a_stack_are_written_by_all_threads(rng) -> None:
    x = tj.tensor(rng.standard_normal((600, 50)).astype(np.float32))
    assert loops(lambda a, b: tj.stack([a, b]), x, x + 1) == [30000]


def test_a_row_meets_one_that_is_repeated(rng) -> None:
    x = tj.tensor(rng.standard_normal((1, 40000)).astype(np.float32))
    y = tj.tensor(rng.standard_normal(40000).astype(np.float32))
    assert loops(lambda a, b: a[:, 1:] * b[1:].expand(1, -1), x, y) == [39999]
    assert loops(lambda a: a.expand(3, -1)[:1] + 1, x) == [40000]
