"""Pooling against PyTorch: results, positions, first and second gradients, NaN, infinities, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import compare, same_error

RNG = np.random.default_rng(5)
NAN, INF = np.nan, np.inf


def distinct(*shape: int) -> Any:
    """Values far enough apart that no rounding changes their order."""
    return RNG.permutation(int(np.prod(shape))).reshape(shape) * 0.125 - 3.0


SIZES = {1: (9,), 2: (8, 7), 3: (5, 6, 4)}
WINDOWS: list[tuple[Any, ...]] = [
    (2,),
    (3,),
    (3, 2),
    (2, 3),
    (3, 1, 1),
    (3, 2, 1),
    (2, 2, 1),
]


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_maxima(rank: int, window: tuple[Any, ...], ceil_mode: bool, dilation: int) -> None:
    if rank == 3 and dilation == 2 and window[0] == 3:
        window = (2, *window[1:])
    options = {"ceil_mode": ceil_mode, "dilation": dilation}
    x = distinct(2, 3, *SIZES[rank])
    compare(lambda _, f, x: getattr(f, f"max_pool{rank}d")(x, *window, **options), [x])
    options["return_indices"] = True
    compare(lambda _, f, x: getattr(f, f"max_pool{rank}d")(x, *window, **options), [x])


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_means(rank: int, window: tuple[Any, ...], ceil_mode: bool, include: bool) -> None:
    options: dict[str, Any] = {"ceil_mode": ceil_mode, "count_include_pad": include}
    x = distinct(2, 3, *SIZES[rank])
    compare(lambda _, f, x: getattr(f, f"avg_pool{rank}d")(x, *window, **options), [x])
    if rank > 1:
        options["divisor_override"] = 5
        compare(lambda _, f, x: getattr(f, f"avg_pool{rank}d")(x, *window, **options), [x])


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_a_number_for_each_dimension(kind: str) -> None:
    options = {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0)}
    compare(lambda _, f, x: getattr(f, f"{kind}_pool2d")(x, **options), [distinct(2, 3, 6, 7)])
    compare(lambda _, f, x: getattr(f, f"{kind}_pool2d")(x, **options), [distinct(3, 6, 7)])


def test_ties_go_to_the_first() -> None:
    x = np.round(RNG.standard_normal((2, 3, 8, 8)))
    for options in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 1, "padding": 1}):
        compare(lambda _, f, x, o=options: f.max_pool2d(x, **o, return_indices=True), [x])
        compare(lambda _, f, x, o=options: f.max_pool2d(x, **o), [x])


SPECIAL = np.array(
    [
        [NAN, 1.0, NAN, 2.0, -INF, -INF],
        [2.0, 3.0, 4.0, NAN, -INF, -INF],
        [NAN, 5.0, INF, INF, -INF, -INF],
        [-INF, -INF, -INF, -INF, -INF, -INF],
        [-INF, -INF, -INF, 0.0, -0.0, 0.0],
    ]
)


@pytest.mark.parametrize(
    "window", [(2,), (2, 1), (3, 1, 1), (3, 2, 1), (2, 2, 1), (2, 1, 1, 2)], ids=str
)
def test_special_values(window: tuple[int, ...]) -> None:
    x = SPECIAL[None, None]
    compare(lambda _, f, x: f.max_pool2d(x, *window, return_indices=True), [x], second=False)
    compare(lambda _, f, x: f.max_pool2d(x, *window), [x], second=False)
    compare(lambda _, f, x: f.max_pool1d(x[0, 0], *window, return_indices=True), [x], second=False)
    if len(window) < 4:
        compare(lambda _, f, x: f.avg_pool2d(x, *window), [x], second=False)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int32, np.uint8])
def test_dtypes(dtype: Any) -> None:
    x = (distinct(2, 3, 6, 7) * 8 + 30).astype(dtype)
    tolerance = {np.float16: 1e-3, np.float32: 1e-6}.get(dtype, 0.0)
    compare(lambda _, f, x: f.max_pool2d(x, 3, 2, 1, return_indices=True), [x], gradients=False)
    if dtype not in (np.uint8, np.int32):
        compare(lambda _, f, x: f.avg_pool2d(x, 3, 2, 1), [x], gradients=False, tolerance=tolerance)


def test_no_samples() -> None:
    compare(lambda _, f, x: f.max_pool2d(x, 2), [distinct(0, 3, 4, 4)])
    compare(lambda _, f, x: f.avg_pool2d(x, 2), [distinct(0, 3, 4, 4)])


def test_large_windows() -> None:
    x = distinct(1, 2, 40, 41)
    compare(lambda _, f, x: f.max_pool2d(x, 17, 3, 8, return_indices=True), [x])
    compare(lambda _, f, x: f.avg_pool2d(x, 17, 3, 8), [x])


ADAPTIVE = {
    1: (1, 2, 3, 4, 9, 11),
    2: (1, 4, (2, 3), (5, 7), (None, 2), (8, 7), (9, 10)),
    3: (1, 2, (2, 3, 4), (3, None, 1)),
}


@pytest.mark.parametrize(
    ("rank", "size"), [(r, s) for r, sizes in ADAPTIVE.items() for s in sizes], ids=str
)
def test_to_a_size(rank: int, size: Any) -> None:
    x = distinct(2, 3, *SIZES[rank])
    compare(lambda _, f, x: getattr(f, f"adaptive_avg_pool{rank}d")(x, size), [x])
    compare(lambda _, f, x: getattr(f, f"adaptive_max_pool{rank}d")(x, size), [x])
    compare(
        lambda _, f, x: getattr(f, f"adaptive_max_pool{rank}d")(x, size, return_indices=True), [x]
    )
    compare(lambda _, f, x: getattr(f, f"adaptive_avg_pool{rank}d")(x[0], size), [x])


def test_to_a_size_with_special_values() -> None:
    for size in ((2, 2), (3, 4), (5, 6), (1, 1)):
        compare(
            lambda _, f, x, s=size: f.adaptive_max_pool2d(x, s, return_indices=True),
            [SPECIAL[None]],
            second=False,
        )
        compare(lambda _, f, x, s=size: f.adaptive_avg_pool2d(x, s), [SPECIAL[None]], second=False)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("norm", [1, 2, 3.0])
def test_norms(rank: int, norm: float) -> None:
    x = np.abs(distinct(2, 3, *SIZES[rank])) + 0.1
    compare(lambda _, f, x: getattr(f, f"lp_pool{rank}d")(x, norm, 2), [x])
    compare(lambda _, f, x: getattr(f, f"lp_pool{rank}d")(x, norm, 3, 2, True), [x])


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}])
def test_unpooling(rank: int, options: dict[str, int]) -> None:
    def there_and_back(_: Any, f: Any, x: Any) -> Any:
        pooled, where = getattr(f, f"max_pool{rank}d")(x, 2, **options, return_indices=True)
        return getattr(f, f"max_unpool{rank}d")(
            pooled, where, 2, **options, output_size=list(x.shape)
        )

    compare(there_and_back, [distinct(2, 3, *SIZES[rank])])


BAD: list[tuple[str, tuple[int, ...], tuple[Any, ...], dict[str, Any]]] = [
    ("max_pool2d", (1, 2, 5, 5), (3,), {"padding": 2}),
    ("max_pool2d", (5, 5), (3,), {}),
    ("max_pool2d", (1, 2, 2, 2), (3,), {}),
    ("max_pool2d", (1, 2, 5, 5), (0,), {}),
    ("max_pool2d", (1, 2, 5, 5), (2,), {"stride": 0}),
    ("max_pool2d", (1, 2, 5, 5), (2,), {"dilation": 0}),
    ("max_pool2d", (1, 2, 5, 5), ((2, 2, 2),), {}),
    ("max_pool2d", (1, 0, 5, 5), (2,), {}),
    ("max_pool2d", (1, 2, 0, 5), (2,), {}),
    ("max_pool1d", (1, 2, 2), (3,), {}),
    ("max_pool1d", (2,), (3,), {}),
    ("max_pool1d", (1, 2, 5), (2,), {"padding": 2}),
    ("max_pool1d", (1, 2, 5), (2,), {"padding": -1}),
    ("max_pool3d", (2, 5, 5), (2,), {}),
    ("avg_pool2d", (1, 2, 5, 5), (3,), {"padding": 2}),
    ("avg_pool2d", (1, 2, 2, 2), (3,), {}),
    ("avg_pool2d", (1, 2, 5, 5), (0,), {}),
    ("avg_pool2d", (1, 2, 5, 5), (2,), {"stride": 0}),
    ("avg_pool2d", (1, 2, 5, 5), (2,), {"divisor_override": 0}),
    ("avg_pool1d", (1, 2, 2), (3,), {}),
    ("adaptive_avg_pool2d", (1, 2, 5, 5), ((-1, 2),), {}),
    ("adaptive_avg_pool2d", (1, 2, 5, 5), ((1, 2, 3),), {}),
    ("adaptive_avg_pool2d", (1, 2, 0, 5), (2,), {}),
    ("adaptive_avg_pool2d", (5, 5), (2,), {}),
    ("adaptive_avg_pool1d", (1, 2, 5), (None,), {}),
    ("adaptive_max_pool1d", (2,), (2,), {}),
]


@pytest.mark.parametrize(("name", "shape", "arguments", "options"), BAD, ids=str)
def test_refusals(
    name: str, shape: tuple[int, ...], arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    same_error(lambda t, f: getattr(f, name)(t.zeros(shape), *arguments, **options))


def test_refusals_of_dtypes() -> None:
    same_error(lambda t, f: f.max_pool2d(t.zeros(1, 2, 4, 4).bool(), 2))
    same_error(lambda t, f: f.adaptive_avg_pool2d(t.zeros(1, 2, 4, 4).long(), 2))
    same_error(lambda t, f: f.adaptive_max_pool2d(t.zeros(1, 2, 4, 4).long(), 2))


def test_empty_result() -> None:
    compare(
        lambda _, f, x: f.adaptive_avg_pool2d(x, (0, 2)), [distinct(1, 2, 5, 5)], gradients=False
    )


@pytest.mark.parametrize(
    "window", [(2, 1), (1, 2), (3, 1), (1, 1), (4, 1, 1), (1, 3, 1), (2, 1, 2), (1, 1, 2)]
)
def test_positions_in_flat_windows(window: tuple[int, ...]) -> None:
    rank = len(window)
    x = distinct(2, 2, *(4, 6, 5)[:rank])
    size = [(n // k) if k > 1 else None for n, k in zip((4, 6, 5), window, strict=False)]

    def pooled(t: Any, f: Any, x: Any) -> Any:
        fixed = getattr(f, f"max_pool{rank}d")(x, window, return_indices=True)
        fitted = getattr(f, f"adaptive_max_pool{rank}d")(x, size, True)
        return (*fixed, *fitted)

    compare(pooled, [x])
