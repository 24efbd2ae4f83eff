"""Places in sorted rows, searched by a kernel where there are many: those that PyTorch and NumPy find."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import host_ops, loops
from tracejit.ops.orders import places_among
from tracejit.runtime.eager import functions
from tracejit.runtime.machine_code.kernels import COUNTS

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


def layouts(x: tj.Tensor) -> list[tj.Tensor]:
    """The same numbers in memory that is walked in other steps."""
    apart = tj.zeros(*x.shape[:-1], 2 * x.shape[-1], dtype=x.dtype)[..., ::2]
    apart.copy_(x)
    turned = x.permute(*range(x.ndim)[::-1]).contiguous().permute(*range(x.ndim)[::-1])
    return [x, apart, turned]


@pytest.mark.sampled(48)
@pytest.mark.filterwarnings("error::tracejit.errors.CompileWarning")
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8"])
def test_compiled_code_looks_where_pytorch_looks(dtype: str, ordered: bool, right: bool) -> None:
    rng = np.random.default_rng(1)
    for sequence, wanted in [*SHAPES, ((4,), ())]:
        s, x = rng.integers(0, 9, sequence), rng.integers(0, 11, wanted)
        sequences = tj.from_numpy(np.sort(s, -1) if ordered else s).to(getattr(tj, dtype))
        values = tj.from_numpy(np.asarray(x)).to(getattr(tj, dtype))
        if dtype.startswith("float") and values.ndim:
            values.view(-1)[:3] = tj.tensor([np.nan, np.inf, -np.inf])[: values.numel()]
        if dtype.startswith("float") and not ordered:
            sequences.view(-1)[-1] = np.nan
        rows = sequences.view(-1, sequence[-1]).tolist()
        lines = values.view(len(rows), -1).tolist()
        want = [
            [as_in_pytorch(r, v, right) for v in line] for r, line in zip(rows, lines, strict=True)
        ]
        compiled = tj.compile(lambda s, x: tj.searchsorted(s, x, right=right), strict=True)
        for a, b in itertools.product(layouts(sequences), layouts(values) if x.ndim else [values]):
            for found in (tj.searchsorted(a, b, right=right), compiled(a, b), compiled(a, b)):
                assert found.view(len(rows), -1).tolist() == want
            assert not host_ops(compiled)


def test_a_search_in_rounds_is_part_of_a_native_loop() -> None:
    """Particles drawn by their weights, as filters do."""

    def f(x: tj.Tensor, noise: tj.Tensor) -> tj.Tensor:
        n = x.shape[0]
        for i in range(30):
            x = 0.9 * x + noise[i]
            w = (-0.5 * x * x).exp()
            place = tj.searchsorted((w / w.sum()).cumsum(0), (tj.arange(n) + 0.5) / n)
            x = x[place.clamp(max=n - 1)]
        return x

    x, noise = tj.randn(200), tj.randn(30, 200)
    compiled = tj.compile(f, strict=True)
    want = f(x, noise)
    for _ in range(3):
        found = compiled(x, noise)
    assert not host_ops(compiled)
    assert [len(found) for found in loops(compiled)] == [1]
    assert (found == want).float().mean() > 0.9  # roundings decide about places


def test_new_lengths_need_no_new_kernels() -> None:
    compiled = tj.compile(lambda s, x: tj.searchsorted(s, x), strict=True, dynamic=True)
    for length in (50, 61, 300, 5000):
        s, x = tj.randn(length).sort()[0], tj.randn(3 * length)
        for _ in range(3):
            found = compiled(s, x)
        assert found.tolist() == np.searchsorted(s.numpy(), x.numpy()).tolist()
        if length == 61:
            before = COUNTS.compiled + COUNTS.loaded
    assert COUNTS.compiled + COUNTS.loaded == before
