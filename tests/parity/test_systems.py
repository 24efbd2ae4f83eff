"""Structured systems, least squares and matrix exponentials against PyTorch: values and gradients of two orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import compare, same_error

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

RNG = np.random.default_rng(4)
A = RNG.normal(size=(3, 3)) + 3 * np.eye(3)
B, WIDE, MANY = (
    RNG.normal(size=(3, 2)),
    RNG.normal(size=(2, 4)),
    RNG.normal(size=(2, 3, 3)) + 2 * np.eye(3),
)

CASES = [
    "t.linalg.solve_triangular(a, b, upper=True)",
    "t.linalg.solve_triangular(a, b, upper=False, unitriangular=True)",
    "t.linalg.solve_triangular(a, b.mT, upper=False, left=False)",
    "t.linalg.solve_triangular(m, b, upper=True)",
    "t.cholesky_solve(b, t.linalg.cholesky(a @ a.mT))",
    "t.cholesky_solve(b, t.linalg.cholesky(a @ a.mT).mT, upper=True)",
    "t.cholesky_inverse(t.linalg.cholesky(a @ a.mT))",
    "t.linalg.lstsq(w.mT, w.mT[:, :1] * 2 + 1).solution",
    "t.linalg.lstsq(w, b[:2]).solution",
    "t.linalg.lstsq(a, b).solution",
    "t.linalg.lstsq(w.mT, w.mT[:, :1] * 2 + 1).residuals",
    "t.linalg.lstsq(m, m).rank",
    "t.linalg.matrix_exp(a / 3)",
    "t.matrix_exp(m / 3)",
    "t.linalg.cond(a)",
    "t.linalg.cond(a, -2)",
    "t.linalg.cond(m.detach(), 1) + 0 * m.sum()",
    "t.linalg.cond(a.detach(), 'fro') + 0 * a.sum()",
    "t.linalg.cond(m.detach(), float('inf')) + 0 * m.sum()",
    "t.linalg.cholesky_ex(a @ a.mT)[0]",
    "t.linalg.inv_ex(m).inverse",
    "t.linalg.tensorsolve(a.reshape(3, 1, 3), b[:, :1])",
    "t.linalg.tensorsolve(a.reshape(3, 3, 1), b[:, 0], dims=(0,))",
    "t.linalg.tensorinv(a.reshape(3, 1, 3, 1))",
    "t.linalg.tensorinv(a.reshape(3, 3, 1), ind=1)",
]


@pytest.mark.parametrize("code", CASES)
def test_values_and_gradients(code: str) -> None:
    def function(t: Any, f: Any, a: Any, b: Any, w: Any, m: Any) -> Any:
        return eval(code, {"t": t, "a": a, "b": b, "w": w, "m": m})

    smooth = "residuals" not in code and "rank" not in code
    compare(
        function,
        [A, B, WIDE, MANY],
        second=smooth and "w, b" not in code,
        gradients=smooth,
        tolerance=1e-8,
    )


@pytest.mark.parametrize(
    "code",
    [
        "t.linalg.matrix_exp(t.zeros(2, 3))",
        "t.linalg.solve_triangular(t.zeros(2, 3), t.zeros(2, 1), upper=True)",
        "t.linalg.lstsq(t.zeros(2, 3), t.zeros(3, 1))",
        "t.linalg.solve_triangular(t.eye(2).long(), t.zeros(2, 1), upper=True)",
    ],
)
def test_errors(code: str) -> None:
    same_error(lambda t, f: eval(code, {"t": t}))


SINGULAR = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 3.0]])


@pytest.mark.parametrize("call", ["t.linalg.det", "t.logdet", "t.linalg.slogdet", "t.det"])
@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_determinants_of_matrices_without_inverse_have_gradients(call: str, kind: str) -> None:
    def slope(t: Any, x: Any) -> Any:
        found = eval(call, {"t": t})(x)
        found = found[1] if isinstance(found, tuple) else found
        return t.autograd.grad(found.real.sum(), x)[0].numpy()

    given = np.stack([SINGULAR, A, 2 * A])
    theirs = slope(torch, torch.tensor(given, dtype=getattr(torch, kind)).requires_grad_())
    compiled = tj.compile(lambda x: slope(tj, x))
    for run in (lambda x: slope(tj, x), compiled, compiled, compiled):
        ours = run(tj.tensor(given, dtype=getattr(tj, kind)).requires_grad_())
        np.testing.assert_allclose(ours[1:], theirs[1:], rtol=1e-9, atol=1e-12)
        for found in (ours[0], theirs[0]):
            assert not found.any() if call.endswith(".det") else not np.isfinite(found).all()


@pytest.mark.parametrize("call", ["t.logdet(x)", "t.linalg.slogdet(x)[1]"])
@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_gradients_of_logarithms_of_determinants_follow_what_comes_to_them(
    call: str, kind: str
) -> None:
    def slopes(t: Any, x: Any) -> list[Any]:
        found = eval(call, {"t": t, "x": x}).real
        (first,) = t.autograd.grad((found * found).sum(), x, create_graph=True)
        (second,) = t.autograd.grad((first * first).real.sum(), x)
        return [first.detach(), second]

    given = np.stack([A @ A.T + np.eye(len(A)), np.eye(len(A)) * 2])
    theirs = slopes(torch, torch.tensor(given, dtype=getattr(torch, kind)).requires_grad_())
    compiled = tj.compile(lambda x: slopes(tj, x))
    for run in (lambda x: slopes(tj, x), compiled, compiled, compiled):
        ours = run(tj.tensor(given, dtype=getattr(tj, kind)).requires_grad_())
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a.numpy(), b.resolve_conj().numpy(), rtol=1e-9, atol=1e-12)


def test_reports_in_place_of_errors() -> None:
    for t in (tj, torch):
        bad = t.tensor([[0.0, 0.0], [0.0, 1.0]])
        assert t.linalg.cholesky_ex(-bad - t.eye(2)).info.item() == 1
        assert t.linalg.inv_ex(bad).info.item() == 1
        assert t.linalg.inv_ex(t.eye(2)).info.item() == 0
        with pytest.raises(RuntimeError):
            t.linalg.inv_ex(t.zeros(2, 2), check_errors=True)
    same_error(lambda t, f: t.linalg.tensorsolve(t.zeros(2, 3), t.zeros(2)))
    same_error(lambda t, f: t.linalg.tensorinv(t.zeros(2, 3), 1))
