"""Decompositions of batches of matrices by LAPACK: Cholesky, QR, singular values, eigenvalues, LU.

An op has one result; where a decomposition has several they are packed side by side and taken apart by the functions.
Gradients follow Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation"
(2008), for full-rank matrices and distinct eigenvalues. The phases of complex vectors are not determined by the matrix,
so only results that do not depend on them have a gradient.
"""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from .. import dtypes
from ..errors import ShapeError
from ..types import TensorType
from . import packed
from .comparison import eq
from .complex_numbers import conjugated
from .contraction import matmul, transposed
from .elementwise import cast, where
from .lapack import guarded, like_given, on_the_host, refusing, regular
from .library_threads import small_on_one_thread
from .linear_algebra import (
    SQUARE,
    TALL,
    adjoint,
    matrices,
    on_diagonal,
    rows_of,
    solve,
    solve_triangle,
    square,
    triangle,
)
from .movement import cat, slice, squeeze, unsqueeze
from .namespace import wide, xp
from .reduction import sum
from .source import arange
from .table import Array, Sample, contraction

#: Complex matrices; the second is Hermitian and positive definite.
_COMPLEX = SQUARE + 0.5j * TALL[:, :1]
_HERMITIAN = SQUARE + 0.5j * (np.triu(np.ones((3, 3)), 1) - np.tril(np.ones((3, 3)), -1))


