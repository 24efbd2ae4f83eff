"""Distances between rows, against NumPy: by differences where rows are few, by a product of matrices elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj

ALWAYS, NEVER = "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"


def reference(a, b, p):
    return np.linalg.norm(a[..., :, None, :] - b[..., None, :, :], p, -1)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("rows", [(3, 4), (30, 4), (4, 30)])
def test_as_numpy_eager_and_compiled(rng, rows, p):
    a, b = rng.standard_normal((2, rows[0], 5)), rng.standard_normal((rows[1], 5))
    b[0] = a[0, 0]
    compiled = tj.compile(lambda x, y: tj.cdist(x, y, p), strict=True)
    for call in (lambda x, y: tj.cdist(x, y, p), compiled, compiled):
        x, y = tj.tensor(a, requires_grad=True), tj.tensor(b, requires_grad=True)
        found = call(x, y)
        np.testing.assert_allclose(found.detach().numpy(), reference(a, b, p), atol=1e-7)
        found.square().sum().backward()
        assert x.grad.isfinite().all()
        assert y.grad.isfinite().all()


def test_gradients_of_the_two_ways_are_the_same(rng):
    a, b, weights = (tj.tensor(rng.standard_normal((6, 6))) for _ in range(3))
    found = []
    for mode in (ALWAYS, NEVER):
        x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
        (tj.cdist(x, y, compute_mode=mode) * weights).sum().backward()
        found.append((x.grad, y.grad))
    for one, other in zip(*found, strict=True):
        assert tj.allclose(one, other)


def test_many_rows_take_one_product_and_no_array_of_differences(rng):
    nearest = tj.compile(lambda x, y: tj.cdist(x, y).argmin(1), strict=True)
    x, y = tj.tensor(rng.standard_normal((200, 8))), tj.tensor(rng.standard_normal((30, 8)))
    for _ in range(2):
        found = nearest(x, y)
    assert (found.numpy() == reference(x.numpy(), y.numpy(), 2).argmin(1)).all()
    (graph,) = nearest.graphs
    assert "matmul" in str(graph)
    assert "[200, 30, 8]" not in str(graph)


def test_special_values_and_sizes():
    x = tj.zeros(30, 2)
    x[0, 0], x[1, 0] = float("nan"), float("inf")
    found = tj.cdist(x, tj.zeros(3, 2))
    assert found[0].isnan().all()
    assert (found[2:] == 0).all()
    assert tj.equal(tj.cdist(tj.ones(2, 0), tj.ones(3, 0), float("inf")), tj.zeros(2, 3))
    assert tj.cdist(tj.ones(0, 4), tj.ones(30, 4)).shape == (0, 30)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((tj.ones(2), tj.ones(3, 2)), RuntimeError, "at least 2D tensors, X1 got: 1D"),
        ((tj.ones(2, 2), tj.ones(2)), RuntimeError, "at least 2D tensors, X2 got: 1D"),
        ((tj.ones(2, 3), tj.ones(2, 2)), RuntimeError, "same number of columns. X1: 3 X2: 2"),
        ((tj.ones(2, 2).long(), tj.ones(2, 2)), RuntimeError, "floating-point dtypes, X1"),
        ((tj.ones(2, 2), tj.ones(2, 2), -1.0), RuntimeError, "non-negative p"),
        ((tj.ones(2, 2), tj.ones(2, 2), 2.0, "mm"), ValueError, "mm is not a valid value"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        tj.cdist(*arguments)
