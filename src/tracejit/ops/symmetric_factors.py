"""Factors by LAPACK that have no gradient: LDL of symmetric matrices, solutions with it, and reflections of QR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..types import TensorType
from . import shapes
from .lapack import like_given, on_the_host
from .library_threads import small_on_one_thread
from .linear_algebra import SQUARE, TALL, matrices, square
from .table import Array, Sample, contraction
from .underived import Missing

_PIVOTS = np.array([1, 2, 3])


def _by_lapack(name: str, like: Array) -> Callable[..., Any]:
    """SciPy's wrapper of a LAPACK routine for the dtype of ``like``."""
    from scipy.linalg import get_lapack_funcs

    found: Callable[..., Any] = get_lapack_funcs((name,), (like,))[0]
    return found


def _routine(name: str, hermitian: bool, x: Array) -> str:
    return f"he{name}" if hermitian and x.dtype.kind == "c" else f"sy{name}"


def _one_column_more(x: TensorType, **_: bool) -> TensorType:
    return TensorType((*square(x).shape[:-1], x.shape[-1] + 1), x.dtype)


@contraction(_one_column_more, samples=(Sample((SQUARE,), {"hermitian": False}),))
@small_on_one_thread
def ldl_packed(x: Array, *, hermitian: bool) -> Array:
    """L and D of symmetric matrices in the lower triangle, LAPACK's exchanges of rows in a last column."""
    host = on_the_host(x)
    factored = _by_lapack(_routine("trf", hermitian, host), host)
    out = np.zeros((*host.shape[:-1], host.shape[-1] + 1), host.dtype)
    for index in np.ndindex(*host.shape[:-2]) if host.size else ():
        found, pivots, _ = factored(host[index], lower=1)
        out[index][:, :-1] = np.tril(found)
        out[index][:, -1] = pivots
    return like_given(out, x)


def _solution_type(x: TensorType, pivots: TensorType, b: TensorType, hermitian: bool) -> TensorType:
    if matrices(b).shape[-2] != square(x).shape[-1]:
        raise ShapeError(f"linalg.ldl_solve: Incompatible shapes of A and B ({x} and {b})")
    batch = shapes.broadcast("linalg.ldl_solve", [x.shape[:-2], b.shape[:-2]])
    return TensorType((*batch, *b.shape[-2:]), b.dtype)


@contraction(
    lambda x, pivots, b, hermitian: _solution_type(x, pivots, b, hermitian),
    samples=(Sample((np.diag([1.0, 2.0, 4.0]), _PIVOTS, TALL), {"hermitian": False}),),
)
def ldl_solution(x: Array, pivots: Array, b: Array, *, hermitian: bool) -> Array:
    """X with ``A @ X = b`` from the factors of A."""
    host, exchanges, right = on_the_host(x), on_the_host(pivots), on_the_host(b)
    batch = np.broadcast_shapes(host.shape[:-2], right.shape[:-2])
    right = np.broadcast_to(right, (*batch, *right.shape[-2:]))
    host = np.broadcast_to(host, (*batch, *host.shape[-2:]))
    exchanges = np.broadcast_to(exchanges, (*batch, exchanges.shape[-1]))
    out = np.zeros(right.shape, right.dtype)
    for index in np.ndindex(*batch) if right.size else ():
        out[index] = _ldl_solved(host[index], exchanges[index], right[index], hermitian)
    return like_given(out, b)


def _ldl_solved(factors: Array, pivots: Array, b: Array, hermitian: bool) -> Array:
    """Substitution through ``P L D L^H P^H`` (Bunch and Kaufman 1977): pivots below zero mark blocks of two."""
    n = len(factors)
    wrong = pivots[(pivots == 0) | (abs(pivots) > n)]
    if wrong.size:
        raise IndexError(f"linalg.ldl_solve: pivot {wrong[0]} is out of range for {n} rows")
    x = b.astype(factors.dtype, copy=True)
    conj = np.conj if hermitian else np.asarray
    blocks, k = [], 0
    while k < n:
        blocks.append((k, 1 if pivots[k] > 0 else 2))
        k += blocks[-1][1]
    for k, size in blocks:
        _exchange(x, k + size - 1, abs(int(pivots[k])) - 1)
        x[k + size :] -= factors[k + size :, k : k + size] @ x[k : k + size]
        x[k : k + size] = _block_solved(factors[k : k + size, k : k + size], x[k : k + size], conj)
    for k, size in reversed(blocks):
        x[k : k + size] -= conj(factors[k + size :, k : k + size]).T @ x[k + size :]
        _exchange(x, k + size - 1, abs(int(pivots[k])) - 1)
    return x


def _block_solved(block: Array, b: Array, conj: Callable[[Array], Array]) -> Array:
    """The rows for a block of one or two of D; as in LAPACK's ``sytrs``, what is singular gives inf and nan."""
    with np.errstate(all="ignore"):
        if len(block) == 1:
            return np.asarray(b / block[0])
        below = block[1, 0]
        first, second = block[0, 0] / conj(below), block[1, 1] / below
        upper, lower = b[0] / conj(below), b[1] / below
        scale = first * second - 1
        return np.stack([(second * upper - lower) / scale, (first * lower - upper) / scale])


def _exchange(x: Array, i: int, j: int) -> None:
    if i != j:
        x[[i, j]] = x[[j, i]]


def _one_row_more(x: TensorType) -> TensorType:
    rows, columns = matrices(x).shape[-2:]
    return TensorType((*x.shape[:-2], rows + 1, columns), x.dtype)


@contraction(
    _one_row_more,
    grad=Missing("geqrf"),
    samples=(Sample((TALL,)), Sample((TALL.T.copy(),))),
)
@small_on_one_thread
def reflections_packed(x: Array) -> Array:
    """R above the vectors of reflections, and the factors of these in a last row."""
    host = on_the_host(x)
    factored = _by_lapack("geqrf", host)
    out = np.zeros((*host.shape[:-2], host.shape[-2] + 1, host.shape[-1]), host.dtype)
    for index in np.ndindex(*host.shape[:-2]) if host.size else ():
        found, tau, *_ = factored(host[index])
        out[index][:-1], out[index][-1, : len(tau)] = found, tau
    return like_given(out, x)
