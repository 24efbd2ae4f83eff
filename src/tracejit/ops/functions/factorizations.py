"""Eigenvalues of any square matrices, and triangular factors with exchanges of rows."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ... import dtypes
from ...errors import ShapeError
from .. import comparison as c
from .. import decompositions as d
from .. import elementwise as e
from .. import linear_algebra as la
from .. import movement as m
from .. import source as s
from ..contraction import transposed
from ..precision import full_precision, given_precision
from ..symmetric_factors import ldl_packed, ldl_solution
from ..table import alias, function
from .checked_systems import first_of, numbers_where_none, refuse_any
from .common import Number, Tensor, alone, as_type, shape_of
from .complex_numbers import abs as magnitude
from .complex_numbers import real
from .linear_algebra import apart, checked, is_vector, svdvals
from .matrices import matmul
from .matrix_norms import matrix_norm
from .slicing import narrow, select
from .triangles import eye, tril, triu


class GeneralEigen(NamedTuple):
    """Eigenvalues and eigenvectors (as columns) of any square matrices: complex numbers."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class LUFactors(NamedTuple):
    """``P @ L @ U``."""

    P: Tensor
    L: Tensor
    U: Tensor


class PackedLU(NamedTuple):
    """L and U in one matrix, and the rows (from one) that rows were exchanged with."""

    LU: Tensor
    pivots: Tensor


