"""Orders of arrays: those made by sorting whole numbers are NumPy's stable ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.ops.distinct import distinct_part
from tracejit.ops.orders import PIECE, SHORT, first_in_order, place_in_order, stable_order

DTYPES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "?")
SHAPES = (
    (0,),
    (1,),
    (3, 0),
    (0, 40),
    (SHORT - 1,),
    (SHORT,),
    (3, 50),
    (2, 3, 40),
    (5, 9 * PIECE + 7),
)


def _values(shape: tuple[int, ...], dtype: str, few: bool, seed: int) -> np.ndarray:
    """Random elements, all kinds of ties and special numbers among them."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        found = rng.integers(info.min, info.max, shape, kind, endpoint=True)
        return found // 50 if few else found
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    found = rng.integers(-3, 4, shape) * 0.5 if few else rng.standard_normal(shape) * 1e4
    with np.errstate(over="ignore"):
        found = found.astype(kind)
    special = [np.inf, -np.inf, 0.0, -0.0, np.finfo(kind).tiny]
    return np.where(rng.random(shape) < 0.2, rng.choice(special, shape).astype(kind), found)


def _expected(x: np.ndarray, descending: bool) -> np.ndarray:
    if not descending:
        return np.argsort(x, axis=-1, kind="stable")
    order = np.argsort(np.flip(x, -1), axis=-1, kind="stable")
    return x.shape[-1] - 1 - np.flip(order, -1)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_orders_are_the_stable_ones(dtype: str, descending: bool) -> None:
    for seed, shape in enumerate(SHAPES):
        for few in (False, True):
            x = _values(shape, dtype, few, seed)
            found = stable_order(x, descending)
            assert found.dtype == np.int64
            np.testing.assert_array_equal(found, _expected(x, descending))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_first_positions_begin_the_order(dtype: str, descending: bool) -> None:
    for seed, shape in enumerate(SHAPES):
        for few in (False, True):
            x = _values(shape, dtype, few, seed)
            for count in {min(count, shape[-1]) for count in (0, 1, 2, 9, 30, 10**6)}:
                found = first_in_order(x, count, descending)
                assert found.dtype == np.int64
                np.testing.assert_array_equal(found, _expected(x, descending)[..., :count])


@pytest.mark.parametrize("dtype", DTYPES)
def test_places_in_order_are_those_of_the_whole_order(dtype: str) -> None:
    for seed, shape in enumerate(SHAPES):
        for few in (False, True):
            x = _values(shape, dtype, few, seed)
            for place in {0, shape[-1] // 3, shape[-1] - 1} if shape[-1] else ():
                found = place_in_order(x, place)
                assert found.dtype == np.int64
                expected = _expected(x, False)[..., place : place + 1]
                np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("place", [0, 5 * PIECE, 9 * PIECE + 3])
def test_nan_counts_as_the_largest(place: int, descending: bool) -> None:
    x = _values((4, 9 * PIECE + 7), "f4", True, 1)
    x[2, place] = np.nan
    x[2, 70:73] = -np.float32(np.nan)
    np.testing.assert_array_equal(stable_order(x, descending), _expected(x, descending))
    found = first_in_order(x, 2, descending)
    np.testing.assert_array_equal(found, _expected(x, descending)[..., :2])
    for at in (3, x.shape[-1] - 5, x.shape[-1] - 2, x.shape[-1] - 1):
        np.testing.assert_array_equal(place_in_order(x, at), _expected(x, False)[..., at : at + 1])


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize("span", [3, 1 << 40, 1 << 58, 1 << 59, 1 << 62])
def test_long_integers_near_and_far(span: int, dtype: Any, descending: bool) -> None:
    rng = np.random.default_rng(span)
    lowest = np.iinfo(dtype).min
    x = (rng.integers(0, span, (5, 24)).astype(dtype) + dtype(lowest)).astype(dtype)
    x[:, 0], x[:, 1] = lowest, lowest + span
    x[:, 7:9] = x[:, 3:4]
    keys = [[int(v) for v in row] for row in x]
    wanted = [sorted(range(24), key=lambda i: -k[i] if descending else k[i]) for k in keys]
    assert stable_order(x, descending).tolist() == wanted


def test_rows_are_sorted_on_several_threads() -> None:
    x = np.random.default_rng(0).integers(-50, 50, (64, 4096))
    before = tj.get_num_threads()
    try:
        found = []
        for threads in (1, 3):
            tj.set_num_threads(threads)
            rows = tj.from_numpy(x)
            found.append(
                [rows.argsort(1, stable=True), rows.topk(3, 1).indices, rows.kthvalue(5, 1).indices]
            )
    finally:
        tj.set_num_threads(before)
    assert found[0][0].equal(tj.from_numpy(x.argsort(1, kind="stable")))
    assert all(a.equal(b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("alike", [0, 1, 3, 100])
def test_long_numbers_that_differ_in_their_last_bits(alike: int, descending: bool) -> None:
    rng = np.random.default_rng(alike)
    x = rng.standard_normal((5, 200))
    x[:, 30 : 30 + alike] = 1 + rng.integers(0, 4, (5, alike)) * np.finfo(x.dtype).eps
    for rows in (x, x.view(np.int64)):
        np.testing.assert_array_equal(stable_order(rows, descending), _expected(rows, descending))


@pytest.mark.parametrize("part", ["values", "inverse", "counts"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u4"])
def test_distinct_elements_are_those_of_numpy(dtype: str, part: str) -> None:
    rng = np.random.default_rng(0)
    kind = np.dtype(dtype)
    places = {"values": 0, "inverse": 1, "counts": 2}
    for high in (3, 1000, 1 << 30):
        x = (rng.integers(0, high, (20, 40)) - (high // 2 if kind.kind != "u" else 0)).astype(kind)
        if kind.kind == "f":
            x[3:5, 7:9], x[6, :5], x[7, :5] = np.nan, 0.0, -0.0
        wanted = np.unique(x, return_inverse=True, return_counts=True, equal_nan=False)[
            places[part]
        ]
        found = distinct_part(x, part)
        if found is None:
            assert part == "values"
            continue
        assert found.dtype == wanted.dtype
        if part == "inverse":  # NumPy's does not keep the order of NaN
            missing = np.isnan(x)
            assert found[missing].tolist() == sorted(wanted[missing].tolist())
            found, wanted = found[~missing], wanted[~missing]
        np.testing.assert_array_equal(found, wanted.reshape(found.shape))
    assert distinct_part(np.arange(3), part) is None


def test_the_ends_of_long_integers_are_distinct() -> None:
    info = np.iinfo(np.int64)
    x = np.array([info.max, info.min, info.max, 0] * 40)
    found = [distinct_part(x, part) for part in ("inverse", "counts")]
    assert found[0][:4].tolist() == [2, 0, 2, 1]
    assert found[1].tolist() == [40, 40, 80]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("count", [3, 64, 301])
def test_what_is_among_others_does_not_hang_on_nan_beside_it(count: int, share: float) -> None:
    """Many are searched in order, and a search looks past NaN."""
    rng = np.random.default_rng(count)
    wanted = rng.integers(0, 50, count).astype("f4")
    wanted[rng.random(count) < share] = np.nan
    values = np.concatenate([np.arange(60, dtype="f4"), np.float32([np.nan, np.inf, -np.inf])])
    expected = (values[:, None] == wanted).any(1)
    for function in (tj.isin, tj.compile(tj.isin)):
        for _ in range(2):
            found = function(tj.from_numpy(values), tj.from_numpy(wanted))
            assert np.array_equal(found.numpy(), expected)
