"""Least squares by LAPACK: a factorisation that shows the rank, a quarter of the work of singular values."""

# mypy: disable-error-code="has-type"
# (the gradient rule names the op that is declared by the very decorator it stands in)

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..types import TensorType
from .complex_numbers import conjugated
from .contraction import matmul
from .host_matrices import lapack_of
from .lapack import like_given, on_the_host, refusing
from .library_threads import small_on_one_thread
from .linear_algebra import TALL, adjoint, matrices, rows_of
from .movement import cat
from .table import Array, Sample, contraction

__all__ = ["least_squares"]

#: Columns that LAPACK works on together, where it is given memory for them.
_BLOCK = 64


def _type(a: TensorType, b: TensorType, *, tolerance: float | None) -> TensorType:
    batch, rows, columns = matrices(a).shape[:-2], *a.shape[-2:]
    if matrices(b).shape[:-1] != (*batch, rows):
        raise ShapeError(f"lstsq: expected matrices with equally many rows, got {a} and {b}")
    return TensorType((*batch, columns + 1, b.shape[-1]), a.dtype)


def _solution(a: Any, b: Any, tolerance: float | None) -> Any:
    return rows_of(least_squares(a, b, tolerance=tolerance), 0, a.shape[-1])


def _right_grad(g: Any, a: Any, out: Any, tolerance: float | None) -> Any:
    """P^H g, where P is the pseudo-inverse of a: the least solution of a^H y = g."""
    g = conjugated(rows_of(g, 0, a.shape[-1]))
    return conjugated(_solution(adjoint(a), g, tolerance))


def _left_grad(g: Any, a: Any, b: Any, out: Any, tolerance: float | None) -> Any:
    """-y x^H + (b - a x) (P y)^H + P^H x (g - P a g)^H, with y = P^H g (Golub and Pereyra 1973)."""
    columns = a.shape[-1]
    g, x = conjugated(rows_of(g, 0, columns)), rows_of(out, 0, columns)
    turned = adjoint(a)
    solved = _solution(turned, cat(g, x, dim=a.ndim - 1), tolerance)
    y, z = (_columns(solved, first, x.shape[-1]) for first in (0, x.shape[-1]))
    inside = _solution(a, cat(y, matmul(a, g), dim=a.ndim - 1), tolerance)
    back, kept = (_columns(inside, first, x.shape[-1]) for first in (0, x.shape[-1]))
    apart = matmul(b - matmul(a, x), adjoint(back)) + matmul(z, adjoint(g - kept))
    return conjugated(apart - matmul(y, adjoint(x)))


def _columns(x: Any, first: int, count: int) -> Any:
    return adjoint(rows_of(adjoint(x), first, count))


@contraction(
    _type,
    grad={"a": _left_grad, "b": _right_grad},
    samples=tuple(
        Sample((a, np.ones((len(a), 2))), {"tolerance": least})
        for a, least in ((TALL, None), (TALL.T.copy(), 1e-9))
    ),
)
@small_on_one_thread
def least_squares(a: Array, b: Array, *, tolerance: float | None) -> Array:
    """The X of least norm for which ``a @ X`` is closest to ``b``, above a row of the rank of ``a``.

    What the triangular factor adds that would make its condition exceed ``1 / tolerance`` counts as zero: the number
    of rows or columns times the precision, unless told.
    """
    left, right = on_the_host(a), on_the_host(b)
    least = float(np.finfo(left.dtype).eps) * max(left.shape[-2:])
    least = least if tolerance is None else tolerance
    columns, count = left.shape[-1], right.shape[-1]
    out = np.zeros((*left.shape[:-2], columns + 1, count), left.dtype)
    if left.size and right.size:
        for index in np.ndindex(*left.shape[:-2]):
            x, rank = refusing("lstsq", _solved, left[index], right[index], least)
            out[index][:columns], out[index][columns] = x, rank
    return like_given(out, a)


def _solved(a: Array, b: Array, tolerance: float) -> tuple[Array, int]:
    """The solution for one matrix, and its rank."""
    if not np.isfinite(a).all():  # LAPACK may go on for ever
        raise np.linalg.LinAlgError("the input matrix contained non-finite values")
    lapack = lapack_of(a)
    if lapack is None:
        x, _, rank, _ = np.linalg.lstsq(a, b, rcond=tolerance)
        return x, int(rank)
    (rows, columns), count = a.shape, b.shape[1]
    few, solve = min(rows, columns), lapack("gelsy")
    whole = np.zeros((max(rows, columns), count), b.dtype)
    whole[:rows] = b
    space = few + max(2 * few + _BLOCK * (columns + 1), 2 * few + _BLOCK * count)
    free = np.zeros((columns, 1), np.int32)
    _, x, _, rank, _ = solve(a, whole, free, tolerance, space)
    return x[:columns], int(rank)
