"""Linear algebra by LAPACK: inverses, determinants, solutions and decompositions of batches of matrices.

An op has one result; where a decomposition has several they are packed side by side and taken apart by the functions.
Gradients follow Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation"
(2008), for full-rank matrices and distinct eigenvalues.
"""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..errors import ShapeError
from ..types import TensorType
from .comparison import eq, gt, lt
from .contraction import matmul, transposed
from .elementwise import where
from .lapack import guarded, triangle_solver
from .movement import cat, slice, sum_to, unsqueeze
from .namespace import xp
from .reduction import wide
from .source import arange
from .table import Array, Sample, contraction

_SQUARE = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -1.0], [0.5, -1.0, 5.0]])
_TALL = np.array([[1.0, 2.0], [-3.0, 1.0], [0.5, 4.0]])


def _matrices(x: TensorType) -> TensorType:
    if x.ndim < 2:
        raise ShapeError(f"linalg: The input tensor A must have at least 2 dimensions, got {x}")
    return x


def _square(x: TensorType) -> TensorType:
    if _matrices(x).shape[-1] != x.shape[-2]:
        raise ShapeError(f"linalg: A must be batches of square matrices, but they are {x}")
    return x


def _numbered(x: Any) -> tuple[Any, Any]:
    """The numbers of the rows (a column) and of the columns (a row) of square matrices."""
    columns = arange(start=0, step=1, count=x.shape[-1], dtype=dtypes.int64)
    return unsqueeze(columns, dims=(1,)), columns


def triangle(x: Any, *, lower: bool, diagonal_share: float) -> Any:
    """A triangle of square matrices, its diagonal times ``diagonal_share``, zeros elsewhere."""
    rows, columns = _numbered(x)
    inside = gt(rows, columns) if lower else lt(rows, columns)
    return where(inside, x, where(eq(rows, columns), x * diagonal_share, 0.0))


def on_diagonal(x: Any) -> Any:
    """Where the diagonal of square matrices is."""
    rows, columns = _numbered(x)
    return eq(rows, columns)


def rows_of(x: Any, start: int, count: int) -> Any:
    """Rows of matrices."""
    shape = tuple(x.shape)
    starts = (*(0 for _ in shape[:-2]), start, 0)
    return slice(x, starts=starts, counts=(*shape[:-2], count, shape[-1]), steps=(1,) * len(shape))


# --- solutions ----------------------------------------------------------------------------------


def _inverse_grad(g: Any, out: Any) -> Any:
    turned = transposed(out)
    return -matmul(matmul(turned, g), turned)


@contraction(_square, grad=lambda g, out: _inverse_grad(g, out), samples=(Sample((_SQUARE,)),))
def inverse(x: Array) -> Array:
    """The inverse of each matrix."""
    return guarded("inv", xp(x).linalg.inv, x)


def _solve_type(a: TensorType, b: TensorType) -> TensorType:
    _square(a)
    if b.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise ShapeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation AX = B ({a} and {b})"
        )
    from . import shapes

    batch = shapes.broadcast("linalg.solve", [a.shape[:-2], b.shape[:-2]])
    return TensorType((*batch, *b.shape[-2:]), a.dtype)


