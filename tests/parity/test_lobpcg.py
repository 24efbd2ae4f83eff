"""``lobpcg`` beside PyTorch: values, vectors up to their signs, gradients; eagerly and compiled."""

from __future__ import annotations

import numpy as np
import pytest
from parity_tools import torch

import tracejit as tj

rng = np.random.default_rng(0)
SQUARE = rng.normal(size=(2, 9, 9))
A = SQUARE @ SQUARE.transpose(0, 2, 1)
OTHER = rng.normal(size=(9, 9))
B = OTHER @ OTHER.T + 9 * np.eye(9)


@pytest.mark.parametrize("largest", [None, False])
@pytest.mark.parametrize("given", ["A", "AB", "A2"])
def test_values_and_vectors(largest, given) -> None:
    def f(a, b, of=tj):
        return of.lobpcg(a, 2, b, largest=largest, niter=200, tol=1e-9)

    a = A if given == "A2" else A[0]
    b = B if given == "AB" else None
    torch.manual_seed(0)
    values, vectors = f(torch.tensor(a), None if b is None else torch.tensor(b), torch)
    compiled = tj.compile(f)
    for g in (f, compiled, compiled, compiled):
        found, x = g(tj.tensor(a), None if b is None else tj.tensor(b))
        np.testing.assert_allclose(found.numpy(), values.numpy(), rtol=1e-6)
        right = x.numpy() if b is None else b @ x.numpy()
        np.testing.assert_allclose(a @ x.numpy(), right * found.numpy()[..., None, :], atol=1e-7)
        inner = np.swapaxes(vectors.numpy(), -1, -2) @ right
        np.testing.assert_allclose(np.abs(inner), np.zeros_like(inner) + np.eye(2), atol=1e-3)


def test_gradients_of_values() -> None:
    ends = []
    for of in (torch, tj):
        a = of.tensor(A[0], requires_grad=True)
        of.lobpcg(a, 2)[0].sum().backward()
        ends.append((a.grad + a.grad.T).numpy())
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-4)


def test_how_many_and_refusals() -> None:
    a, x = tj.tensor(A[0]), tj.ones(9, 2, dtype=tj.float64)
    assert tj.lobpcg(a)[1].shape == (9, 1)
    assert tj.lobpcg(a, X=x)[1].shape == (9, 2)
    assert tj.lobpcg(a, 2, X=x[:, :1])[0].shape == (1,)
    for of in (torch, tj):
        with pytest.raises(ValueError, match="smaller than 3 x the number of requested eigenpairs"):
            of.lobpcg(of.tensor(A[0]), 4)
        with pytest.raises(AssertionError, match="A must be square"):
            of.lobpcg(of.tensor(A[0])[:, :5], 1)
