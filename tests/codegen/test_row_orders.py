"""The order of many short rows by a network of comparisons: stable, with NaN last, as for each row by itself."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit.codegen.products.vector_machine import vector_machine
from tracejit.ops import orders
from tracejit.ops.orders import by_network
from tracejit.ops.positions import taken_along

needs_vectors = pytest.mark.skipif(vector_machine() is None, reason="no vectors with masks")
KINDS = ["float32", "float64", "int32", "int64", "int16", "int8", "uint8", "bool"]
SHAPES = [(1100, 2), (700, 3), (333, 7), (400, 8), (65, 33), (40, 64), (17, 129), (4, 1024)]


def rows(kind: str, shape: tuple[int, int]) -> np.ndarray:
    """Rows with many equal elements, zeros of both signs, and what is no number."""
    draw = np.random.default_rng(shape[1])
    x = draw.standard_normal(shape) * draw.choice([1.0, 1e3, 1e-3], shape)
    if not kind.startswith("float"):
        return (x * 10).astype(np.int64).astype(kind)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.5, -1.5, np.finfo(kind).tiny / 4]
    return np.where(draw.random(shape) < 0.4, draw.choice(special, shape), x).astype(kind)


def order_of(x: np.ndarray, descending: bool) -> np.ndarray:
    """Row by row, by comparing Python's numbers."""
    found = []
    for row in x.tolist():
        keys = [(v != v, 0 if v != v else v) for v in row]
        # Reversed, too, equal elements keep their order.
        found.append(sorted(range(len(row)), key=keys.__getitem__, reverse=descending))
    return np.array(found)


@pytest.mark.sampled(2)
@needs_vectors
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_order_is_stable(kind: str, shape: tuple[int, int], descending: bool) -> None:
    x = rows(kind, shape)
    wanted = order_of(x, descending)
    n = shape[1]
    for first, count in ((0, n), (0, 1), (n // 2, 1), (n // 3, n - n // 3)):
        found = by_network(x, first, count, descending)
        if n >= orders._LONG_ROW and count == 1 and first == 0:
            assert found is None  # extremes of pieces tell sooner
            continue
        assert found is not None
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, wanted[:, first : first + count])


@needs_vectors
def test_extreme_integers() -> None:
    for kind in (np.int32, np.int64):
        limits = np.iinfo(kind)
        x = np.array([[0, limits.max, limits.min, -1, limits.min]] * 500, kind)
        found = by_network(x, 0, 5, False)
        assert found is not None
        assert found[123].tolist() == [2, 4, 3, 0, 1]


@needs_vectors
def test_other_rows_are_left_alone() -> None:
    assert by_network(np.ones((1000, 1)), 0, 1, False) is None
    assert by_network(np.ones((100, 3)), 0, 3, False) is None  # few
    assert by_network(np.ones((8, 1025)), 0, 3, False) is None
    assert by_network(np.ones((3, 1000)), 0, 3, False) is None
    assert by_network(np.ones((1000, 8), np.uint32), 0, 3, False) is None
    assert by_network(np.ones((1000, 8), ">f4"), 0, 3, False) is None
    assert by_network(np.ones((1000, 8)), 0, 0, False) is None


@pytest.mark.sampled(6)
@needs_vectors
@pytest.mark.parametrize("kind", ["float32", "float64", "int64"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_functions_with_it_and_without(
    kind: str, dim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = tj.tensor(rows(kind, (300, 42)).reshape(100, 6, 21))

    def found(x: tj.Tensor) -> list[tj.Tensor]:
        return [
            *tj.sort(x, dim, descending=True),
            tj.argsort(x, dim),
            *tj.topk(x, 3, dim),
            *tj.topk(x, 2, dim, largest=False),
            *tj.median(x, dim),
            *tj.kthvalue(x, 4, dim, keepdim=True),
        ]

    compiled = tj.compile(found)
    results = [found(x), compiled(x), compiled(x)]
    monkeypatch.setattr(orders, "_network", [])
    wanted = found(x)
    for result in results:
        for a, b in zip(result, wanted, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


@needs_vectors
def test_the_same_for_any_number_of_threads() -> None:
    x, before, found = rows("float32", (3001, 30)), tj.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            tj.set_num_threads(threads)
            found.append(by_network(x, 0, 30, False))
    finally:
        tj.set_num_threads(before)
    assert found[0] is not None
    assert all(np.array_equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize(
    ("shape", "index", "dim"),
    [
        ((300, 70), (300, 70), 1),
        ((300, 70), (400, 60), 0),
        ((5, 400, 30), (5, 3, 30), 1),
        ((5, 400, 30), (4, 400, 20), 2),
        ((20000,), (30000,), 0),
        ((3, 20000), (2, 18000), 0),
    ],
)
def test_elements_by_their_places(shape, index, dim) -> None:
    draw = np.random.default_rng(0)
    x = draw.standard_normal(shape)
    for kind in (np.int64, np.int32):
        places = draw.integers(0, shape[dim], index).astype(kind)
        grid = list(np.ogrid[tuple(np.s_[:n] for n in index)])
        grid[dim] = places
        np.testing.assert_array_equal(taken_along(x, places, dim), x[tuple(grid)])
        turned = np.asfortranarray(x)
        np.testing.assert_array_equal(taken_along(turned, places, dim), x[tuple(grid)])


def test_gradients_of_sorted_rows() -> None:
    x = tj.tensor(np.random.default_rng(0).standard_normal((100, 40)))
    weights = tj.arange(40, dtype=tj.float64)

    def loss(x: tj.Tensor) -> tj.Tensor:
        return (tj.sort(x)[0] * weights).sum()

    for function in (loss, tj.compile(loss)):
        leaf = x.clone().requires_grad_()
        function(leaf).backward()
        assert leaf.grad is not None
        ranks = np.argsort(np.argsort(x.numpy(), axis=1), axis=1)
        np.testing.assert_array_equal(leaf.grad.numpy(), ranks)
