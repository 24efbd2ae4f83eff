"""Convolutions and unfolding against PyTorch: results, first and second gradients, refusals."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from parity_tools import compare, same_error

# PyTorch warns where an even kernel makes it pad in a copy.
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same'")

RNG = np.random.default_rng(3)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape)


SIZES = {1: (7,), 2: (6, 5), 3: (4, 5, 3)}
KERNELS = {1: (3,), 2: (2, 3), 3: (2, 1, 3)}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"stride": 2},
    {"padding": 1},
    {"dilation": 2},
    {"stride": 3, "padding": 2},
    {"stride": 2, "padding": 1, "dilation": 2},
    {"padding": "same"},
    {"padding": "valid"},
    {"padding": "same", "dilation": 2},
]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolution(rank: int, options: dict[str, Any], groups: int) -> None:
    if options.get("dilation") == 2 and rank == 3:
        options = {**options, "dilation": (2, 2, 1)}
    arrays = [normal(2, 4, *SIZES[rank]), normal(6, 4 // groups, *KERNELS[rank]), normal(6)]
    compare(
        lambda _, f, x, w, b: getattr(f, f"conv{rank}d")(x, w, b, groups=groups, **options), arrays
    )


@pytest.mark.parametrize("multiplier", [1, 3])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("rank", [1, 2])
def test_one_channel_per_group(rank: int, options: dict[str, Any], multiplier: int) -> None:
    arrays = [normal(2, 4, *SIZES[rank]), normal(4 * multiplier, 1, *KERNELS[rank])]
    compare(lambda _, f, x, w: getattr(f, f"conv{rank}d")(x, w, groups=4, **options), arrays)


TRANSPOSED: list[dict[str, Any]] = [
    {},
    {"stride": 2},
    {"stride": 2, "padding": 1},
    {"stride": 3, "output_padding": 2},
    {"stride": 2, "padding": 1, "output_padding": 1},
    {"dilation": 2, "output_padding": 1},
    {"stride": 2, "dilation": 3, "padding": 1, "output_padding": 2},
]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("options", TRANSPOSED, ids=str)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposed(rank: int, options: dict[str, Any], groups: int) -> None:
    size = {1: (4,), 2: (3, 4), 3: (2, 3, 2)}[rank]
    arrays = [normal(2, 4, *size), normal(4, 6 // groups, *KERNELS[rank]), normal(6)]
    compare(
        lambda _, f, x, w, b: getattr(f, f"conv_transpose{rank}d")(
            x, w, b, groups=groups, **options
        ),
        arrays,
    )


@pytest.mark.parametrize(
    ("samples", "channels", "out", "size"),
    [(40, 48, 33, (5, 5)), (3, 20, 7, (40, 41)), (1, 1, 2, (200, 300)), (2, 64, 64, (17, 16))],
)
@pytest.mark.parametrize("stride", [1, 2])
def test_sizes_that_are_cut_into_pieces(
    samples: int, channels: int, out: int, size: tuple[int, int], stride: int
) -> None:
    arrays = [normal(samples, channels, *size), normal(out, channels, 3, 3)]
    compare(
        lambda _, f, x, w: f.conv2d(x, w, stride=stride, padding=1),
        arrays,
        second=False,
        tolerance=1e-8,
    )


@pytest.mark.parametrize("size", [(32, 33), (150, 160)])
@pytest.mark.parametrize("stride", [1, 2])
def test_many_groups_of_one_channel(size: tuple[int, int], stride: int) -> None:
    arrays = [normal(9, 24, *size), normal(24, 1, 3, 3)]
    compare(
        lambda _, f, x, w: f.conv2d(x, w, stride=stride, padding=1, groups=24),
        arrays,
        second=False,
        tolerance=1e-8,
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_without_a_batch(rank: int) -> None:
    arrays = [normal(2, *SIZES[rank]), normal(3, 2, *KERNELS[rank]), normal(3)]
    compare(lambda _, f, x, w, b: getattr(f, f"conv{rank}d")(x, w, b), arrays)
    swapped = [arrays[0], np.swapaxes(arrays[1], 0, 1).copy(), arrays[2]]
    compare(lambda _, f, x, w, b: getattr(f, f"conv_transpose{rank}d")(x, w, b), swapped)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.float16])
def test_dtypes(dtype: Any) -> None:
    x, w = (normal(2, 3, 5, 5) * 4).astype(dtype), (normal(4, 3, 3, 3) * 4).astype(dtype)
    tolerance = {np.float32: 1e-4, np.int64: 0.0, np.float16: 2e-3}[dtype]
    compare(lambda _, f, x, w: f.conv2d(x, w), [x, w], gradients=False, tolerance=tolerance)


def test_no_samples() -> None:
    compare(lambda _, f, x, w: f.conv2d(x, w, padding=1), [normal(0, 2, 4, 4), normal(3, 2, 3, 3)])


def test_infinities_and_nan() -> None:
    x = normal(1, 2, 4, 4)
    x[0, 0, 1, 1], x[0, 1, 2, 3] = np.inf, np.nan
    compare(lambda _, f, x, w: f.conv2d(x, w), [x, normal(2, 2, 2, 2)], gradients=False)


BAD: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("conv2d", ((1, 2, 5, 5), (4, 3, 3, 3)), {}),
    ("conv2d", ((5, 5), (4, 2, 3, 3)), {}),
    ("conv2d", ((1, 2, 2, 2), (4, 2, 3, 3)), {}),
    ("conv2d", ((1, 2, 5, 5), (4, 2, 3, 3), (3,)), {}),
    ("conv2d", ((1, 2, 5, 5), (4, 2, 3, 3), (4, 1)), {}),
    ("conv2d", ((1, 2, 5, 5), (4, 2, 3, 3)), {"stride": 0}),
    ("conv2d", ((1, 2, 5, 5), (4, 2, 3, 3)), {"stride": (1, 2, 3)}),
    ("conv2d", ((1, 2, 5, 5), (4, 2, 3, 3)), {"stride": 1.5}),
    ("conv2d", ((1, 2, 5, 5), (4, 2, 3, 3)), {"padding": -1}),
    ("conv2d", ((1, 2, 5, 5), (4, 2, 3, 3)), {"padding": "same", "stride": 2}),
    ("conv2d", ((1, 2, 5, 5), (4, 2, 3, 3)), {"padding": "around"}),
    ("conv2d", ((1, 2, 5, 5), (4, 2, 3, 3)), {"dilation": 0}),
    ("conv2d", ((1, 2, 5, 5), (4, 2, 3, 3)), {"groups": 0}),
    ("conv2d", ((1, 2, 5, 5), (3, 1, 3, 3)), {"groups": 2}),
    ("conv2d", ((1, 2, 5, 5), (4, 2, 3)), {}),
    ("conv1d", ((1, 2, 5, 5), (4, 2, 3)), {}),
    ("conv_transpose2d", ((1, 2, 5, 5), (3, 2, 3, 3)), {}),
    ("conv_transpose2d", ((1, 2, 5, 5), (2, 3, 3, 3)), {"stride": 2, "output_padding": 2}),
    ("conv_transpose2d", ((1, 2, 5, 5), (2, 3, 3, 3)), {"output_padding": -1}),
    ("conv_transpose2d", ((1, 3, 5, 5), (3, 3, 3, 3)), {"groups": 2}),
    ("conv_transpose2d", ((1, 2, 1, 1), (2, 3, 3, 3)), {"padding": 2}),
    ("conv_transpose2d", ((1, 2, 5, 5), (2, 3, 3, 3), (2,)), {}),
    ("unfold", ((1, 2, 2, 2), 3), {}),
    ("unfold", ((1, 2, 5, 5), 3), {"stride": 0}),
    ("fold", ((1, 18, 8), (5, 5), 3), {}),
    ("fold", ((1, 17, 9), (5, 5), 3), {}),
    ("fold", ((9,), (5, 5), 3), {}),
]


@pytest.mark.parametrize(("name", "arguments", "options"), BAD, ids=str)
def test_refusals(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    count = 1 if name.endswith("fold") else len(arguments)

    def call(of: Any, functional: Any) -> Any:
        tensors = [of.zeros(shape) for shape in arguments[:count]]
        return getattr(functional, name)(*tensors, *arguments[count:], **options)

    same_error(call)


def test_refusals_of_dtypes() -> None:
    same_error(lambda t, f: f.conv2d(t.zeros(1, 2, 5, 5).double(), t.zeros(4, 2, 3, 3)))
    same_error(lambda t, f: f.conv2d(t.zeros(1, 2, 5, 5), t.zeros(4, 2, 3, 3), t.zeros(4).double()))
    same_error(lambda t, f: f.conv2d([1], t.zeros(4, 2, 3, 3)))
    same_error(lambda t, f: f.conv2d(t.zeros(1, 2, 5, 5), [1]))


UNFOLDINGS = [
    dict(zip(("dilation", "padding", "stride"), values, strict=True))
    for values in itertools.product((1, (2, 1)), (0, (1, 2)), (1, (2, 3)))
]


@pytest.mark.parametrize("options", UNFOLDINGS, ids=str)
@pytest.mark.parametrize("kernel", [2, (3, 1)])
def test_unfold_and_fold(kernel: Any, options: dict[str, Any]) -> None:
    def there_and_back(_: Any, f: Any, x: Any) -> Any:
        columns = f.unfold(x, kernel, **options)
        return columns, f.fold(columns * columns, (6, 5), kernel, **options)

    compare(there_and_back, [normal(2, 3, 6, 5)])
    compare(there_and_back, [normal(3, 6, 5)])


@pytest.mark.parametrize(
    ("dimension", "size", "step"), [(0, 2, 1), (1, 3, 2), (-1, 5, 1), (2, 2, 3)]
)
def test_windows_along_a_dimension(dimension: int, size: int, step: int) -> None:
    compare(lambda _, f, x: x.unfold(dimension, size, step), [normal(3, 4, 5)])