@contraction(
    _solve_type,
    grad={
        "a": lambda g, a, a_type, out: sum_to(
            -matmul(solve(transposed(a), g), transposed(out)), a_type.shape
        ),
        "b": lambda g, a, b_type: sum_to(solve(transposed(a), g), b_type.shape),
    },
    samples=(Sample((_SQUARE, _TALL)),),
)
def solve(a: Array, b: Array) -> Array:
    """X with ``a @ X = b``."""
    n = xp(a, b)
    if n is not np:  # where batches are equal, not broadcast
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (n.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    return guarded("solve", n.linalg.solve, a, b)


def _triangle_grad(g: Any, a: Any, lower: bool) -> Any:
    return solve_triangle(transposed(a), g, lower=not lower)


@contraction(
    lambda a, b, lower: _solve_type(a, b),
    grad={
        "a": lambda g, a, a_type, out, lower: triangle(
            sum_to(-matmul(_triangle_grad(g, a, lower), transposed(out)), a_type.shape),
            lower=lower,
            diagonal_share=1.0,
        ),
        "b": lambda g, a, b_type, lower: sum_to(_triangle_grad(g, a, lower), b_type.shape),
    },
    samples=(
        Sample((_SQUARE, _TALL), {"lower": True}),
        Sample((np.stack([_SQUARE, 2 * _SQUARE]), _TALL), {"lower": False}),
    ),
)
def solve_triangle(a: Array, b: Array, *, lower: bool) -> Array:
    """X with ``a @ X = b``, of which the lower (upper) triangle of ``a`` is read; a zero on the diagonal divides."""
    left, right = wide(a), wide(b)
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    n = xp(a, b)
    out = n.empty((*batch, *right.shape[-2:]), right.dtype)
    if out.size:
        solved = triangle_solver(left, right, lower)
        left = n.broadcast_to(left, (*batch, *left.shape[-2:]))
        right = n.broadcast_to(right, out.shape)
        for index in np.ndindex(*batch):
            out[index] = solved(left[index], right[index])
    return out.astype(b.dtype, copy=False)


# --- determinants -------------------------------------------------------------------------------


def _number_type(x: TensorType) -> TensorType:
    return TensorType(_square(x).shape[:-2], x.dtype)


def _spread(g: Any) -> Any:
    """Numbers as 1 by 1 matrices."""
    return g.reshape((*g.shape, 1, 1))


@contraction(
    _number_type,
    grad=lambda g, x, out: _spread(g * out) * transposed(inverse(x)),
    samples=(Sample((_SQUARE,)),),
)
def determinant(x: Array) -> Array:
    """The determinant of each matrix; its gradient needs an inverse."""
    return xp(x).asarray(xp(x).linalg.det(wide(x)), x.dtype)


@contraction(
    _number_type,
    grad=lambda g, x: _spread(g) * transposed(inverse(x)),
    samples=(Sample((_SQUARE,)),),
)
def log_abs_determinant(x: Array) -> Array:
    """The logarithm of the absolute value of each determinant."""
    return xp(x).asarray(xp(x).linalg.slogdet(wide(x))[1], x.dtype)


@contraction(_number_type, samples=(Sample((_SQUARE,)),))
def determinant_sign(x: Array) -> Array:
    """The sign of each determinant."""
    return xp(x).asarray(xp(x).linalg.slogdet(wide(x))[0], x.dtype)


# --- decompositions -----------------------------------------------------------------------------


def _cholesky_grad(g: Any, out: Any) -> Any:
    """L^-T P(L^T g) L^-1, where P keeps the lower triangle and half of the diagonal; the lower triangle was read."""
    turned = transposed(out)
    middle = triangle(matmul(turned, g), lower=True, diagonal_share=0.5)
    left = solve_triangle(turned, middle, lower=False)
    return _of_lower(transposed(solve_triangle(turned, transposed(left), lower=False)))


def _of_lower(g: Any) -> Any:
    """The gradient of the lower triangle from that of a symmetric matrix."""
    return triangle(g + transposed(g), lower=True, diagonal_share=0.5)


@contraction(_square, grad=lambda g, out: _cholesky_grad(g, out), samples=(Sample((_SQUARE,)),))
def cholesky_lower(x: Array) -> Array:
    """The lower triangular L with ``L @ L.mT = x`` for symmetric positive-definite matrices."""
    return guarded("cholesky", xp(x).linalg.cholesky, x)


def _eigh_type(x: TensorType) -> TensorType:
    n = _square(x).shape[-1]
    return TensorType((*x.shape[:-2], n + 1, n), x.dtype)


def _eigh_grad(g: Any, out: Any) -> Any:
    """V (diag(gw) + (V^T gV) / (w_j - w_i)) V^T."""
    n = out.shape[-1]
    values, vectors = rows_of(out, 0, 1), rows_of(out, 1, n)
    apart = values - transposed(values)
    same = on_diagonal(apart)
    turned = transposed(vectors)
    mixed = matmul(turned, rows_of(g, 1, n)) / where(same, 1.0, apart)
    inner = where(same, transposed(rows_of(g, 0, 1)), mixed)
    return _of_lower(matmul(matmul(vectors, inner), turned))


@contraction(_eigh_type, grad=lambda g, out: _eigh_grad(g, out), samples=(Sample((_SQUARE,)),))
def eigen_symmetric(x: Array) -> Array:
    """Eigenvalues in the first row, eigenvectors as columns below, of symmetric matrices (lower triangle read)."""
    n = xp(x)

    def packed(x: Array) -> Array:
        values, vectors = n.linalg.eigh(x)
        return n.concatenate([values[..., None, :], vectors], -2)

    return guarded("eigh", packed, x)


def _qr_type(x: TensorType) -> TensorType:
    if _matrices(x).shape[-2] < x.shape[-1]:
        raise ShapeError(f"qr: expected matrices with at least as many rows as columns, got {x}")
    return TensorType((*x.shape[:-2], x.shape[-2] + x.shape[-1], x.shape[-1]), x.dtype)


def _qr_grad(g: Any, out: Any) -> Any:
    """(gQ + Q S(M)) R^-T with M = R gR^T - gQ^T Q and S(M) the lower triangle made symmetric."""
    k = out.shape[-1]
    m = out.shape[-2] - k
    q, r, gq = rows_of(out, 0, m), rows_of(out, m, k), rows_of(g, 0, m)
    gr = triangle(rows_of(g, m, k), lower=False, diagonal_share=1.0)
    mixed = matmul(r, transposed(gr)) - matmul(transposed(gq), q)
    low = triangle(mixed, lower=True, diagonal_share=0.5)
    inner = gq + matmul(q, low + transposed(low))
    return transposed(solve_triangle(r, transposed(inner), lower=False))


@contraction(_qr_type, grad=lambda g, out: _qr_grad(g, out), samples=(Sample((_TALL,)),))
def qr_packed(x: Array) -> Array:
    """Q above R of the reduced decomposition of tall matrices."""
    n = xp(x)
    return n.concatenate(n.linalg.qr(wide(x)), -2).astype(x.dtype, copy=False)


def _svd_type(x: TensorType) -> TensorType:
    if _matrices(x).shape[-2] < x.shape[-1]:
        raise ShapeError(f"svd: expected matrices with at least as many rows as columns, got {x}")
    rows, k = x.shape[-2:]
    return TensorType((*x.shape[:-2], rows + 1 + k, k), x.dtype)


def _skew(x: Any) -> Any:
    return x - transposed(x)


def _svd_grad(g: Any, out: Any) -> Any:
    """U ((skew(U^T gU) / E) S + S (skew(V^T gV) / E) + diag(gS)) V^T + (1 - U U^T) gU S^-1 V^T.

    E_ij = s_j^2 - s_i^2.
    """
    k = out.shape[-1]
    m = out.shape[-2] - 1 - k
    u, s, vh = rows_of(out, 0, m), rows_of(out, m, 1), rows_of(out, m + 1, k)
    gu, gs, gvh = rows_of(g, 0, m), rows_of(g, m, 1), rows_of(g, m + 1, k)
    between = s * s - transposed(s) * transposed(s)
    same = on_diagonal(between)
    apart = where(same, 1.0, between)
    left = _skew(matmul(transposed(u), gu)) / apart
    right = _skew(matmul(vh, transposed(gvh))) / apart
    inner = left * s + transposed(s) * right + where(same, transposed(gs), 0.0)
    found = matmul(matmul(u, inner), vh)
    if m == k:
        return found
    outside = gu - matmul(u, matmul(transposed(u), gu))
    return found + matmul(outside / s, vh)


@contraction(_svd_type, grad=lambda g, out: _svd_grad(g, out), samples=(Sample((_TALL,)),))
def svd_packed(x: Array) -> Array:
    """U, a row of singular values, and V^T below each other, of tall matrices."""
    n = xp(x)

    def packed(x: Array) -> Array:
        u, s, vh = n.linalg.svd(x, full_matrices=False)
        return n.concatenate([u, s[..., None, :], vh], -2)

    return guarded("svd", packed, x)


def _complement_type(x: TensorType) -> TensorType:
    rows, columns = _matrices(x).shape[-2:]
    return TensorType((*x.shape[:-1], rows - columns), x.dtype)


@contraction(_complement_type, samples=(Sample((_TALL,)),))
def complement(x: Array) -> Array:
    """Orthonormal columns that, with the orthonormal columns of x, make a square orthogonal matrix."""
    whole, _ = xp(x).linalg.qr(wide(x), mode="complete")
    return whole[..., :, x.shape[-1] :].astype(x.dtype, copy=False)


def _exponential_grad(g: Any, x: Any) -> Any:
    """The upper right block of exp([[x^T, g], [0, x^T]])."""
    n, turned = x.shape[-1], transposed(x)
    zero = turned * 0.0
    whole = cat(cat(turned, g, dim=x.ndim - 1), cat(zero, turned, dim=x.ndim - 1), dim=x.ndim - 2)
    shape = tuple(x.shape)
    return slice(
        exponential(whole),
        starts=(*(0 for _ in shape[:-1]), n),
        counts=shape,
        steps=(1,) * len(shape),
    )


@contraction(
    _square, grad=lambda g, x: _exponential_grad(g, x), samples=(Sample((_SQUARE * 0.2,)),)
)
def exponential(x: Array) -> Array:
    """The exponential of each matrix."""
    if not x.size:
        return x.copy()
    if xp(x) is np:
        import scipy.linalg

        return scipy.linalg.expm(wide(x)).astype(x.dtype, copy=False)
    import cupyx.scipy.linalg  # one matrix at a time

    matrices = wide(x).reshape((-1, *x.shape[-2:]))
    found = [cupyx.scipy.linalg.expm(matrices[i]) for i in range(len(matrices))]
    return xp(x).stack(found).reshape(x.shape).astype(x.dtype, copy=False)
