"""Large batches of small triangular systems are solved row by row, all at once, as one by one."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj


def _systems(count, rows, columns, dtype):
    rng = np.random.default_rng(rows)
    a = rng.standard_normal((count, rows, rows)) + 3 * np.eye(rows)
    b = rng.standard_normal((count, rows, columns))
    if dtype == "complex128":
        a, b = a + 1j * rng.standard_normal(a.shape), b * (1 - 2j)
    return a.astype(dtype), b.astype(dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 3), (4, 4), (7, 1), (3, 0)])
def test_batches_are_solved_as_their_matrices_are(dtype, upper, rows, columns):
    a, b = _systems(64, rows, columns, dtype)
    hidden = np.tril(np.full(a.shape, np.nan), -1) if upper else np.triu(a * np.nan, 1)
    a = np.where(np.isnan(hidden), np.nan, a).astype(dtype)  # the other triangle is not read
    found = tj.linalg.solve_triangular(tj.from_numpy(a), tj.from_numpy(b), upper=upper).numpy()
    bound = 1e-4 if dtype == "float32" else 1e-11
    for one, matrix, right in zip(found, a, b, strict=True):
        alone = tj.linalg.solve_triangular(tj.from_numpy(matrix), tj.from_numpy(right), upper=upper)
        np.testing.assert_allclose(one, alone.numpy(), bound, bound)


@pytest.mark.parametrize("upper", [False, True])
def test_a_zero_on_the_diagonal_divides(upper):
    a, b = np.tile(np.eye(2), (40, 1, 1)), np.ones((40, 2, 1))
    a[5, 1, 1] = 0
    found = tj.linalg.solve_triangular(tj.from_numpy(a), tj.from_numpy(b), upper=upper).numpy()
    assert np.isinf(found[5, 1, 0])
    assert np.array_equal(np.delete(found, 5, 0), np.delete(b, 5, 0))


def test_one_matrix_serves_a_batch_of_right_sides_and_the_reverse():
    a, b = _systems(50, 3, 2, "float64")
    for left, right in ((a[:1], b), (a, b[:1]), (a[0], b), (a, b[0])):
        found = tj.linalg.solve_triangular(
            tj.from_numpy(left), tj.from_numpy(right), upper=False
        ).numpy()
        np.testing.assert_allclose(
            np.tril(left) @ found, np.broadcast_to(right, found.shape), 1e-9, 1e-9
        )


def test_gradients_of_factors_of_many_small_matrices():
    def f(a):
        return tj.linalg.cholesky(a @ a.mT + tj.eye(4, dtype=a.dtype)).sum()

    values = np.random.default_rng(1).standard_normal((33, 4, 4))
    compiled, grads = tj.compile(f), []
    for function in (f, compiled, compiled, compiled):
        x = tj.tensor(values, requires_grad=True)
        function(x).backward()
        grads.append(x.grad.numpy())
    one = tj.tensor(values[7], requires_grad=True)
    f(one).backward()
    np.testing.assert_allclose(grads[0][7], one.grad.numpy(), 1e-10, 1e-10)
    for other in grads[1:]:
        np.testing.assert_allclose(other, grads[0], 1e-10, 1e-10)
