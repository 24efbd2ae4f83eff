"""Interpolation, sampling grids, bags, margin losses and the like against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import compare, same_error, torch

import tracejit as tj

# PyTorch warns about grids of one element.
pytestmark = pytest.mark.filterwarnings("ignore:Since version 1.3.0")

RNG = np.random.default_rng(11)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape)


SIZES = {3: (7,), 4: (5, 6), 5: (3, 4, 5)}
TARGETS: list[dict[str, Any]] = [
    {"scale_factor": 2},
    {"scale_factor": 3.0},
    {"scale_factor": 0.5},
    {"scale_factor": 1.7},
    {"scale_factor": 1.7, "recompute_scale_factor": True},
    {"size": 4},
    {"size": 9},
    {"size": 1},
]


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("ndim", [3, 4, 5])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "area"])
def test_nearest_and_area(mode: str, ndim: int, target: dict[str, Any]) -> None:
    compare(lambda _, f, x: f.interpolate(x, mode=mode, **target), [normal(2, 3, *SIZES[ndim])])


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize(
    ("mode", "ndim"), [("linear", 3), ("bilinear", 4), ("bicubic", 4), ("trilinear", 5)]
)
def test_between_elements(mode: str, ndim: int, align: bool, target: dict[str, Any]) -> None:
    x = normal(2, 3, *SIZES[ndim])
    compare(lambda _, f, x: f.interpolate(x, mode=mode, align_corners=align, **target), [x])


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("factor", [1.1, 1.4, 2.05, 2.3, 0.95])
def test_nearest_by_scales_that_are_no_ratios(mode: str, factor: float) -> None:
    for size, factors in (((3,), factor), ((5, 3), (2.3, factor)), ((3, 4, 2), (factor, 1.1, 2.3))):
        x = np.arange(float(np.prod(size))).reshape(1, 1, *size)
        compare(
            lambda _, f, x, s=factors: f.interpolate(x, scale_factor=s, mode=mode),
            [x],
            gradients=mode == "nearest-exact",  # PyTorch's are not those of its results
        )


@pytest.mark.parametrize("size", [(0, 2), (2, 0)])
def test_averages_over_no_area(size: tuple[int, int]) -> None:
    call = lambda _, f, x: f.interpolate(x, size, mode="area")  # noqa: E731
    compare(call, [normal(1, 2, 3, 4)], gradients=False)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_interpolation_in_single_precision(mode: str) -> None:
    for size in ((13, 11), (64, 3)):
        compare(
            lambda _, f, x, s=size: f.interpolate(x, s, mode=mode),
            [normal(1, 2, 31, 17).astype(np.float32)],
            second=False,
            tolerance=1e-5,
        )


def test_refusals_of_interpolation() -> None:
    same_error(lambda t, f: f.interpolate(t.zeros(1, 2, 5), scale_factor=2, mode="bilinear"))
    same_error(lambda t, f: f.interpolate(t.zeros(1, 2, 5, 5)))
    same_error(lambda t, f: f.interpolate(t.zeros(1, 2, 5, 5), size=3, scale_factor=2))
    same_error(lambda t, f: f.interpolate(t.zeros(1, 2, 5, 5), size=3, align_corners=True))
    same_error(lambda t, f: f.interpolate(t.zeros(1, 2, 5, 5), size=(3, 3, 3)))
    same_error(lambda t, f: f.interpolate(t.zeros(1, 2, 5, 5), size=0))
    same_error(lambda t, f: f.interpolate(t.zeros(1, 2, 5, 5), size=3, mode="magic"))
    same_error(lambda t, f: f.interpolate(t.zeros(2, 5), size=3))


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((1, 1, 3, 3), {"mode": "magic"}),
        ((1, 1, 3, 3), {"mode": "magic", "size": 2}),
        ((1, 1, 3, 3), {"mode": "linear", "size": (2, 2)}),
        ((1, 1, 3, 3), {"mode": "linear", "size": (2,)}),
        ((1, 1, 3, 3), {"scale_factor": (2, 2, 2)}),
        ((1, 1, 3), {"mode": "bicubic", "size": 2}),
        ((1, 1, 3), {"mode": "trilinear", "size": 2}),
        ((3, 3), {"mode": "nearest", "size": 2}),
        ((1, 1, 3, 3), {"size": (2, 2.5)}),
        ((1, 1, 3, 3), {"size": (2, 0)}),
    ],
    ids=str,
)
def test_words_of_refusals_of_interpolation(shape: Any, options: dict[str, Any]) -> None:
    with pytest.raises(Exception) as theirs:
        torch.nn.functional.interpolate(torch.zeros(shape), **options)
    with pytest.raises(theirs.type) as ours:
        tj.nn.functional.interpolate(tj.zeros(shape), **options)
    expected = str(theirs.value).replace("<class 'int'>, ", "")
    assert str(ours.value).splitlines()[0] == expected


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
def test_filters_that_widen(mode: str, target: dict[str, Any]) -> None:
    x = normal(2, 3, *SIZES[4])
    for align in (False,) if mode == "lanczos" else (False, True):
        compare(
            lambda _, f, x, a=align: f.interpolate(
                x, mode=mode, align_corners=a, antialias=True, **target
            ),
            [x],
            second=False,
        )


@pytest.mark.parametrize("size", [(5, 7), (16, 9), (31, 40), (1, 2)], ids=str)
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
def test_images_of_bytes(mode: str, size: tuple[int, int]) -> None:
    x = RNG.integers(0, 256, (2, 3, 16, 16)).astype(np.uint8)
    for antialias in (True, False) if mode != "lanczos" else (True,):
        for align in (False, True) if mode != "lanczos" else (False,):
            ours, theirs = (
                t.nn.functional.interpolate(
                    t.tensor(x), size, mode=mode, antialias=antialias, align_corners=align
                )
                for t in (tj, torch)
            )
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_refusals_of_filters() -> None:
    same_error(lambda t, f: f.interpolate(t.zeros(1, 2, 5), size=3, mode="linear", antialias=True))
    same_error(lambda t, f: f.interpolate(t.zeros(1, 2, 5, 5), size=3, mode="lanczos"))
    options = {"mode": "lanczos", "antialias": True, "align_corners": True}
    same_error(lambda t, f: f.interpolate(t.zeros(1, 2, 5, 5), size=3, **options))


def test_pixels_and_channels() -> None:
    compare(lambda _, f, x: f.pixel_shuffle(x, 2), [normal(2, 8, 3, 4)])
    compare(lambda _, f, x: f.pixel_shuffle(x, 3), [normal(18, 2, 4)])
    compare(lambda _, f, x: f.pixel_unshuffle(x, 2), [normal(2, 3, 4, 6)])
    compare(lambda _, f, x: f.channel_shuffle(x, 3), [normal(2, 6, 4, 5)])
    same_error(lambda t, f: f.pixel_shuffle(t.zeros(1, 3, 2, 2), 2))
    same_error(lambda t, f: f.pixel_shuffle(t.zeros(2, 2), 2))
    same_error(lambda t, f: f.pixel_unshuffle(t.zeros(1, 3, 3, 2), 2))
    same_error(lambda t, f: f.channel_shuffle(t.zeros(1, 3, 3, 2), 2))


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(5, 6), (3, 4, 5)], ids=str)
def test_grid_sample(size: tuple[int, ...], mode: str, padding: str, align: bool) -> None:
    rank = len(size)
    grid = RNG.uniform(-1.6, 1.6, (2, *(4,) * rank, rank))
    compare(
        lambda _, f, x, g: f.grid_sample(x, g, mode, padding, align),
        [normal(2, 3, *size), grid],
        second=False,
    )


@pytest.mark.parametrize("align", [False, True])
def test_affine_grid(align: bool) -> None:
    compare(lambda _, f, a: f.affine_grid(a, (2, 3, 4, 5), align), [normal(2, 2, 3)])
    compare(lambda _, f, a: f.affine_grid(a, (2, 3, 4, 1, 5), align), [normal(2, 3, 4)])


@pytest.mark.parametrize("size", [1, 3, 4])
def test_local_response_norm(size: int) -> None:
    compare(lambda _, f, x: f.local_response_norm(x, size, 0.3, 0.6, 1.5), [normal(2, 7, 3, 2)])
    compare(lambda _, f, x: f.local_response_norm(x, size), [normal(2, 7, 3)])


BAGS = np.array([1, 4, 2, 2, 0, 3, 4])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding_idx", [None, 2, -1])
def test_embedding_bag(mode: str, padding_idx: int | None) -> None:
    options = {"mode": mode, "padding_idx": padding_idx}
    weight = normal(5, 3)
    compare(
        lambda _, f, w, i, o: f.embedding_bag(i, w, o, **options),
        [weight, BAGS, np.array([0, 3, 3, 6])],
        second=False,
    )
    compare(
        lambda _, f, w, i, o: f.embedding_bag(i, w, o, include_last_offset=True, **options),
        [weight, BAGS, np.array([0, 3, 3, 7])],
        second=False,
    )
    compare(
        lambda _, f, w, i: f.embedding_bag(i, w, **options),
        [weight, BAGS[:6].reshape(2, 3)],
        second=False,
    )


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_embedding_bag_with_gradients_by_frequency(mode: str) -> None:
    def bags(t: Any, f: Any, w: Any, i: Any) -> Any:
        if t is tj:
            return f.embedding_bag(i, w, mode=mode, scale_grad_by_freq=True)
        rows = f.embedding(i, w, scale_grad_by_freq=True)  # its bags take the counts of other rows
        return getattr(rows, mode)(1)

    compare(bags, [normal(5, 3), BAGS[:6].reshape(2, 3)], second=False)
    for option in ("scale_grad_by_freq", "sparse"):
        chosen = {"mode": "max", option: True}
        same_error(
            lambda t, f, chosen=chosen: f.embedding_bag(t.tensor([[0]]), t.zeros(3, 2), **chosen)
        )


def test_weighted_embedding_bag() -> None:
    compare(
        lambda _, f, w, s, i, o: f.embedding_bag(i, w, o, mode="sum", per_sample_weights=s),
        [normal(5, 3), normal(7), BAGS, np.array([0, 3, 3, 6])],
        second=False,  # PyTorch has none
    )


def test_refusals_of_bags() -> None:
    def ids(t: Any) -> Any:
        return t.tensor([1, 2])

    same_error(lambda t, f: f.embedding_bag(ids(t), t.zeros(3, 2)))
    same_error(lambda t, f: f.embedding_bag(ids(t), t.zeros(3, 2), t.tensor([1])))
    same_error(lambda t, f: f.embedding_bag(ids(t), t.zeros(3, 2), t.tensor([0]), mode="most"))
    same_error(lambda t, f: f.embedding_bag(ids(t)[None], t.zeros(3, 2), t.tensor([0])))
    same_error(
        lambda t, f: f.embedding_bag(
            ids(t), t.zeros(3, 2), t.tensor([0]), per_sample_weights=t.zeros(2)
        )
    )


X, Y = normal(4, 5), normal(4, 5)
CLASSES = np.array([1, 0, 4, 2])
LABELS = np.array([[3, 0, -1, 1, 1], [-1, 0, 0, 0, 0], [1, 1, 2, -1, 0], [0, 1, 2, 3, 4]])
SIGNS = np.where(Y > 0, 1, -1)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_margin_losses(reduction: str) -> None:
    how = {"reduction": reduction}
    compare(lambda _, f, x, y: f.soft_margin_loss(x, y, **how), [X, SIGNS])
    for options in ({}, {"p": 2}, {"margin": 0.3}):
        compare(
            lambda _, f, x, y, o=options: f.multi_margin_loss(x, y, **o, **how),
            [X, CLASSES],
            second=False,
        )
    compare(
        lambda t, f, x, y: f.multi_margin_loss(x, y, weight=t.ones(5).double() * 2, **how),
        [X, CLASSES],
        second=False,
    )
    compare(lambda _, f, x, y: f.multi_margin_loss(x, y, **how), [X[0], CLASSES[0]], second=False)
    compare(lambda _, f, x, y: f.multilabel_margin_loss(x, y, **how), [X, LABELS], second=False)
    compare(
        lambda _, f, x, y: f.multilabel_margin_loss(x, y, **how), [X[0], LABELS[0]], second=False
    )
    compare(
        lambda _, f, x, y: f.multilabel_soft_margin_loss(x, y, **how), [X, (Y > 0).astype(float)]
    )
    compare(
        lambda t, f, x, y: f.multilabel_soft_margin_loss(x, y, weight=t.arange(5).double(), **how),
        [X, (Y > 0).astype(float)],
    )
    for swap in (False, True):
        compare(
            lambda _, f, a, b, c, s=swap: f.triplet_margin_with_distance_loss(
                a, b, c, swap=s, margin=2.0, **how
            ),
            [X, Y, normal(4, 5)],
        )


def test_refusals_of_margin_losses() -> None:
    same_error(lambda t, f: f.multi_margin_loss(t.zeros(2, 3), t.zeros(3).long()))
    same_error(lambda t, f: f.multi_margin_loss(t.zeros(2, 3), t.zeros(2).long(), p=3))
    same_error(lambda t, f: f.multilabel_margin_loss(t.zeros(2, 3), t.zeros(2, 4).long()))
    same_error(lambda t, f: f.pdist(t.zeros(2, 3, 4)))


@pytest.mark.parametrize("p", [1.0, 2.0, 3.5])
def test_distances_of_pairs(p: float) -> None:
    compare(lambda _, f, x: f.pdist(x, p), [X], second=False)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_ctc(reduction: str, zero_infinity: bool) -> None:
    scores = normal(9, 4, 6)
    targets = np.array([[1, 2, 3, 4], [2, 2, 5, 1], [3, 1, 1, 1], [1, 1, 1, 1]])
    options = {"reduction": reduction, "zero_infinity": zero_infinity}
    inputs, lengths = [9, 8, 7, 9], [4, 3, 1, 0]
    for b in (0, 5):
        compare(
            lambda t, f, x, y, b=b: f.ctc_loss(
                x.log_softmax(2), y, t.tensor(inputs), t.tensor(lengths), blank=b, **options
            ),
            [scores, targets - (b == 5)],
            second=False,
        )
    flat = np.concatenate([row[:n] for row, n in zip(targets, lengths, strict=True)])
    compare(
        lambda _, f, x, y: f.ctc_loss(
            x.log_softmax(2), y, tuple(inputs), tuple(lengths), **options
        ),
        [scores, flat],
        second=False,
    )
    compare(
        lambda _, f, x, y: f.ctc_loss(x.log_softmax(1), y, (9,), (4,), **options),
        [scores[:, 0], targets[0]],
        second=False,
    )


def test_impossible_alignments() -> None:
    scores = normal(2, 1, 4)

    def loss(t: Any, f: Any, x: Any, y: Any) -> Any:
        return f.ctc_loss(x.log_softmax(2), y, (2,), (2,), zero_infinity=True)

    compare(loss, [scores, np.array([[1, 1]])], second=False)
    compare(
        lambda _, f, x, y: f.ctc_loss(x.log_softmax(2), y, (2,), (2,)),
        [scores, np.array([[1, 1]])],
        gradients=False,
    )


def test_random_slopes() -> None:
    compare(lambda _, f, x: f.rrelu(x, 0.2, 0.4), [X])
    compare(lambda _, f, x: f.relu_(x * 1), [X])
    compare(lambda _, f, x: f.leaky_relu_(x * 1, 0.2), [X])
    assert torch.nn.functional.rrelu(torch.zeros(3), training=True).shape == (3,)
