"""Systems solved through the LDL factors: blocks of one and two, singular ones, pivots of no row."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj


def solved(a: np.ndarray, b: np.ndarray, hermitian: bool) -> tuple[np.ndarray, np.ndarray]:
    factors, pivots = tj.linalg.ldl_factor(tj.tensor(a), hermitian=hermitian)
    found = tj.linalg.ldl_solve(factors, pivots, tj.tensor(b), hermitian=hermitian)
    return found.numpy(), pivots.numpy()


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_blocks_of_two(hermitian: bool, dtype: type):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(5, 5)).astype(dtype)
    if dtype is np.complex128:
        a += 1j * rng.normal(size=(5, 5))
    a = a + (a.conj().T if hermitian else a.T)
    np.fill_diagonal(a, 0)  # only blocks of two have a diagonal of zeros
    b = rng.normal(size=(5, 2)).astype(dtype)
    found, pivots = solved(a, b, hermitian)
    assert (pivots < 0).any()
    np.testing.assert_allclose(a @ found, b, 1e-10, 1e-12)


@pytest.mark.parametrize("pivots", [[1, 2], [-2, -2]])
def test_singular_factors_give_no_number(pivots: list[int]):
    found = tj.linalg.ldl_solve(
        tj.zeros(2, 2), tj.tensor(pivots, dtype=tj.int32), tj.ones(2, 1)
    ).numpy()
    assert not np.isfinite(found).any()


@pytest.mark.parametrize("pivot", [0, 3, -3])
def test_pivots_of_no_row_are_refused(pivot: int):
    pivots = tj.tensor([pivot, 2], dtype=tj.int32)
    with pytest.raises(IndexError, match=rf"pivot {pivot} is out of range for 2 rows"):
        tj.linalg.ldl_solve(tj.eye(2), pivots, tj.ones(2, 1))