class PackedLUInfo(NamedTuple):
    """:class:`PackedLU`, and for each matrix 0 or the number (from one) of a zero pivot."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


class PackedLDL(NamedTuple):
    """L and D in one matrix, and how rows were exchanged (LAPACK's numbers)."""

    LD: Tensor
    pivots: Tensor


class PackedLDLInfo(NamedTuple):
    """:class:`PackedLDL`, and for each matrix 0 or the number (from one) of a zero on the diagonal of D."""

    LD: Tensor
    pivots: Tensor
    info: Tensor


class Solution(NamedTuple):
    """A solution, and for each matrix 0, or where it is singular the number (from one) of a zero pivot."""

    result: Tensor
    info: Tensor


class Inverse(NamedTuple):
    """An inverse, and for each matrix 0, or where it is singular the number (from one) of a zero pivot."""

    inverse: Tensor
    info: Tensor


@function(method=False, namespace=False, within=full_precision)
def eig(A: Tensor) -> GeneralEigen:
    """Eigenvalues and eigenvectors of square matrices, complex also where the matrices are real.

    Raises ``RuntimeError`` for matrices that are not square. Gradients are those of results that do not depend on the
    phases of the eigenvectors.

    >>> import tracejit as tj
    >>> tj.linalg.eig(tj.tensor([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues
    tensor([0.+1.j, 0.-1.j])
    """
    packed = d.eigen_general(checked("eig", A))
    values = apart(m.squeeze(la.rows_of(packed, 0, 1), dims=(A.ndim - 2,)))
    return GeneralEigen(values, la.rows_of(packed, 1, shape_of(A)[-1]))


@function(method=False, namespace=False, within=full_precision)
def eigvals(A: Tensor) -> Tensor:
    """Eigenvalues of square matrices: complex numbers.

    >>> import tracejit as tj
    >>> tj.linalg.eigvals(tj.eye(1))
    tensor([1.+0.j])
    """
    return eig(A).eigenvalues


# --- LU -----------------------------------------------------------------------------------------


def _pivoted(name: str, A: Tensor, pivot: bool, singular: bool = True) -> PackedLU:
    checked(name, A)
    if not pivot:
        raise RuntimeError(f"{name}: LU without pivoting is not implemented on the CPU")
    rows, columns = la.matrices(A.spec).shape[-2:]
    packed = d.lu_packed(A, singular=singular)
    exchanges = select(narrow(packed, -2, 0, min(rows, columns)), -1, columns)
    return PackedLU(
        alone(narrow(packed, -1, 0, columns)),
        as_type(real(e.detach_copy(exchanges)), dtypes.int32),
    )


@function(method=False, namespace=False)
def lu_factor(A: Tensor, *, pivot: bool = True) -> PackedLU:
    """L (without its diagonal of ones) and U in one matrix, with the exchanges of rows.

    Raises ``RuntimeError`` for a zero on the diagonal of U, and when ``pivot`` is false.

    >>> import tracejit as tj
    >>> tj.linalg.lu_factor(tj.tensor([[1.0, 2.0], [2.0, 2.0]]))
    PackedLU(LU=tensor([[2.0000, 2.0000],
            [0.5000, 1.0000]]), pivots=tensor([2, 2], dtype=tracejit.int32))
    """
    return _pivoted("linalg.lu_factor", A, pivot, singular=False)


@function(method=False, namespace=False)
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> PackedLUInfo:
    """:func:`lu_factor` and ``info``: 0, or the number (from one) of the first zero on the diagonal of U.

    Raises ``RuntimeError`` for such matrices with ``check_errors``.

    >>> import tracejit as tj
    >>> tj.linalg.lu_factor_ex(tj.zeros(2, 2)).info
    tensor(1, dtype=tracejit.int32)
    """
    packed = _pivoted("linalg.lu_factor_ex", A, pivot)
    diagonal = m.diagonal(e.detach_copy(packed.LU), offset=0, dim1=A.ndim - 2, dim2=A.ndim - 1)
    info = first_of(c.eq(diagonal, 0))
    if check_errors:
        refuse_any("lu_factor", info)
    return PackedLUInfo(packed.LU, packed.pivots, info)


@function(method=False, namespace=False)
def lu(A: Tensor, *, pivot: bool = True) -> LUFactors:
    """A permutation, a lower triangle with ones on its diagonal, and an upper triangle: ``A = P @ L @ U``.

    Raises ``RuntimeError`` when ``pivot`` is false.

    >>> import tracejit as tj
    >>> tj.linalg.lu(tj.tensor([[1.0, 2.0], [2.0, 2.0]])).U
    tensor([[2., 2.],
            [0., 1.]])
    """
    return LUFactors(*lu_unpack(*_pivoted("linalg.lu", A, pivot)))


@function(method=False)
def lu_unpack(
    LU_data: Tensor,
    LU_pivots: Tensor,
    unpack_data: bool = True,
    unpack_pivots: bool = True,
) -> LUFactors:
    """P, L and U of a packed factorisation; what is not asked for is empty.

    >>> import tracejit as tj
    >>> tj.lu_unpack(*tj.linalg.lu_factor(tj.tensor([[1.0, 2.0], [2.0, 2.0]]))).P
    tensor([[0., 1.],
            [1., 0.]])
    """
    rows, columns = shape_of(LU_data)[-2:]
    small = min(rows, columns)
    order = lower = upper = s.full(shape=(0,), value=0, dtype=LU_data.dtype)
    if unpack_pivots:
        order = as_type(d.row_order(LU_pivots, rows), LU_data.dtype)
    if unpack_data:
        ones = eye(rows, small, dtype=LU_data.dtype)
        lower = e.add(tril(narrow(LU_data, -1, 0, small), -1), ones)
        upper = triu(narrow(LU_data, -2, 0, small))
    return LUFactors(order, lower, upper)


@function(method=False, namespace=False, within=given_precision)
def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """X with ``A @ X = B`` (or ``X @ A = B``), where A, or with ``adjoint`` its adjoint, was factored.

    Raises ``RuntimeError`` for shapes that do not fit.

    >>> import tracejit as tj
    >>> tj.linalg.lu_solve(*tj.linalg.lu_factor(tj.tensor([[1.0, 2.0], [2.0, 2.0]])), tj.tensor([[3.0], [4.0]]))
    tensor([[1.],
            [1.]])
    """
    if not left:  # X A = B is A^H X^H = B^H
        found = lu_solve(LU, pivots, la.adjoint(B), adjoint=not adjoint)
        return la.adjoint(found)
    checked("lu_solve", LU)
    if shape_of(LU)[-1] != shape_of(B)[-2]:
        raise ShapeError(
            f"linalg.lu_solve: Incompatible shapes of A and B for the equation AX = B ({LU.spec} and {B.spec})"
        )
    order, lower, upper = lu_unpack(LU, pivots)
    if adjoint:
        half = la.solve_triangle(la.adjoint(upper), B, lower=True)
        return matmul(order, la.solve_triangle(la.adjoint(lower), half, lower=False))
    half = la.solve_triangle(lower, matmul(transposed(order), B), lower=True)
    return la.solve_triangle(upper, half, lower=False)


def _packed_lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """The packed factors and exchanges of :func:`tracejit.linalg.lu_factor`, with ``get_infos`` also zeros or pivots.

    >>> import tracejit as tj
    >>> tj.eye(2).lu()[1]
    tensor([1, 2], dtype=tracejit.int32)
    """
    found = lu_factor_ex(A, pivot=pivot)
    return (found.LU, found.pivots, found.info) if get_infos else (found.LU, found.pivots)


def _solve_packed(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """:func:`tracejit.linalg.lu_solve` with the right hand side first.

    >>> import tracejit as tj
    >>> tj.ones(1, 1).lu_solve(*tj.tensor([[2.0]]).lu())
    tensor([[0.5000]])
    """
    return lu_solve(LU_data, LU_pivots, b)


alias("lu", _packed_lu)
alias("lu_solve", _solve_packed)


@function(method=False, namespace=False, within=given_precision)
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Solution:
    """The solution of ``A @ X = B`` and ``info``: 0, or where a matrix is singular (and the solution NaN) the number
    (from one) of its first zero pivot.

    Raises ``RuntimeError`` for such matrices with ``check_errors``, and for shapes that do not fit.

    >>> import tracejit as tj
    >>> tj.linalg.solve_ex(tj.eye(1), tj.ones(1)).result
    tensor([1.])
    """
    checked("solve_ex", B)
    if is_vector(A, B):
        column = solve_ex(A, m.unsqueeze(B, dims=(B.ndim,)), left=left, check_errors=check_errors)
        return Solution(m.squeeze(column.result, dims=(B.ndim,)), column.info)
    packed = lu_factor_ex(A)
    if check_errors:
        refuse_any("solve", packed.info)
    found = lu_solve(packed.LU, packed.pivots, B, left=left)
    return Solution(numbers_where_none(packed.info, found), packed.info)


@function(method=False, namespace=False, within=full_precision)
def inv_ex(A: Tensor, *, check_errors: bool = False) -> Inverse:
    """The inverse and ``info``: 0, or where a matrix is singular (and the inverse NaN) the number (from one) of its
    first zero pivot.

    Raises ``RuntimeError`` for such matrices with ``check_errors``, and for matrices that are not square.

    >>> import tracejit as tj
    >>> tj.linalg.inv_ex(tj.tensor([[[2.0]], [[0.0]]]))
    Inverse(inverse=tensor([[[0.5000]],
    <BLANKLINE>
            [[   nan]]]), info=tensor([0, 1], dtype=tracejit.int32))
    """
    la.square(checked("inv_ex", A).spec)
    packed = lu_factor_ex(A)
    if check_errors:
        refuse_any("inv", packed.info)
    found = lu_solve(packed.LU, packed.pivots, eye(shape_of(A)[-1], dtype=A.dtype))
    return Inverse(numbers_where_none(packed.info, found), packed.info)


@function(method=False, namespace=False, within=full_precision)
def cond(A: Tensor, p: Number | str | None = None) -> Tensor:
    """How much larger relative errors may become: the product of the ``p`` norms of a matrix and its inverse.

    Without ``p``, and for 2 and -2, a ratio of singular values; infinite for singular matrices. Raises
    ``RuntimeError`` for other norms, and for vectors.

    >>> import tracejit as tj
    >>> tj.linalg.cond(tj.tensor([[1.0, 0.0], [0.0, 4.0]]))
    tensor(4.)
    """
    la.matrices(A.spec)
    if p is None or p in (2, -2):
        values = svdvals(A)
        first, last = values[..., 0], values[..., -1]
        return e.div(last, first) if p == -2 else e.div(first, last)
    own = matrix_norm(A, p)
    found, info = inv_ex(A)
    singular = c.ne(info, 0)
    found = e.where(singular[..., None, None], 0.0, found)
    return e.where(singular, math.inf, e.mul(own, matrix_norm(found, p)))


# --- LDL ----------------------------------------------------------------------------------------


@function(method=False, namespace=False)
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> PackedLDL:
    """L (a lower triangle with ones on its diagonal, rows exchanged) and D of ``A = L @ D @ L.mT``.

    D has blocks of one or two rows; A is symmetric, with ``hermitian`` Hermitian, and its lower triangle is read.
    There is no gradient.

    >>> import tracejit as tj
    >>> tj.linalg.ldl_factor(tj.tensor([[4.0, 2.0], [2.0, 3.0]])).LD
    tensor([[4.0000, 0.0000],
            [0.5000, 2.0000]])
    """
    packed = ldl_packed(checked("ldl_factor", A), hermitian=hermitian)
    n = shape_of(A)[-1]
    exchanges = as_type(real(select(packed, -1, n)), dtypes.int32)
    return PackedLDL(narrow(packed, -1, 0, n), exchanges)


@function(method=False, namespace=False)
def ldl_factor_ex(
    A: Tensor, *, hermitian: bool = False, check_errors: bool = False
) -> PackedLDLInfo:
    """:func:`ldl_factor` and ``info``: 0, or the number (from one) of the first block of D that is zero or no number.

    Raises ``RuntimeError`` for such matrices with ``check_errors``.

    >>> import tracejit as tj
    >>> tj.linalg.ldl_factor_ex(tj.eye(2)).info
    tensor(0, dtype=tracejit.int32)
    """
    packed = ldl_factor(A, hermitian=hermitian)
    diagonal = m.diagonal(e.detach_copy(packed.LD), offset=0, dim1=A.ndim - 2, dim2=A.ndim - 1)
    none = c.logical_not(c.gt(magnitude(diagonal), 0))
    info = first_of(c.logical_and(none, c.gt(packed.pivots, 0)))
    if check_errors:
        refuse_any("ldl_factor", info)
    return PackedLDLInfo(packed.LD, packed.pivots, info)


@function(method=False, namespace=False)
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """X with ``A @ X = B`` where A was factored by :func:`ldl_factor`. There is no gradient.

    >>> import tracejit as tj
    >>> tj.linalg.ldl_solve(*tj.linalg.ldl_factor(tj.tensor([[4.0]])), tj.ones(1, 1))
    tensor([[0.2500]])
    """
    return ldl_solution(checked("ldl_solve", LD), pivots, B, hermitian=hermitian)
