"""Histograms, quantiles without NaN, mantissas, copies of views, windows and low ranks, beside PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import array, close, compare, same_error, torch

import tracejit as tj

RNG = np.random.default_rng(11)
X = RNG.standard_normal((4, 6))
HOLES = np.where(RNG.random((4, 6)) < 0.3, np.nan, X)
HOLES[2] = np.nan
POINTS = RNG.integers(-2, 3, (20, 2)).astype(np.float64)

COUNTS = [
    "t.histogram(x, 5)",
    "t.histogram(x, 3, range=(-1.0, 1.0), density=True)",
    "t.histogram(x, 4, weight=x.abs())",
    "t.histogram(x, t.tensor([-1.0, 0.0, 0.25, 2.0], dtype=x.dtype), density=True)",
    "t.histogram(x[:0], 2)",
    "t.histogram(x * 0, 3)",
    "x.histogram(2)",
    "t.histogramdd(p, [4, 2])[0]",
    "t.histogramdd(p, 3, density=True)[0]",
    "t.histogramdd(p, [2, 3], range=[-2.0, 2.0, -1.0, 1.0], weight=p[:, 0].abs())[0]",
    "t.histogramdd(p, [3, 2])[1]",
    "t.frexp(x * 1e-3)",
    "t.frexp(t.tensor([0.0, -0.0, 1.0, 0.99, float('inf'), 5e-324, 1e308], dtype=x.dtype)).mantissa",
    "t.nonzero_static((x > 0).long(), size=7)",
    "t.view_as_real_copy(t.view_as_complex_copy(x.reshape(4, 3, 2)))",
    "t.nonzero_static((x > 0).long(), size=50, fill_value=9)",
]


@pytest.mark.parametrize("call", COUNTS)
@pytest.mark.parametrize("compiled", [False, True])
def test_what_has_no_gradient(call: str, compiled: bool) -> None:
    def run(t: Any, x: Any, p: Any) -> Any:
        return eval(call, {"t": t, "x": x, "p": p})

    ours = tj.compile(lambda x, p: run(tj, x, p)) if compiled else lambda x, p: run(tj, x, p)
    for _ in range(3):
        found = ours(tj.tensor(X), tj.tensor(POINTS))
    expected = run(torch, torch.tensor(X), torch.tensor(POINTS))
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True):
        close(a, b, 1e-12, call)


SMOOTH = [
    "t.nanquantile(h, 0.3)",
    "t.nanquantile(h, t.tensor([0.0, 0.25, 1.0], dtype=h.dtype), dim=1)",
    "t.nanquantile(h, t.tensor([0.1, 0.9], dtype=h.dtype), dim=0, keepdim=True)",
    "t.nanquantile(h, 0.4, dim=1, interpolation='nearest')",
    "t.nanquantile(h, 0.4, dim=0, interpolation='midpoint')",
    "t.frexp(x).mantissa",
    "x.index_reduce(0, t.tensor([1, 0, 1]), x[:3], 'prod')",
    "x.index_reduce(1, t.tensor([1, 1]), x[:, :2] * 2, 'mean', include_self=False)",
    "(x * 1).index_reduce_(1, t.tensor([1, 5]), x[:, :2] * 2, 'amax')",
    "t.diagonal_copy(x) + t.select_copy(x, 1, 2)",
    "t.unbind_copy(x)[1] * t.squeeze_copy(x[:1])",
    "t.split_copy(x, 4, 1)[1]",
    "t.slice_copy(x, 1, 1, -1, 2)",
    "t.unsafe_chunk(x, 3, 1)[2]",
    "t.unsafe_split_with_sizes(x, [1, 5], 1)[0]",
    "x.cdouble().real",
]


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("call", SMOOTH)
def test_with_gradients(call: str) -> None:
    compare(lambda t, f, x, h: eval(call, {"t": t, "x": x, "h": h}), [X, HOLES], second=False)


def test_products_of_others_where_some_are_zero() -> None:
    index = np.array([0, 0, 1, 1, 2, 2, 3])
    values = np.array([2.0, 0.0, 0.0, 0.0, 3.0, 5.0, 0.0])

    def combine(t: Any, f: Any, x: Any, at: Any, v: Any) -> Any:
        return x.scatter_reduce(0, at, v, "prod")

    compare(combine, [np.array([2.0, 1.0, 0.0, 4.0]), index, values], second=False)


def test_written_through_strides() -> None:
    def write(t: Any) -> Any:
        return t.as_strided_scatter(t.zeros(3, 3), t.ones(2, 2), (2, 2), (1, 2), 1)

    close(write(tj), write(torch))
    found = tj.as_strided_scatter(tj.zeros(1), tj.tensor(3.0), (), (), 0)
    assert found.tolist() == [3.0]


WINDOWS = {
    "bartlett": {},
    "blackman": {},
    "cosine": {},
    "exponential": {"tau": 2.0},
    "gaussian": {"std": 0.7},
    "general_cosine": {"a": [0.5, 0.3, 0.2]},
    "general_hamming": {"alpha": 0.7},
    "hamming": {},
    "hann": {},
    "kaiser": {"beta": 5.0},
    "nuttall": {},
}


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("sym", [True, False])
def test_windows(name: str, sym: bool) -> None:
    for count in (0, 1, 2, 7, 10):
        ours, theirs = (
            getattr(t.signal.windows, name)(count, sym=sym, dtype=t.float64, **WINDOWS[name])
            for t in (tj, torch)
        )
        close(ours, theirs, 1e-12)


def test_low_rank() -> None:
    low = (X[:, :2] @ X[:2]) * np.ones((3, 1, 1))
    for given in (low, low.swapaxes(1, 2)):
        x = tj.tensor(given)
        found = tj.svd_lowrank(x, q=3)
        rebuilt = found.U @ tj.diag_embed(found.S) @ found.V.mT
        np.testing.assert_allclose(array(rebuilt), given, atol=1e-9)
    centred = tj.pca_lowrank(tj.tensor(low[0]), q=2)
    expected = torch.pca_lowrank(torch.tensor(low[0]), q=2)
    close(centred[1], expected[1], 1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda t, f: t.histogram(t.ones(3, dtype=t.int64), 2),
        lambda t, f: t.histogram(t.ones(3), 0),
        lambda t, f: t.histogram(t.ones(3), 2, weight=t.ones(2)),
        lambda t, f: t.histogram(t.ones(3), 2, range=(1.0, 0.0)),
        lambda t, f: t.histogramdd(t.ones(3), [2]),
        lambda t, f: t.histogramdd(t.ones(3, 2), [2]),
        lambda t, f: t.nanquantile(t.ones(3), 2.0),
        lambda t, f: t.nonzero_static(t.ones(3), size=-1),
        lambda t, f: t.ones(3).index_reduce(0, t.tensor([0]), t.ones(1), "sum"),
        lambda t, f: t.pca_lowrank(t.ones(3, 2), q=4),
        lambda t, f: t.signal.windows.hann(-1),
        lambda t, f: t.signal.windows.kaiser(3, beta=-1.0),
        lambda t, f: t.signal.windows.exponential(3, center=1.0),
        lambda t, f: t.as_strided_scatter(t.ones(3), t.ones(2), (1,), (1,)),
    ],
)
def test_errors(call: Any) -> None:
    same_error(call)
