"""Places in sorted rows, searched by a kernel where there are many: those that PyTorch and NumPy find."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.ops.orders import places_among
from tracejit.runtime.eager import functions

FEW = functions.SEARCHED // 8


def as_in_pytorch(row: np.ndarray, value: Any, right: bool) -> int:
    """Step by step the elements that PyTorch looks at, sorted or not."""
    low, high = 0, len(row)
    while low < high:
        middle = low + ((high - low) >> 1)
        if not (row[middle] > value if right else row[middle] >= value):
            low = middle + 1
        else:
            high = middle
    return low


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel for every search."""
    monkeypatch.setattr(functions, "SEARCHED", 1)


SHAPES = [
    ((5,), (7,)),
    ((1,), (2, 3)),
    ((6,), (1100,)),
    ((3, 5), (3, 4)),
    ((2, 3, 8), (2, 3, 1)),
    ((300, 3), (300, 2)),
]


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
def test_kernels_look_where_pytorch_looks(dtype: str, ordered: bool, right: bool) -> None:
    rng = np.random.default_rng(0)
    for sequence, wanted in SHAPES:
        s = rng.integers(0, 9, sequence).astype(dtype)
        x = rng.integers(-1, 11, wanted).astype(dtype)
        if ordered:
            s.sort(-1)
        if dtype[0] == "f":
            x.reshape(-1)[:3] = [np.nan, np.inf, -np.inf][: x.size]
        found = places_among(s, x, right)
        assert found.dtype == np.int64
        rows = itertools.repeat(s) if s.ndim == 1 else s.reshape(-1, s.shape[-1])
        lines = x.reshape(-1, x.shape[-1]) if s.ndim > 1 else x.reshape(1, -1)
        want = [
            [as_in_pytorch(r, v, right) for v in line] for r, line in zip(rows, lines, strict=False)
        ]
        assert found.reshape(lines.shape).tolist() == want
        if ordered and s.ndim == 1:
            assert np.array_equal(found, np.searchsorted(s, x, "right" if right else "left"))


@pytest.mark.parametrize("threads", [1, 3])
def test_many_values_at_once(threads: int) -> None:
    before = tj.get_num_threads()
    try:
        tj.set_num_threads(threads)
        s = np.sort(np.random.default_rng(1).standard_normal(5000).astype("f4"))
        x = np.random.default_rng(2).standard_normal((3, functions.SEARCHED)).astype("f4")
        compiled = tj.compile(lambda s, x: tj.bucketize(x, s, right=True), strict=True)
        for _ in range(3):
            found = compiled(tj.from_numpy(s), tj.from_numpy(x))
            assert np.array_equal(found.numpy(), np.searchsorted(s, x, "right"))
        rows = np.sort(np.random.default_rng(3).standard_normal((FEW, 63)), -1)
        y = np.random.default_rng(4).standard_normal((FEW, 128))
        found = tj.searchsorted(tj.from_numpy(rows), tj.from_numpy(y)).numpy()
        assert found[-1].tolist() == np.searchsorted(rows[-1], y[-1]).tolist()
        assert np.array_equal(found, (rows[:, None, :] < y[:, :, None]).sum(-1))
    finally:
        tj.set_num_threads(before)


@pytest.mark.parametrize("wanted", [(0,), (2, 0)])
def test_nothing_to_search(wanted: tuple[int, ...]) -> None:
    assert places_among(np.zeros(3), np.zeros(wanted), True).shape == wanted
    assert places_among(np.zeros((2, 0)), np.ones((2, 3)), True).tolist() == [[0] * 3] * 2
