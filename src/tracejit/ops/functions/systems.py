"""Systems of equations with structure, least squares, and the exponential of matrices."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ... import dtypes
from ...errors import ShapeError
from .. import elementwise as e
from .. import linear_algebra as la
from .. import reduction as r
from .. import source as s
from ..contraction import transposed
from ..least_squares import least_squares
from ..linear_algebra import adjoint
from ..precision import full_precision
from ..side_by_side import LEAST
from ..table import function
from .common import Tensor, alone, as_type, shape_of, upcast
from .complex_numbers import abs as magnitude
from .linear_algebra import checked, matrix_rank, pinv, qr, svdvals
from .matrices import matmul
from .triangles import tril, triu


class TriangularSolution(NamedTuple):
    """What :func:`triangular_solve` finds."""

    solution: Tensor
    cloned_coefficient: Tensor


class LeastSquares(NamedTuple):
    """What :func:`lstsq` finds; what its driver does not tell is left empty."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def _identity(x: Tensor) -> Tensor:
    return as_type(la.on_diagonal(x), x.dtype)


@function(method=False, namespace=False)
def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X with ``A @ X = B`` (or ``X @ A = B``), of which one triangle of A is read.

    With ``unitriangular`` the diagonal counts as ones. Raises ``RuntimeError`` for shapes that do not fit.

    >>> import tracejit as tj
    >>> tj.linalg.solve_triangular(tj.tensor([[2.0, 9.0], [0.0, 4.0]]), tj.ones(2, 1), upper=False)
    tensor([[0.5000],
            [0.2500]])
    """
    checked("solve_triangular", A)
    checked("solve_triangular", B)
    if A.ndim < 2 or B.ndim < 2:
        raise ShapeError(
            "linalg.solve_triangular: The input tensor must have at least 2 dimensions."
        )
    if unitriangular:
        A = e.add(triu(A, 1) if upper else tril(A, -1), _identity(A))
    if left:
        return la.solve_triangle(A, B, lower=not upper)
    return transposed(la.solve_triangle(transposed(A), transposed(B), lower=upper))


@function(within=full_precision)
def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolution:
    """The solution X of ``A @ X = b`` for a triangular A, and a copy of A.

    >>> import tracejit as tj
    >>> tj.triangular_solve(tj.ones(1, 1), tj.tensor([[2.0]]))[0]
    tensor([[0.5000]])
    """
    matrix = transposed(A) if transpose else A
    upper = upper != transpose
    solution = solve_triangular(matrix, b, upper=upper, unitriangular=unitriangular)
    return TriangularSolution(solution, e.clone(A))


@function(within=full_precision)
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """X with ``A @ X = B`` where ``L`` is the lower (``upper``) triangular factor of A.

    >>> import tracejit as tj
    >>> tj.cholesky_solve(tj.ones(1, 1), tj.tensor([[2.0]]))
    tensor([[0.2500]])
    """
    checked("cholesky_solve", L)
    checked("cholesky_solve", B)
    lower = adjoint(L) if upper else L
    half = la.solve_triangle(lower, B, lower=True, whole=True)
    return la.solve_triangle(adjoint(lower), half, lower=False, whole=True)


@function(within=full_precision)
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of the matrix whose lower (``upper``) triangular factor is ``L``.

    Raises ``RuntimeError`` for a factor with a zero on its diagonal.

    >>> import tracejit as tj
    >>> tj.cholesky_inverse(tj.tensor([[2.0]]))
    tensor([[0.2500]])
    """
    checked("cholesky_inverse", L)
    read = triu(L) if upper else tril(L)
    factor = e.add(L, e.detach_copy(e.sub(read, L)))  # its gradient is that of a whole matrix
    return la.inverse_by_factor(adjoint(factor) if upper else factor)


@function(method=False, namespace=False, within=full_precision)
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: Any = None) -> LeastSquares:
    """X for which ``A @ X`` is closest to ``B``; of several, the one of least norm.

    A may have any rank: singular values up to ``rcond`` times the largest count as zero (the number of rows or
    columns times the precision unless given), and are returned with ``driver`` "gelsd" or "gelss". With "gels" A must
    have full rank, which takes less time. With these three the squared distances are returned where A has more rows
    than columns. Raises ``RuntimeError`` for shapes that do not fit and other drivers.

    >>> import tracejit as tj
    >>> tj.linalg.lstsq(tj.tensor([[1.0], [0.0]]), tj.tensor([[2.0], [3.0]])).solution
    tensor([[2.]])
    """
    checked("lstsq", A)
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(
            f"linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got {driver}"
        )
    if A.ndim < 2:
        raise ShapeError("linalg.lstsq: input must have at least 2 dimensions.")
    if not B.ndim:
        raise ShapeError("linalg.lstsq: other must have at least 1 dimension.")
    vector = B.ndim == A.ndim - 1
    right = B.unsqueeze(-1) if vector else B
    rows, columns = shape_of(A)[-2:]
    if shape_of(right)[-2] != rows:
        raise ShapeError(
            f"linalg.lstsq: input.size(-2) should match other.size(-2), got {A.spec} and {B.spec}"
        )
    rank = None
    if rows >= columns and driver == "gels":
        factors = qr(A)
        found = la.solve_triangle(factors.R, matmul(adjoint(factors.Q), right), lower=False)
    elif _by_factors(A, right, driver):
        found, rank = _least_squares(A, right, rcond)
    else:
        found = matmul(pinv(A, rtol=rcond), right)
    kind = A.dtype.to_real() if A.dtype.is_complex else A.dtype
    distances = values = s.full(shape=(0,), value=0, dtype=kind)
    if rows > columns and driver not in (None, "gelsy"):
        apart = magnitude(e.sub(matmul(A, found), right))
        distances = r.sum(e.square(apart), dims=(apart.ndim - 2,), keepdim=False)
    if driver in ("gelsd", "gelss"):
        values = svdvals(e.detach_copy(A))
    if driver == "gels":
        rank = s.full(shape=(0,), value=0, dtype=dtypes.int64)
    elif rank is None:
        rank = matrix_rank(A, rtol=rcond)
    return LeastSquares(found.squeeze(-1) if vector else found, distances, rank, values)


def _by_factors(A: Tensor, right: Tensor, driver: Any) -> bool:
    """Is a factorisation to show the rank? Singular values of many small matrices are found side by side."""
    batch = shape_of(A)[:-2]
    few = math.prod(batch) < LEAST and shape_of(right)[:-2] == batch
    return driver in (None, "gelsy") and few and bool(A.spec.numel and right.spec.numel)


def _least_squares(A: Tensor, right: Tensor, rcond: float | None) -> tuple[Tensor, Tensor]:
    """The solution and the rank."""
    columns = shape_of(A)[-1]
    found = least_squares(A, right, tolerance=None if rcond is None else float(rcond))
    rank = e.detach_copy(la.rows_of(found, columns, 1))[..., 0, 0]
    return alone(la.rows_of(found, 0, columns)), as_type(magnitude(rank), dtypes.int64)


@function()
def matrix_exp(input: Tensor) -> Tensor:
    """The exponential of square matrices.

    Raises ``RuntimeError`` for matrices that are not square.

    >>> import tracejit as tj
    >>> tj.matrix_exp(tj.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if input.dtype.is_half:
        return as_type(la.exponential(upcast(input)), input.dtype)
    return la.exponential(checked("matrix_exp", input))
