"""Matrices with nan or inf in them: what LAPACK does not read does no harm, the rest is refused or no number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

NO_NUMBERS = [float("nan"), float("inf")]
SPECIAL = [*NO_NUMBERS, 1e300]


def positive() -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(3, 3))
    return x @ x.T + np.eye(3)


@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_other_triangle_is_not_read(special: float, upper: bool, compiled: bool):
    def factor(x: tj.Tensor) -> tj.Tensor:
        return tj.linalg.cholesky(x, upper=upper)

    def spectrum(x: tj.Tensor) -> tj.Tensor:
        return tj.linalg.eigh(x, "U" if upper else "L").eigenvalues

    a = positive()
    spoiled = np.where(np.tril(np.ones((3, 3)), -1) > 0, special, a)
    spoiled = spoiled if upper else spoiled.T
    for function in (factor, spectrum):
        called = tj.compile(function) if compiled else function
        want = function(tj.tensor(a)).numpy()
        for _ in range(3 if compiled else 1):
            np.testing.assert_allclose(called(tj.tensor(spoiled)).numpy(), want, 1e-14)


@pytest.mark.parametrize("function", [tj.linalg.cholesky, tj.linalg.eigvalsh])
def test_both_triangles_share_the_gradient(function: Callable[[Any], Any]):
    x = tj.tensor(positive(), requires_grad=True)
    function(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), x.grad.numpy().T, 1e-12)
    assert abs(x.grad.numpy()).min() > 0 or function is tj.linalg.eigvalsh


@pytest.mark.parametrize("value", NO_NUMBERS)
@pytest.mark.parametrize("name", ["cholesky", "eig", "eigvals"])
def test_refused(value: float, name: str):
    with pytest.raises(RuntimeError, match=f"linalg.{name[:3]}"):
        getattr(tj.linalg, name)(tj.full((2, 2), value))


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_the_sign_of_no_number_is_zero(value: float):
    sign, size = tj.linalg.slogdet(tj.full((2, 2), value))
    assert sign.item() == 0
    assert np.isnan(size.item())
