"""Decompositions of low rank, found by multiplying with random matrices (Halko, Martinsson and Tropp, 2009)."""

from __future__ import annotations

from .. import elementwise as e
from .. import reduction as r
from ..linear_algebra import adjoint
from ..table import function
from .common import Tensor, shape_of
from .linear_algebra import checked, qr
from .linear_algebra import svd as linalg_svd
from .matrices import matmul
from .older import Decomposition
from .sampling import draw_normal


@function(method=False)
def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> Decomposition:
    """The ``q`` largest singular values of matrices (of ``A - M``), nearly, with their vectors, V not transposed.

    ``niter`` rounds of multiplying by the matrix bring them closer. Raises ``RuntimeError`` for integers.

    >>> import tracejit as tj
    >>> tj.svd_lowrank(tj.tensor([[3.0, 0.0], [0.0, 4.0]]), q=2).S
    tensor([4., 3.])
    """
    checked("svd_lowrank", A)
    x = A if M is None else e.sub(A, M)
    return _factors(x, 6 if q is None else q, 2 if niter is None else niter)


@function(method=False)
def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> Decomposition:
    """The ``q`` main components (6 by default) of rows of observations: :func:`svd_lowrank`, means subtracted first.

    Raises ``ValueError`` where ``q`` is not between 0 and the extents, ``RuntimeError`` for integers.

    >>> import tracejit as tj
    >>> tj.pca_lowrank(tj.tensor([[1.0, 0.0], [3.0, 0.0]]), q=1).S
    tensor([1.4142])
    """
    checked("pca_lowrank", A)
    rows, columns = shape_of(A)[-2:]
    count = min(6, rows, columns) if q is None else q
    if not 0 <= count <= min(rows, columns):
        raise ValueError(
            f"q(={count}) must be non-negative integer and not greater than min(m, n)={min(rows, columns)}"
        )
    if not center:
        return _factors(A, count, niter)
    mean = e.div(r.sum(A, dims=(A.ndim - 2,), keepdim=True), rows)
    return _factors(e.sub(A, mean), count, niter)


def _factors(x: Tensor, count: int, rounds: int) -> Decomposition:
    """The ``count`` largest singular values of matrices, nearly, with their vectors."""
    rows, columns = shape_of(x)[-2:]
    wide = rows < columns
    x = adjoint(x) if wide else x
    basis = _range_of(x, count, rounds)
    u, values, vh = linalg_svd(matmul(adjoint(basis), x), full_matrices=False)
    left, right = matmul(basis, u), adjoint(vh)
    return Decomposition(right, values, left) if wide else Decomposition(left, values, right)


def _range_of(x: Tensor, count: int, rounds: int) -> Tensor:
    """Orthonormal columns that nearly span what tall matrices map to."""
    drawn = draw_normal((shape_of(x)[-1], count), x.dtype, None, x)
    basis = qr(matmul(x, drawn)).Q
    for _ in range(rounds):
        basis = qr(matmul(x, qr(matmul(adjoint(x), basis)).Q)).Q
    return basis
