"""Least squares, against NumPy: also where the matrix has not full rank."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj


def matrices():
    rng = np.random.default_rng(0)
    return {
        "tall": rng.standard_normal((6, 3)),
        "wide": rng.standard_normal((3, 6)),
        "dependent": np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]),
        "outer": np.outer(rng.standard_normal(5), rng.standard_normal(4)),
        "zero": np.zeros((3, 2)),
    }


@pytest.mark.sampled(4)
@pytest.mark.parametrize("driver", [None, "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("name", list(matrices()))
def test_the_least_solution(rng, name, driver):
    a = matrices()[name]
    b = rng.standard_normal((len(a), 2))
    expected, _, rank, values = np.linalg.lstsq(a, b, rcond=None)
    compiled = tj.compile(lambda x, y: tj.linalg.lstsq(x, y, driver=driver), strict=True)
    for call in (lambda x, y: tj.linalg.lstsq(x, y, driver=driver), compiled, compiled):
        x = tj.tensor(a, requires_grad=True)
        found = call(x, tj.tensor(b))
        np.testing.assert_allclose(found.solution.detach().numpy(), expected, atol=1e-10)
        assert found.rank.item() == rank
        if driver in ("gelsd", "gelss"):
            np.testing.assert_allclose(found.singular_values.numpy(), values, atol=1e-10)
        found.solution.sum().backward()
        assert x.grad.isfinite().all()


def test_full_rank_is_taken_for_granted_when_asked_to(rng):
    a, b = rng.standard_normal((6, 3)), rng.standard_normal((6, 2))
    found = tj.linalg.lstsq(tj.tensor(a), tj.tensor(b), driver="gels")
    expected, distances, *_ = np.linalg.lstsq(a, b, rcond=None)
    np.testing.assert_allclose(found.solution.numpy(), expected)
    np.testing.assert_allclose(found.residuals.numpy(), distances)
    assert found.rank.numel() == 0


@pytest.mark.parametrize("name", list(matrices()))
def test_gradients_are_those_of_the_pseudo_inverse(rng, name):
    a = matrices()[name]
    b = rng.standard_normal((len(a), 2))
    weights = rng.standard_normal((a.shape[1], 2))
    found = []
    for solve in (
        lambda x, y: tj.linalg.lstsq(x, y).solution,
        lambda x, y: tj.linalg.pinv(x) @ y,
    ):
        x, y = tj.tensor(a, requires_grad=True), tj.tensor(b, requires_grad=True)
        (solve(x, y) * tj.tensor(weights)).sum().backward()
        found.append((x.grad.numpy(), y.grad.numpy()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_a_matrix_that_is_not_finite_is_refused():
    with pytest.raises(
        tj.linalg.LinAlgError, match="lstsq: the input matrix contained non-finite values"
    ):
        tj.linalg.lstsq(tj.tensor([[1.0], [float("nan")]]), tj.ones(2, 1))


def test_one_recording_serves_any_number_of_rows(rng):
    compiled = tj.compile(lambda x, y: tj.linalg.lstsq(x, y).solution, strict=True)
    for rows in (6, 7, 9, 30, 50, 13):
        a, b = rng.standard_normal((rows, 4)), rng.standard_normal((rows, 2))
        expected = np.linalg.lstsq(a, b, rcond=None)[0]
        np.testing.assert_allclose(
            compiled(tj.tensor(a), tj.tensor(b)).numpy(), expected, atol=1e-10
        )
    assert compiled.stats.recordings == 3  # the third one is for any number
