"""Factors, eigenvalues and singular values, real and complex, against PyTorch: values and gradients.

What a decomposition leaves open (signs and phases of vectors) cancels in what is compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import close, compare, same_error

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

RNG = np.random.default_rng(11)
A, B = RNG.normal(size=(2, 4, 4)), RNG.normal(size=(2, 4, 4))
TALL, ALSO_TALL = RNG.normal(size=(5, 3)), RNG.normal(size=(5, 3))


def eig(t: Any, x: Any) -> Any:
    values, vectors = t.linalg.eig(x)
    return values, vectors @ t.diag_embed(values**3) @ t.linalg.inv(vectors)


def eigh(t: Any, x: Any, uplo: str) -> Any:
    values, vectors = t.linalg.eigh(x @ x.mH, UPLO=uplo)
    return values, (vectors * values.unsqueeze(-2) ** 2) @ vectors.mH


def svd(t: Any, x: Any) -> Any:
    u, values, vh = t.linalg.svd(x, full_matrices=False)
    return values, (u * values.unsqueeze(-2) ** 3) @ vh


FUNCTIONS = {
    "eig": eig,
    "eigvals": lambda t, x: t.linalg.eigvals(x) ** 2,
    "eigh lower": lambda t, x: eigh(t, x, "L"),
    "eigh upper": lambda t, x: eigh(t, x, "U"),
    "eigvalsh": lambda t, x: t.linalg.eigvalsh(x + x.mH),
    "cholesky": lambda t, x: t.linalg.cholesky(x @ x.mH).abs(),
    "cholesky upper": lambda t, x: t.linalg.cholesky(x @ x.mH, upper=True).abs(),
    "cholesky_solve": lambda t, x: t.cholesky_solve(x[..., :2], t.linalg.cholesky(x @ x.mH)),
    "slogdet": lambda t, x: t.linalg.slogdet(x),
    "logdet": lambda t, x: t.logdet(x @ x.mH),
    "lu": lambda t, x: t.linalg.lu(x),
    "lu_factor": lambda t, x: t.linalg.lu_factor(x),
    "lu_factor_ex": lambda t, x: t.linalg.lu_factor_ex(x),
    "lu_solve": lambda t, x: t.linalg.lu_solve(*t.linalg.lu_factor(x), x * x),
    "lu_solve adjoint": lambda t, x: t.linalg.lu_solve(*t.linalg.lu_factor(x), x[0], adjoint=True),
    "lu_solve right": lambda t, x: t.linalg.lu_solve(*t.linalg.lu_factor(x), x * x, left=False),
    "solve": lambda t, x: t.linalg.solve(x, x * x),
    "solve_ex": lambda t, x: t.linalg.solve_ex(x, x * x),
    "solve_triangular": lambda t, x: t.linalg.solve_triangular(x, x * x, upper=True),
}
ANY_SHAPE = {
    "lu": lambda t, x: t.linalg.lu(x),
    "lu_factor": lambda t, x: t.linalg.lu_factor(x),
    "svd": svd,
    "svdvals": lambda t, x: t.linalg.svdvals(x),
    "nuclear norm": lambda t, x: t.linalg.matrix_norm(x, "nuc"),
    "largest column": lambda t, x: t.linalg.matrix_norm(x, 1),
    "pinv": lambda t, x: t.linalg.pinv(x),
    "pinv of low rank": lambda t, x: t.linalg.pinv(x[:, :1] @ x[:1]),
    "matrix_rank": lambda t, x: t.linalg.matrix_rank(x, atol=t.tensor(0.5)),
    "lstsq": lambda t, x: t.linalg.lstsq(x, x * x).solution,
}
TALL_ONLY = {
    "qr": lambda t, x: t.linalg.qr(x),
    "complete qr": lambda t, x: t.linalg.qr(x.detach(), mode="complete").R,
    "householder_product": lambda t, x: t.linalg.householder_product(x, x[0] * 0.3),
    "ormqr": lambda t, x: t.ormqr(x, x[0] * 0.3, x * x),
    "ormqr right": lambda t, x: t.ormqr(x, x[0] * 0.3, (x * x).mT, left=False, transpose=True),
    "geqrf": lambda t, x: t.geqrf(x.detach()),
    "residuals": lambda t, x: t.linalg.lstsq(x, x * x, driver="gels").residuals,
    "by singular values": lambda t, x: t.linalg.lstsq(x, x * x, driver="gelsd"),
}


def same(ours: Any, theirs: Any) -> None:
    """Two tensors of this library."""
    assert ours.spec == theirs.spec
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-9)


def checked(function: Any, arrays: list[Any]) -> None:
    """Real and imaginary parts of all results, and what reaches the inputs from them; eager and compiled."""

    def parts(t: Any, f: Any, *tensors: Any) -> list[Any]:
        x = tensors[0] if len(tensors) == 1 else t.complex(*tensors)
        found = function(t, x)
        flat = found if isinstance(found, tuple) else (found,)
        split = [y for x in flat for y in ((x.real, x.imag) if x.is_complex() else (x,))]
        return [y.to(t.int64) if "int" in str(y.dtype) else y for y in split]

    inputs = [tj.tensor(a, requires_grad=True) for a in arrays]
    smooth = any(x.requires_grad for x in parts(tj, None, *inputs))
    compare(parts, arrays, second=False, gradients=smooth, tolerance=1e-8)
    compiled = tj.compile(lambda *tensors: parts(tj, None, *tensors))
    plain = [tj.tensor(a, requires_grad=True) for a in arrays]
    fast = [tj.tensor(a, requires_grad=True) for a in arrays]
    expected = parts(tj, None, *plain)
    compiled(*fast)
    results = compiled(*fast)
    for a, b in zip(results, expected, strict=True):
        same(a, b)
    smooth = [i for i, x in enumerate(expected) if x.requires_grad]
    if smooth:
        sum(expected[i].sum() for i in smooth).backward()
        sum(results[i].sum() for i in smooth).backward()
        for a, b in zip(fast, plain, strict=True):
            same(a.grad, b.grad)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("arrays", [[A], [A, B]], ids=["real", "complex"])
def test_square(name: str, arrays: list[Any]) -> None:
    checked(FUNCTIONS[name], arrays)


@pytest.mark.parametrize("name", ANY_SHAPE)
@pytest.mark.parametrize("wide", [False, True], ids=["tall", "wide"])
@pytest.mark.parametrize("arrays", [[TALL], [TALL, ALSO_TALL]], ids=["real", "complex"])
def test_any_shape(name: str, wide: bool, arrays: list[Any]) -> None:
    checked(ANY_SHAPE[name], [a.T.copy() for a in arrays] if wide else arrays)


@pytest.mark.parametrize("name", TALL_ONLY)
def test_tall(name: str) -> None:
    checked(TALL_ONLY[name], [TALL])


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("indefinite", [False, True])
def test_ldl(hermitian: bool, indefinite: bool) -> None:
    square = A[0] + 1j * B[0] if hermitian else A[0]
    matrix = square + square.conj().T
    if indefinite:
        np.fill_diagonal(matrix, 0)
    found = []
    for t in (tj, torch):
        x = t.tensor(matrix)
        factors = t.linalg.ldl_factor(x, hermitian=hermitian)
        right = t.tensor(TALL[:4].astype(matrix.dtype))
        solution = t.linalg.ldl_solve(*factors, right, hermitian=hermitian)
        found.append([*factors, solution, t.linalg.ldl_factor_ex(x, hermitian=hermitian).info])
    for ours, theirs in zip(*found, strict=True):
        close(ours, theirs)


def test_older_spelling() -> None:
    x = tj.tensor(A)
    factors = tj.linalg.lu_factor(x)
    assert all(map(tj.equal, x.lu(), factors))
    assert tj.equal(tj.tensor(B).lu_solve(*x.lu()), tj.linalg.lu_solve(*factors, tj.tensor(B)))


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("name", ["eig", "eigh", "svd", "qr", "lu", "lu_factor", "ldl_factor"])
def test_small(name: str, size: int) -> None:
    for ours, theirs in zip(
        getattr(tj.linalg, name)(tj.ones(2, size, size)),
        getattr(torch.linalg, name)(torch.ones(2, size, size)),
        strict=True,
    ):
        close(ours.abs(), theirs.abs())


@pytest.mark.parametrize(
    "code",
    [
        "t.linalg.eig(t.ones(2, 3))",
        "t.linalg.lu_factor(t.ones(3))",
        "t.linalg.lu_factor_ex(t.zeros(2, 2), check_errors=True)",
        "t.linalg.lu_solve(*t.linalg.lu_factor(t.eye(2)), t.ones(3, 1))",
        "t.linalg.householder_product(t.ones(2, 3), t.ones(2))",
        "t.linalg.ldl_factor(t.ones(2, 3))",
        "t.linalg.qr(t.ones(2, 3), mode='other')",
        "t.linalg.eigvals(t.ones(2, 2, dtype=t.int64))",
    ],
)
def test_errors(code: str) -> None:
    same_error(lambda t, f: eval(code, {"t": t}))