def _of_gradients(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule written for gradients, not for derivatives, which are their conjugates."""

    @wraps(rule)
    def turned(g: Any, out: Any) -> Any:
        return conjugated(rule(conjugated(g), out))

    return turned


def _columns_of(x: Any, start: int, count: int) -> Any:
    """Columns of matrices."""
    shape = tuple(x.shape)
    starts = (*(0 for _ in shape[:-1]), start)
    return slice(x, starts=starts, counts=(*shape[:-1], count), steps=(1,) * len(shape))


def _nonzero(x: Any) -> Any:
    """x with ones for zeros: what is divided by it is zero there."""
    return where(x == 0, 1.0, x)


# --- symmetric matrices -------------------------------------------------------------------------


@_of_gradients
def _cholesky_grad(g: Any, out: Any) -> Any:
    """L^-H P(L^H g) L^-1, where P keeps the lower triangle and half of the diagonal; the lower triangle was read."""
    turned = adjoint(out)
    middle = triangle(matmul(turned, g), lower=True, diagonal_share=0.5)
    left = solve_triangle(turned, middle, lower=False)
    return of_lower(adjoint(solve_triangle(turned, adjoint(left), lower=False)))


def of_lower(g: Any) -> Any:
    """The gradient of the lower triangle from that of a Hermitian matrix."""
    return triangle(g + adjoint(g), lower=True, diagonal_share=0.5)


@contraction(square, grad=_cholesky_grad, samples=(Sample((SQUARE,)), Sample((_HERMITIAN,))))
@small_on_one_thread
def cholesky_lower(x: Array) -> Array:
    """The lower triangular L with ``L @ L.mH = x`` for Hermitian positive-definite matrices."""
    return guarded("cholesky", packed.cholesky, x)


def _one_row_more(x: TensorType) -> TensorType:
    n = square(x).shape[-1]
    return TensorType((*x.shape[:-2], n + 1, n), x.dtype)


def _tried_grad(g: Any, out: Any) -> Any:
    n = out.shape[-1]
    return _cholesky_grad(rows_of(g, 0, n), rows_of(out, 0, n))


@contraction(
    _one_row_more,
    grad=_tried_grad,
    samples=(Sample((SQUARE,)), Sample((np.stack([SQUARE, 2 * SQUARE]),)), Sample((_HERMITIAN,))),
)
@small_on_one_thread
def cholesky_tried(x: Array) -> Array:
    """`cholesky_lower` above a row that begins with 0; with the order of a minor, below NaN, where there is none."""
    return like_given(packed.cholesky_tried(on_the_host(x)), x)


@_of_gradients
def _eigh_grad(g: Any, out: Any) -> Any:
    """V (diag(gw) + (V^H gV) / (w_j - w_i)) V^H."""
    n = out.shape[-1]
    values, vectors = rows_of(out, 0, 1), rows_of(out, 1, n)
    apart = values - transposed(values)
    turned = adjoint(vectors)
    mixed = matmul(turned, rows_of(g, 1, n)) / _nonzero(apart)
    inner = where(on_diagonal(apart), transposed(rows_of(g, 0, 1)), mixed)
    return of_lower(matmul(matmul(vectors, inner), turned))


@contraction(_one_row_more, grad=_eigh_grad, samples=(Sample((SQUARE,)),))
@small_on_one_thread
def eigen_symmetric(x: Array) -> Array:
    """Eigenvalues in the first row, eigenvectors as columns below, of Hermitian matrices (lower triangle read)."""
    return guarded("eigh", packed.eigh, x)


# --- any square matrices ------------------------------------------------------------------------


def _eig_type(x: TensorType) -> TensorType:
    kind = _one_row_more(x)
    return TensorType(kind.shape, x.dtype if x.dtype.is_complex else x.dtype.to_complex())


@_of_gradients
def _eig_grad(g: Any, out: Any) -> Any:
    """V^-H (diag(gw) + (V^H gV - V^H V Re(diag(V^H gV))) / conj(w_j - w_i)) V^H."""
    n = out.shape[-1]
    values, vectors = rows_of(out, 0, 1), rows_of(out, 1, n)
    turned = adjoint(vectors)
    mixed = matmul(turned, rows_of(g, 1, n))
    same = on_diagonal(mixed)
    along = sum(where(same, mixed, 0.0), dims=(mixed.ndim - 2,), keepdim=True)
    along = (along + conjugated(along)) * 0.5
    apart = conjugated(values - transposed(values))
    across = (mixed - matmul(turned, vectors) * along) / _nonzero(apart)
    inner = where(same, transposed(rows_of(g, 0, 1)), across)
    return solve(turned, matmul(inner, turned))


@contraction(_eig_type, grad=_eig_grad, samples=(Sample((SQUARE,)),))
@small_on_one_thread
def eigen_general(x: Array) -> Array:
    """Eigenvalues in the first row, eigenvectors as columns below, of square matrices: complex numbers."""
    n = xp(x)
    kind = np.complex128 if wide(x).real.dtype.itemsize == 8 else np.complex64
    if not x.size:
        return n.zeros((*x.shape[:-2], x.shape[-1] + 1, x.shape[-1]), kind)
    values, vectors = refusing("eig", n.linalg.eig, wide(x))
    return n.concatenate([values[..., None, :], vectors], -2).astype(kind, copy=False)


# --- orthogonal factors -------------------------------------------------------------------------


def _qr_type(x: TensorType) -> TensorType:
    if matrices(x).shape[-2] < x.shape[-1]:
        raise ShapeError(f"qr: expected matrices with at least as many rows as columns, got {x}")
    return TensorType((*x.shape[:-2], x.shape[-2] + x.shape[-1], x.shape[-1]), x.dtype)


@_of_gradients
def _qr_grad(g: Any, out: Any) -> Any:
    """(gQ + Q S(M)) R^-H with M = R gR^H - gQ^H Q and S(M) the lower triangle made Hermitian."""
    k = out.shape[-1]
    m = out.shape[-2] - k
    q, r, gq = rows_of(out, 0, m), rows_of(out, m, k), rows_of(g, 0, m)
    gr = triangle(rows_of(g, m, k), lower=False, diagonal_share=1.0)
    mixed = matmul(r, adjoint(gr)) - matmul(adjoint(gq), q)
    low = triangle(mixed, lower=True, diagonal_share=0.5)
    inner = gq + matmul(q, low + adjoint(low))
    return adjoint(solve_triangle(r, adjoint(inner), lower=False))


@contraction(_qr_type, grad=_qr_grad, samples=(Sample((TALL,)), Sample((_COMPLEX,))))
@small_on_one_thread
def qr_packed(x: Array) -> Array:
    """Q above R of the reduced decomposition of tall matrices."""
    return packed.qr(wide(x)).astype(x.dtype, copy=False)


def _svd_type(x: TensorType) -> TensorType:
    if matrices(x).shape[-2] < x.shape[-1]:
        raise ShapeError(f"svd: expected matrices with at least as many rows as columns, got {x}")
    rows, k = x.shape[-2:]
    return TensorType((*x.shape[:-2], rows + 1 + k, k), x.dtype)


def _skew(x: Any) -> Any:
    return x - adjoint(x)


@_of_gradients
def _svd_grad(g: Any, out: Any) -> Any:
    """U ((skew(U^H gU) / E) S + S (skew(V^H gV) / E) + diag(gS)) V^H + (1 - U U^H) gU S^-1 V^H.

    E_ij = s_j^2 - s_i^2; on the diagonal of the first two terms, which is imaginary, half of skew(U^H gU) / S.
    """
    k = out.shape[-1]
    m = out.shape[-2] - 1 - k
    u, s, vh = rows_of(out, 0, m), rows_of(out, m, 1), rows_of(out, m + 1, k)
    gu, gs, gvh = rows_of(g, 0, m), rows_of(g, m, 1), rows_of(g, m + 1, k)
    apart = _nonzero(s * s - transposed(s) * transposed(s))
    turns = _skew(matmul(adjoint(u), gu))
    right = _skew(matmul(vh, adjoint(gvh))) / apart
    inside = _nonzero(s)
    along = transposed(gs) + turns / inside * 0.5
    inner = where(on_diagonal(apart), along, turns / apart * s + transposed(s) * right)
    found = matmul(matmul(u, inner), vh)
    if m == k:
        return found
    outside = gu - matmul(u, matmul(adjoint(u), gu))
    return found + matmul(outside / inside, vh)


@contraction(_svd_type, grad=_svd_grad, samples=(Sample((TALL,)),))
@small_on_one_thread
def svd_packed(x: Array) -> Array:
    """U, a row of singular values, and V^H below each other, of tall matrices."""
    return guarded("svd", packed.svd, x)


def _complement_type(x: TensorType) -> TensorType:
    rows, columns = matrices(x).shape[-2:]
    return TensorType((*x.shape[:-1], rows - columns), x.dtype)


@contraction(_complement_type, samples=(Sample((TALL,)),))
@small_on_one_thread
def complement(x: Array) -> Array:
    """Orthonormal columns that, with the orthonormal columns of x, make a square orthogonal matrix."""
    whole, _ = xp(x).linalg.qr(wide(x), mode="complete")
    return whole[..., :, x.shape[-1] :].astype(x.dtype, copy=False)


# --- triangular factors -------------------------------------------------------------------------


def _lu_type(x: TensorType, *, singular: bool) -> TensorType:
    return TensorType((*matrices(x).shape[:-1], x.shape[-1] + 1), x.dtype)


def _identity(n: int, dtype: Any) -> Any:
    numbers = arange(start=0, step=1, count=n, dtype=dtypes.int64)
    return cast(eq(unsqueeze(numbers, dims=(1,)), numbers), dtype=dtype)


def row_order(pivots: Any, rows: int) -> Any:
    """P with ``A = P @ L @ U``, of the exchanges of rows (counted from one) that a factorisation made."""
    numbers = order_of_pivots(pivots, rows=rows)
    places = arange(start=0, step=1, count=rows, dtype=dtypes.int64)
    return eq(unsqueeze(places, dims=(1,)), unsqueeze(numbers, dims=(numbers.ndim - 1,)))


def _lu_grad(g: Any, out: Any, x_type: TensorType, singular: bool) -> Any:
    """P L^-H (tril(L^H gL) + triu(gU U^H)) U^-H, the part that is not square by substitution."""
    m, n = x_type.shape[-2:]
    k = min(m, n)
    g, packed = conjugated(g), _columns_of(out, 0, n)
    pivots = squeeze(rows_of(_columns_of(out, n, 1), 0, k), dims=(out.ndim - 1,))
    top, gtop = rows_of(packed, 0, k), rows_of(g, 0, k)
    corner, gcorner = _columns_of(top, 0, k), _columns_of(gtop, 0, k)
    lower = triangle(corner, lower=True, diagonal_share=0.0) + _identity(k, x_type.dtype)
    upper = triangle(corner, lower=False, diagonal_share=1.0)
    glower = triangle(gcorner, lower=True, diagonal_share=0.0)
    gupper = triangle(gcorner, lower=False, diagonal_share=1.0)
    below, above = matmul(adjoint(lower), glower), matmul(gupper, adjoint(upper))
    if n > k:
        rest, grest = _columns_of(top, k, n - k), _columns_of(gtop, k, n - k)
        below = below - matmul(grest, adjoint(rest))
    if m > k:
        low, glow = _columns_of(rows_of(packed, k, m - k), 0, k), rows_of(g, k, m - k)
        glow = _columns_of(glow, 0, k)
        above = above - matmul(adjoint(low), glow)
    inner = triangle(below, lower=True, diagonal_share=0.0) + triangle(
        above, lower=False, diagonal_share=1.0
    )
    turned = adjoint(lower)
    half = solve_triangle(turned, inner, lower=False)
    found = adjoint(solve_triangle(upper, adjoint(half), lower=False))
    if n > k:
        found = cat(found, solve_triangle(turned, grest, lower=False), dim=found.ndim - 1)
    if m > k:
        found = cat(
            found, adjoint(solve_triangle(upper, adjoint(glow), lower=False)), dim=found.ndim - 2
        )
    order = cast(row_order(pivots, m), dtype=x_type.dtype)
    return conjugated(matmul(order, found))


@contraction(
    _lu_type,
    grad=_lu_grad,
    samples=(
        *(Sample((x,), {"singular": True}) for x in (SQUARE, TALL, TALL.T.copy(), _COMPLEX)),
        Sample((SQUARE,), {"singular": False}),
    ),
)
@small_on_one_thread
def lu_packed(x: Array, *, singular: bool) -> Array:
    """L without its diagonal and U in one matrix; the row (from one) each was exchanged with in a last column.

    Zeros on the diagonal of U are refused unless matrices may be ``singular``.
    """
    found = packed.lu(wide(x))
    if not singular:
        regular(found[..., :-1])
    return found.astype(x.dtype, copy=False)


def _order_type(pivots: TensorType, *, rows: int) -> TensorType:
    return TensorType((*pivots.shape[:-1], rows), dtypes.int64)


@contraction(_order_type, samples=(Sample((np.array([[3, 2], [2, 2]]),), {"rows": 3}),))
def order_of_pivots(pivots: Array, *, rows: int) -> Array:
    """Where each row of the factors stands in the matrix, of exchanges of rows counted from one."""
    n = xp(pivots)
    order = n.broadcast_to(n.arange(rows), (*pivots.shape[:-1], rows)).copy()
    if not order.size:
        return order
    each = order.reshape(-1, rows)
    exchanges = pivots.reshape(len(each), pivots.shape[-1]).real.astype(np.int64) - 1
    numbers = n.arange(len(each))
    for i in range(pivots.shape[-1]):
        other, here = exchanges[:, i], each[:, i].copy()
        each[:, i] = each[numbers, other]
        each[numbers, other] = here
    return order


# --- pseudo-inverses ----------------------------------------------------------------------------


def _pinv_type(x: TensorType, atol: TensorType, rtol: TensorType) -> TensorType:
    return TensorType((*matrices(x).shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)


def _pinv_grad(g: Any, x: Any, out: Any) -> Any:
    """-P^H g P^H + (1 - x P) g^H P P^H + P^H P g^H (1 - P x) (Golub and Pereyra 1973)."""
    g, turned, back = conjugated(g), adjoint(out), adjoint(conjugated(g))
    rows = matmul(back, matmul(out, turned))
    columns = matmul(matmul(turned, out), back)
    left = rows - matmul(x, matmul(out, rows))
    right = columns - matmul(matmul(columns, out), x)
    return conjugated(left + right - matmul(turned, matmul(g, turned)))


@contraction(
    _pinv_type,
    grad={"x": _pinv_grad},
    samples=tuple(Sample((x, np.zeros(1), np.full(1, 1e-9))) for x in (TALL, TALL.T.copy())),
)
@small_on_one_thread
def pseudo_inverse(x: Array, atol: Array, rtol: Array) -> Array:
    """The Moore-Penrose inverse; singular values up to ``atol`` or ``rtol`` times the largest count as zero."""
    n, (rows, columns) = xp(x), x.shape[-2:]
    if rows < columns:
        found = pseudo_inverse.evaluate((n.conj(n.swapaxes(x, -1, -2)), atol, rtol), {})
        return n.conj(n.swapaxes(found, -1, -2))
    whole = guarded("svd", packed.svd, wide(x))
    u, s, vh = whole[..., :rows, :], whole[..., rows, :].real, whole[..., rows + 1 :, :]
    used = s > n.maximum(s[..., :1] * rtol, atol)
    inverted = n.where(used, 1 / n.where(used, s, 1), 0).astype(s.dtype)
    turned = n.conj(n.swapaxes(vh, -1, -2)) * inverted[..., None, :]
    return (turned @ n.conj(n.swapaxes(u, -1, -2))).astype(x.dtype, copy=False)
