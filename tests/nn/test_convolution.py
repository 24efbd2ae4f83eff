"""Convolution and pooling against loops over positions, for random geometries, cut into pieces or not."""

from __future__ import annotations

import itertools
import platform
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.ops import convolution as cv
from tracejit.ops import convolve, depthwise
from tracejit.ops import pooling as pl
from tracejit.ops.windows import Windows, volume

GEOMETRIES = range(60)
#: Added to hide the sign of zeros where the processor's maximum does not keep the first of equal operands.
ZERO = -0.0 if platform.machine() == "x86_64" else 0.0


class Geometry:
    """Random sizes and options, drawn until windows fit."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.draw(seed % 3 == 0)
        while min(self.counts) < 1:
            self.draw(seed % 3 == 0)

    def draw(self, side_by_side: bool) -> None:
        rng = self.rng
        rank = int(rng.integers(1, 4))

        def some(*values: int) -> tuple[int, ...]:
            return tuple(int(v) for v in rng.choice(values, rank))

        self.groups = int(rng.choice([1, 1, 2, 3]))
        self.channels = int(rng.choice([1, 2, 3, 33]))
        self.out = int(rng.choice([1, 2, 3]))
        self.samples = int(rng.choice([1, 2, 5]))
        self.size = some(5, 6, 7)
        pairs = tuple(zip(some(-1, 0, 1, 2), some(-1, 0, 1, 2), strict=True))
        stride = (1,) * rank if side_by_side else some(1, 2, 3)
        self.windows = Windows(some(1, 2, 3), stride, pairs, some(1, 1, 2))
        self.counts = self.windows.counts(self.size)

    def normal(self, *shape: int) -> Any:
        return self.rng.standard_normal(shape)

    @property
    def attributes(self) -> dict[str, Any]:
        given = self.windows._asdict()
        del given["kernel"]
        return {**given, "groups": self.groups}


def picked(x: Any, windows: Windows, position: tuple[int, ...], padding: float) -> Any:
    """The elements of one window, (*leading, *kernel), one index at a time."""
    rank = len(windows.kernel)
    lead = x.shape[: x.ndim - rank]
    found = np.full((*lead, *windows.kernel), padding, x.dtype)
    for tap in np.ndindex(*windows.kernel):
        place = tuple(
            p * s + t * d - a
            for p, s, t, d, (a, _) in zip(
                position, windows.stride, tap, windows.dilation, windows.padding, strict=True
            )
        )
        if all(0 <= i < n for i, n in zip(place, x.shape[-rank:], strict=True)):
            found[(..., *tap)] = x[(..., *place)]
    return found


def by_loops(x: Any, weight: Any, windows: Windows, groups: int, counts: tuple[int, ...]) -> Any:
    out = np.zeros((x.shape[0], weight.shape[0], *counts))
    per_group, channels = weight.shape[0] // groups, weight.shape[1]
    for position in np.ndindex(*counts):
        patch = picked(x, windows, position, 0.0)
        for o in range(weight.shape[0]):
            first = o // per_group * channels
            terms = patch[:, first : first + channels] * weight[o]
            out[(slice(None), o, *position)] = terms.reshape(x.shape[0], -1).sum(1)
    return out


@pytest.mark.sampled(2)
@pytest.mark.parametrize("piece", [1 << 20, 2000])
@pytest.mark.parametrize("seed", GEOMETRIES)
def test_three_products(seed: int, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (convolve, depthwise):
        monkeypatch.setattr(module, "PIECE", piece)
    g = Geometry(seed)
    x = g.normal(g.samples, g.groups * g.channels, *g.size)
    w = g.normal(g.groups * g.out, g.channels, *g.windows.kernel)
    y = g.normal(g.samples, g.groups * g.out, *g.counts)
    expected = by_loops(x, w, g.windows, g.groups, g.counts)
    found = cv.convolution(tj.tensor(x), tj.tensor(w), **g.attributes)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-10)
    # The other two are its transposes: every inner product says so.
    product = (y * expected).sum()
    back = cv.convolution_input(tj.tensor(y), tj.tensor(w), size=g.size, **g.attributes)
    np.testing.assert_allclose((back.numpy() * x).sum(), product, rtol=1e-9, atol=1e-9)
    slope = cv.convolution_weight(
        tj.tensor(x), tj.tensor(y), kernel=g.windows.kernel, **g.attributes
    )
    np.testing.assert_allclose((slope.numpy() * w).sum(), product, rtol=1e-9, atol=1e-9)
    another = g.normal(*x.shape)
    direct = (y * by_loops(another, w, g.windows, g.groups, g.counts)).sum()
    np.testing.assert_allclose((back.numpy() * another).sum(), direct, rtol=1e-9, atol=1e-9)


def first_largest(window: Any) -> int:
    """A scan: the first of equal elements, the last NaN; a window of lowest values starts at ``start``."""
    best = 0
    for i, value in enumerate(window):
        if value > window[best] or value != value:
            best = i
    return best


@pytest.mark.parametrize("seed", GEOMETRIES)
def test_pooling(seed: int) -> None:
    g = Geometry(seed)
    x = np.round(g.normal(2, *g.size))
    x[g.rng.random(x.shape) < 0.05] = np.nan
    options = g.windows._asdict()
    t = tj.tensor(x)
    numbers = pl.argmax_windows(t, **options)
    values, chosen = pl.max_windows(t, **options), pl.pick_windows(t, numbers, **options)
    total = pl.sum_windows(t, **options)
    for position in np.ndindex(*g.counts):
        low = picked(x, g.windows, position, -np.inf).reshape(2, -1)
        zero = picked(x, g.windows, position, 0.0).reshape(2, -1)
        for row in range(2):
            at = (row, *position)
            np.testing.assert_allclose(total.numpy()[at], zero[row].sum(), atol=1e-12)
            if low[row].max() == -np.inf:  # padding only
                continue
            best = first_largest(low[row])
            assert int(numbers.numpy()[at]) == best
            np.testing.assert_equal(values.numpy()[at] + ZERO, low[row][best] + ZERO)
            np.testing.assert_equal(chosen.numpy()[at], low[row][best])


def test_padding_never_wins() -> None:
    x = tj.full((1, 1, 3, 3), float("-inf"))
    _, where = tj.max_pool2d(x, 3, 1, 1, return_indices=True)
    assert where.tolist() == [[[[0, 0, 1], [0, 0, 1], [3, 3, 4]]]]
    low = tj.full((1, 1, 3), -128, dtype=tj.int8)
    values, where = tj.max_pool1d(low, 2, 1, 1, return_indices=True)
    assert values.tolist() == [[[-128] * 4]]
    assert where.tolist() == [[[0, 0, 1, 2]]]


def test_gradient_goes_to_one_element() -> None:
    x = tj.zeros(1, 1, 4, requires_grad=True)
    tj.max_pool1d(x, 2).sum().backward()
    assert x.grad.tolist() == [[[1.0, 0.0, 1.0, 0.0]]]


def test_infinities_stay_where_they_are() -> None:
    x = tj.tensor([[[np.inf, 1.0, 2.0, 3.0, np.nan]]], requires_grad=True)
    means = tj.avg_pool1d(x, 2, 1)
    np.testing.assert_equal(means.tolist(), [[[np.inf, 1.5, 2.5, np.nan]]])
    uneven = tj.adaptive_avg_pool1d(x, 3)
    np.testing.assert_equal(uneven.tolist(), [[[np.inf, 2.0, np.nan]]])


@pytest.mark.parametrize(
    "options", [{}, {"stride": 2}, {"padding": 1}, {"dilation": 2}, {"ceil_mode": True}]
)
def test_positions_lead_to_the_values(options: dict[str, Any]) -> None:
    x = tj.tensor(np.random.default_rng(0).permutation(2 * 3 * 7 * 8).reshape(2, 3, 7, 8))
    values, where = tj.max_pool2d(x, 3, **{"stride": 1, **options}, return_indices=True)
    flat = x.flatten(2).gather(2, where.flatten(2))
    assert flat.reshape(values.shape).tolist() == values.tolist()


def test_transposed_convolution_covers_what_its_padding_cuts() -> None:
    for stride, padding, extra in itertools.product((1, 2, 3), (0, 1), (0, 1)):
        if extra >= stride:
            continue
        x, w = tj.ones(1, 1, 4), tj.ones(1, 1, 3)
        out = tj.conv_transpose1d(x, w, stride=stride, padding=padding, output_padding=extra)
        assert out.shape[2] == 3 * stride - 2 * padding + 3 + extra
        full = np.zeros(3 * stride + 3 + extra)
        for i in range(4):
            full[i * stride : i * stride + 3] += 1
        assert out[0, 0].tolist() == full[padding : len(full) - padding].tolist()


def test_windows_of_volumes_fold_back() -> None:
    rng = np.random.default_rng(1)
    options = {
        "kernel": (2, 1, 3),
        "stride": (1, 2, 1),
        "padding": ((1, 0), (0, 0), (1, 1)),
        "dilation": (1, 1, 1),
    }
    x = rng.standard_normal((2, 3, 4, 5))
    laid = cv.unfold_windows(tj.tensor(x), **options)
    y = rng.standard_normal(tuple(laid.shape))
    back = cv.fold_windows(tj.tensor(y), size=(3, 4, 5), **options)
    np.testing.assert_allclose((back.numpy() * x).sum(), (laid.numpy() * y).sum())
    assert laid.spec.numel == 2 * volume(options["kernel"]) * volume(laid.shape[4:])
