"""Let scipy.optimize drive a compiled loss with its exact gradient: a logistic fit and Rosenbrock's valley.

python examples/scipy_optimize.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize

import tracejit as tj


@tj.compile
def rosenbrock(x: tj.Tensor) -> tj.Tensor:
    """Rosenbrock's function (1960); its minimum is 0, at (1, ..., 1)."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@tj.compile
def logistic_loss(parameters: tj.Tensor, features: tj.Tensor, signs: tj.Tensor) -> tj.Tensor:
    """Mean of log(1 + exp(-sign * score)), with a little ridge so that the minimum is unique."""
    margins = signs * (features @ parameters)
    return (1 + (-margins).exp()).log().mean() + 1e-3 * (parameters * parameters).sum()


def with_gradient(function: Any, *data: tj.Tensor) -> Callable[[np.ndarray], tuple[float, Any]]:
    """What SciPy wants with `jac=True`: the value and the gradient at a NumPy point."""

    def call(point: np.ndarray) -> tuple[float, Any]:
        x = tj.tensor(point, requires_grad=True)
        value = function(x, *data)
        value.backward()
        return value.item(), x.grad.numpy()

    return call


def main() -> None:
    """Both minima, found with compiled gradients in double precision."""
    found = minimize(with_gradient(rosenbrock), np.full(20, -1.0), jac=True, method="L-BFGS-B")
    print(f"Rosenbrock in 20 dimensions: {found.fun:.1e} after {found.nfev} evaluations")
    assert found.success
    assert found.fun < 1e-8

    rng = np.random.default_rng(0)
    features = rng.standard_normal((400, 5))
    truth = np.array([1.0, -2.0, 0.5, 0.0, 1.5])
    signs = np.where(rng.random(400) < 1 / (1 + np.exp(-features @ truth)), 1.0, -1.0)
    objective = with_gradient(logistic_loss, tj.from_numpy(features), tj.from_numpy(signs))
    fit = minimize(objective, np.zeros(5), jac=True, method="BFGS")
    print(f"logistic fit: {np.round(fit.x, 2)} for the truth {truth}")
    assert np.abs(fit.jac).max() < 1e-4
    assert np.abs(fit.x - truth).max() < 0.5

    for function in (rosenbrock, logistic_loss):
        print(f"{function.name}: {function.stats}")
        assert function.stats.compiled_calls >= function.stats.calls - 2


if __name__ == "__main__":
    main()
