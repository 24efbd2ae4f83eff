"""Inverses, determinants, solutions and decompositions of matrices."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ... import dtypes
from ...modes import MODES
from .. import comparison as c
from .. import decompositions as d
from .. import elementwise as e
from .. import linear_algebra as la
from .. import movement as m
from .. import reduction as r
from .. import source as s
from .. import transcendental as t
from .. import values_alone as v
from ..contraction import transposed
from ..linear_algebra import adjoint
from ..precision import full_precision
from ..promotion import UnsupportedDtypeError
from ..table import function
from .common import Tensor, alone, as_type, check_tensor, conjugated, constant, is_tensor, shape_of
from .complex_numbers import real
from .matrices import matmul
from .shaping import contiguous
from .slicing import select
from .triangles import tril


class SignAndLogarithm(NamedTuple):
    """The sign of determinants and the logarithms of their absolute values."""

    sign: Tensor
    logabsdet: Tensor


class Factors(NamedTuple):
    """Q with orthonormal columns and upper triangular R."""

    Q: Tensor
    R: Tensor


class Eigen(NamedTuple):
    """Eigenvalues, ascending, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SingularValues(NamedTuple):
    """``U @ diag(S) @ Vh``."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def checked(name: str, x: Tensor) -> Tensor:
    """Matrices of float32 or float64, or of complex numbers."""
    check_tensor(name, x)
    if not x.dtype.is_differentiable:
        raise UnsupportedDtypeError(
            f"linalg.{name}: Expected a floating point or complex tensor as input. Got {x.dtype.title}"
        )
    if x.dtype.itemsize < 4:
        raise UnsupportedDtypeError(
            f"linalg.{name}: Low precision dtypes not supported. Got {x.dtype.title}"
        )
    return x


def lower_alone(x: Tensor) -> Tensor:
    """The same for what reads the lower triangle alone: where there is no gradient to share, ``x`` itself."""
    if hasattr(x, "_edge") and not (MODES.grad and x.requires_grad):
        return x
    return _symmetric(x)


def _symmetric(x: Tensor) -> Tensor:
    """The Hermitian matrix of which ``x`` has the lower triangle; both triangles share its gradient."""
    low = e.add(tril(x), adjoint(tril(x, -1)))
    if x.dtype.is_complex:  # the imaginary parts of the diagonal are not read
        low = e.where(la.on_diagonal(x), e.mul(e.add(low, conjugated(low)), 0.5), low)
    mean = e.mul(e.add(x, adjoint(x)), 0.5)
    moved = e.sub(
        mean, e.detach_copy(mean)
    )  # 0 with the gradient, but nan where the other triangle has no numbers
    return e.add(e.detach_copy(low), e.where(c.eq(moved, 0.0), moved, 0.0))


def _row_of_real(packed: Tensor, row: int) -> Tensor:
    """A row of real numbers among packed rows."""
    return apart(real(m.squeeze(la.rows_of(packed, row, 1), dims=(packed.ndim - 2,))))


def apart(values: Tensor) -> Tensor:
    """Values from among packed rows, one after the other in memory: programs look at them as other shapes."""
    return alone(contiguous(values))


@function(within=full_precision)
def inverse(input: Tensor) -> Tensor:
    """The inverse of square matrices.

    Raises ``RuntimeError`` for matrices that are not square, or singular.

    >>> import tracejit as tj
    >>> tj.inverse(tj.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return la.inverse(checked("inv", input))


@function()
def det(input: Tensor) -> Tensor:
    """The determinant of square matrices.

    >>> import tracejit as tj
    >>> tj.det(tj.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor(8.)
    """
    return la.determinant(checked("det", input))


@function()
def slogdet(input: Tensor) -> SignAndLogarithm:
    """The sign and the logarithm of the absolute value of determinants.

    >>> import tracejit as tj
    >>> tj.slogdet(tj.eye(2)).logabsdet
    tensor(0.)
    """
    checked("slogdet", input)
    if not input.dtype.is_complex:
        both = la.sign_and_log_determinant(input)
        return SignAndLogarithm(select(both, -1, 0), select(both, -1, 1))
    return SignAndLogarithm(la.determinant_sign(input), la.log_abs_determinant(input))


@function()
def logdet(input: Tensor) -> Tensor:
    """The logarithm of determinants; NaN where they are negative, and complex for complex matrices.

    >>> import tracejit as tj
    >>> tj.logdet(tj.eye(2))
    tensor(0.)
    """
    sign, logarithm = slogdet(input)
    if sign.dtype.is_complex:
        return e.add(t.log(sign), logarithm)
    return e.where(c.lt(sign, 0), math.nan, logarithm)


@function(within=full_precision)
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """The lower (or ``upper``) triangular factor of symmetric positive-definite matrices.

    Raises ``RuntimeError`` for other matrices.

    >>> import tracejit as tj
    >>> tj.cholesky(tj.tensor([[4.0, 0.0], [0.0, 9.0]]))
    tensor([[2., 0.],
            [0., 3.]])
    """
    checked("cholesky", input)
    lower = d.cholesky_lower(lower_alone(adjoint(input) if upper else input))
    return alone(adjoint(lower)) if upper else lower


def _rows(packed: Tensor, start: int, count: int) -> Tensor:
    """Rows of packed matrices, as a result of its own."""
    return alone(la.rows_of(packed, start, count))


@function(within=full_precision)
def qr(input: Tensor, some: bool = True) -> Factors:
    """The reduced QR decomposition.

    >>> import tracejit as tj
    >>> tj.qr(tj.tensor([[3.0], [4.0]])).R.abs()
    tensor([[5.]])
    """
    la.matrices(checked("qr", input).spec)
    rows, columns = shape_of(input)[-2:]
    if not some and rows > columns:
        return _complete_qr(input)
    if rows >= columns:
        packed = d.qr_packed(input)
        return Factors(_rows(packed, 0, rows), _rows(packed, rows, columns))
    square = m.slice(  # the first columns decide Q
        input,
        starts=(0,) * input.ndim,
        counts=(*shape_of(input)[:-1], rows),
        steps=(1,) * input.ndim,
    )
    packed = d.qr_packed(square)
    orthogonal = la.rows_of(packed, 0, rows)
    return Factors(orthogonal, matmul(adjoint(orthogonal), input))


def _complete_qr(x: Tensor) -> Factors:
    """A square Q, which has no gradient, and R with rows of zeros."""
    rows, columns = shape_of(x)[-2:]
    reduced = qr(e.detach_copy(x))
    orthogonal = m.cat(reduced.Q, d.complement(reduced.Q), dim=x.ndim - 1)
    zeros = s.full(shape=(*shape_of(x)[:-2], rows - columns, columns), value=0, dtype=x.dtype)
    return Factors(orthogonal, m.cat(reduced.R, zeros, dim=x.ndim - 2))


@function(method=False, namespace=False, within=full_precision)
def eigh(A: Tensor, UPLO: str = "L") -> Eigen:
    """Eigenvalues and eigenvectors of symmetric (Hermitian) matrices, of which one triangle is read.

    >>> import tracejit as tj
    >>> tj.linalg.eigh(tj.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    checked("eigh", A)
    UPLO = UPLO.upper()
    if UPLO not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    packed = d.eigen_symmetric(lower_alone(adjoint(A) if UPLO == "U" else A))
    return Eigen(_row_of_real(packed, 0), _rows(packed, 1, shape_of(A)[-1]))


@function(method=False, namespace=False, within=full_precision)
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues of symmetric matrices, ascending.

    >>> import tracejit as tj
    >>> tj.linalg.eigvalsh(tj.eye(2))
    tensor([1., 1.])
    """
    if UPLO.upper() not in ("L", "U") or not _values_alone("eigh", A):
        return eigh(A, UPLO).eigenvalues
    return v.eigenvalues_symmetric(lower_alone(adjoint(A) if UPLO.upper() == "U" else A))


def _values_alone(name: str, x: Tensor) -> bool:
    """Are values to be found without vectors, which a gradient would have to find anew?"""
    checked(name, x)
    return not (x.dtype.is_complex or (MODES.grad and getattr(x, "requires_grad", True)))


@function(method=False, namespace=False, within=full_precision)
def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> SingularValues:
    """The singular value decomposition; with ``full_matrices`` U and Vh are square. ``driver`` changes nothing.

    >>> import tracejit as tj
    >>> tj.linalg.svd(tj.tensor([[3.0, 0.0], [0.0, 4.0]])).S
    tensor([4., 3.])
    """
    checked("svd", A)
    rows, columns = shape_of(A)[-2:]
    if rows < columns:
        u, values, vh = svd(adjoint(A), full_matrices)
        return SingularValues(alone(adjoint(vh)), values, alone(adjoint(u)))
    packed = d.svd_packed(A)
    middle = _row_of_real(packed, rows)
    left = _rows(packed, 0, rows)
    if full_matrices and rows > columns:  # what completes a basis has no gradient
        left = m.cat(left, d.complement(e.detach_copy(left)), dim=A.ndim - 1)
    return SingularValues(left, middle, _rows(packed, rows + 1, columns))


@function(method=False, namespace=False, within=full_precision)
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """Singular values, descending. ``driver`` changes nothing.

    >>> import tracejit as tj
    >>> tj.linalg.svdvals(tj.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor([4., 3.])
    """
    checked("svd", A)
    la.matrices(A.spec)
    if not _values_alone("svd", A):
        return svd(A, False).S
    tall = A.ndim < 2 or shape_of(A)[-2] >= shape_of(A)[-1]
    return v.singular_values(A if tall else adjoint(A))


def is_vector(A: Tensor, B: Tensor) -> bool:
    """Are right hand sides vectors, one for each matrix, and not matrices?"""
    return bool(B.ndim == 1 or (B.ndim == A.ndim - 1 and shape_of(B) == shape_of(A)[:-1]))


@function(method=False, namespace=False, within=full_precision)
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with ``A @ X = B`` (or ``X @ A = B``); a vector B gives a vector X.

    Raises ``RuntimeError`` for singular matrices and shapes that do not fit.

    >>> import tracejit as tj
    >>> tj.linalg.solve(tj.tensor([[2.0, 0.0], [0.0, 4.0]]), tj.tensor([2.0, 4.0]))
    tensor([1., 1.])
    """
    checked("solve", A)
    checked("solve", B)
    if is_vector(A, B):
        column = m.unsqueeze(B, dims=(B.ndim,))
        return m.squeeze(solve(A, column, left=left), dims=(B.ndim,))
    if left:
        return la.solve(A, B)
    return transposed(la.solve(transposed(A), transposed(B)))


def _tolerances(A: Tensor, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """The least absolute and the least relative singular value that counts, as numbers or by matrix."""
    atol, rtol = (m.unsqueeze(x, dims=(x.ndim,)) if is_tensor(x) else x for x in (atol, rtol))
    if rtol is None:
        precision = float(np.finfo(A.dtype.np).eps) * max(shape_of(A)[-2:])
        if is_tensor(atol):
            rtol = e.where(c.gt(atol, 0), 0.0, precision)
        else:
            rtol = 0.0 if atol is not None and atol > 0 else precision
    return 0.0 if atol is None else atol, rtol


def _bound(A: Tensor, values: Tensor, atol: Any, rtol: Any) -> Any:
    """Singular values up to this count as zero: the greater of ``atol`` and ``rtol`` times the largest."""
    atol, rtol = _tolerances(A, atol, rtol)
    largest = r.amax(values, dims=(values.ndim - 1,), keepdim=True)
    return e.maximum(e.mul(largest, rtol), atol)


@function(method=False, namespace=False)
def pinv(
    A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """The Moore-Penrose inverse: singular values up to ``atol`` or ``rtol`` times the largest count as zero.

    ``rcond`` is an older name of ``rtol``.

    >>> import tracejit as tj
    >>> tj.linalg.pinv(tj.tensor([[2.0, 0.0], [0.0, 0.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    checked("pinv", A)
    rtol = rcond if rtol is None else rtol
    la.matrices(A.spec)
    if not A.spec.numel:
        return e.clone(adjoint(A))
    if hermitian:
        plain = e.detach_copy(A)
        A = e.add(A, e.sub(_symmetric(plain), plain))
    kind = A.dtype.to_real() if A.dtype.is_complex else A.dtype
    least = [
        as_type(e.detach_copy(x), kind) if is_tensor(x) else constant(x, kind, (1,))
        for x in _tolerances(A, atol, rtol)
    ]
    return d.pseudo_inverse(A, *least)


@function(within=full_precision)
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The Moore-Penrose inverse: singular values up to ``rcond`` times the largest count as zero.

    >>> import tracejit as tj
    >>> tj.pinverse(tj.tensor([[2.0]]))
    tensor([[0.5000]])
    """
    return pinv(input, rtol=rcond)


@function(method=False, namespace=False, within=full_precision)
def matrix_rank(
    A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """How many singular values exceed ``atol`` and ``rtol`` times the largest (default: extent times precision).

    ``tol`` is an older name of ``atol`` alone.

    >>> import tracejit as tj
    >>> tj.linalg.matrix_rank(tj.tensor([[1.0, 0.0], [0.0, 0.0]]))
    tensor(1)
    """
    checked("matrix_rank", A)
    if tol is not None:
        atol, rtol = tol, 0.0
    x = e.detach_copy(A)
    if not x.spec.numel:
        return s.full(shape=shape_of(x)[:-2], value=0, dtype=dtypes.int64)
    values = e.abs(eigvalsh(x)) if hermitian else svdvals(x)
    return r.sum(
        c.gt(values, _bound(x, values, atol, rtol)), dims=(values.ndim - 1,), keepdim=False
    )
