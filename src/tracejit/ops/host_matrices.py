"""Matrices of the host taken apart by SciPy's LAPACK in their own precision, one after the other.

NumPy's functions, which these stand in for, compute single precision in double: two to ten times as long. They serve
where matrices are small, and where SciPy's library cannot be had. A matrix in C order is its transpose in Fortran's, so
that most of this copies nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, partial, wraps
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from .namespace import extension, xp
from .op import Array

__all__ = ["lapack_of", "linalg", "solve_triangle"]

#: Fewest rows of matrices for each of which a call is worth it.
LEAST = 48
#: Columns that are worked on together: a library that is given less memory takes one column after the other.
_BLOCK = 64
_PREFIXES = {"f": "s", "d": "d", "F": "c", "D": "z"}
#: Fewest right-hand sides that are worth two calls: OpenBLAS takes four times as long to go through columns.
_MANY_SIDES = 8


def linalg(*arrays: Array) -> Any:
    """Functions of matrices by the names that they have in ``numpy.linalg``; ``qr`` and ``svd`` are the reduced ones.

    >>> linalg(np.eye(3)).inv(2 * np.eye(100, dtype=np.float32))[0, 0]
    np.float32(0.5)
    """
    n = xp(*arrays)
    return _HOST if n is np else n.linalg


@lru_cache(maxsize=2)
def _library(name: str = "lapack") -> ModuleType | None:
    """SciPy's interface to LAPACK, or to BLAS; the package around it takes 150 ms to import."""
    name = f"scipy.linalg._f{name}"
    found = extension(name)
    if found is None:
        with contextlib.suppress(ImportError):
            importlib.import_module("scipy.linalg")
    return found or sys.modules.get(name)


Lapack = Callable[
    [str], Any
]  # a routine for matrices of some type, by its name without the letter of the type


def lapack_of(x: Array) -> Lapack | None:
    """LAPACK's routines for the type of ``x``, in which those that are left to NumPy are computed: double when small.

    >>> found = lapack_of(np.eye(2, dtype=np.float32))
    >>> found is None or found("getrf")(np.eye(2))[2]
    0
    """
    prefix, library = _PREFIXES.get(x.dtype.char), _library()
    if prefix is None or library is None:
        return None
    if min(x.shape[-2:]) < LEAST:
        prefix = {"s": "d", "c": "z"}.get(prefix, prefix)
    return lambda name: getattr(library, prefix + name)


def _routines(x: Array) -> Lapack | None:
    """LAPACK's routines for matrices like these; None where NumPy is to serve."""
    prefix = _PREFIXES.get(x.dtype.char)
    if prefix is None or x.ndim < 2 or min(x.shape[-2:]) < LEAST or not x.size:
        return None
    library = _library()
    return None if library is None else lambda name: getattr(library, prefix + name)


def _of_each(numpy: Callable[..., Any], kinds: str = "fc") -> Callable[..., Callable[..., Any]]:
    """A function of one matrix, of numbers of these kinds, as one of batches; ``numpy`` is what serves else."""

    def decorate(one: Callable[[Lapack, Array], Any]) -> Callable[..., Any]:
        @wraps(one)
        def called(x: Array, **options: Any) -> Any:
            lapack = _routines(x) if x.dtype.kind in kinds else None
            if lapack is None:
                return numpy(x, **options)
            if x.ndim == 2:
                return one(lapack, x)
            found = [one(lapack, matrix) for matrix in x.reshape((-1, *x.shape[-2:]))]
            if isinstance(found[0], tuple):
                return tuple(_stacked(part, x.shape[:-2]) for part in zip(*found, strict=True))
            return _stacked(found, x.shape[:-2])

        return called

    return decorate


def _stacked(found: Sequence[Array], batch: tuple[int, ...]) -> Array:
    whole = np.stack(found)
    return whole.reshape((*batch, *whole.shape[1:]))


def _checked(info: int, message: str) -> None:
    if info:
        raise np.linalg.LinAlgError(message)


def _factors(lapack: Lapack, a: Array) -> tuple[Array, Array]:
    """The triangular factors of the transpose, and the rows that were exchanged."""
    lu, exchanged, info = lapack("getrf")(a.T)
    _checked(info, "Singular matrix")
    return lu, exchanged


@_of_each(np.linalg.cholesky)
def _cholesky(lapack: Lapack, a: Array) -> Array:
    upper, info = lapack("potrf")(a.T, lower=0, clean=1)
    _checked(info, "Matrix is not positive definite")
    return upper.T


@_of_each(np.linalg.inv)
def _inv(lapack: Lapack, a: Array) -> Array:
    lu, exchanged = _factors(lapack, a)
    found, info = lapack("getri")(lu, exchanged, lwork=_BLOCK * len(a), overwrite_lu=1)
    _checked(info, "Singular matrix")
    return found.T


def _solve(a: Array, b: Array) -> Array:
    lapack = _routines(a)
    if lapack is None or a.dtype != b.dtype or a.shape[:-2] != b.shape[:-2] or not b.size:
        return np.linalg.solve(a, b)
    out = np.empty(b.shape, b.dtype)
    blas = _library("blas") if b.shape[-1] >= _MANY_SIDES else None
    solve_right = None if blas is None else getattr(blas, _PREFIXES[a.dtype.char] + "trsm")
    for index in np.ndindex(*a.shape[:-2]):
        lu, exchanged = _factors(lapack, a[index])
        if solve_right is None:
            out[index] = lapack("getrs")(lu, exchanged, b[index], trans=1)[0]
        else:
            out[index] = _substituted(solve_right, lu, exchanged, b[index])
    return out


def _substituted(solve_right: Callable[..., Any], lu: Array, exchanged: Array, b: Array) -> Array:
    """X where the transpose of P L U times X is b, by rows: Z' U = b', Y' L = Z', and P' X = Y."""
    found = solve_right(1, lu, b.T, side=1)
    found = solve_right(1, lu, found, side=1, lower=1, diag=1, overwrite_b=1)
    order = np.arange(len(exchanged))
    for row, other in enumerate(exchanged):
        order[row], order[other] = order[other], order[row]
    out = np.empty_like(b, order="C")
    out[order] = found.T
    return out


def solve_triangle(a: Array, b: Array, lower: bool) -> Array:
    """X with ``a @ X = b`` for two matrices of one type, of which a triangle of ``a`` is read; zeros divide.

    >>> solve_triangle(np.array([[2.0, 9.0], [1.0, 4.0]]), np.ones((2, 1)), True).tolist()
    [[0.5], [0.125]]
    """
    blas = _library("blas")
    if blas is None:
        return np.linalg.solve(np.tril(a) if lower else np.triu(a), b)
    # Matrices in C order are their transposes in Fortran's: X.T @ A.T = B.T.
    prefix = _PREFIXES[np.result_type(a, b).char]
    if b.shape[1] == 1:
        column: Array = getattr(blas, prefix + "trsv")(a.T, b[:, 0], lower=not lower, trans=1)
        return column[:, None]
    found: Array = getattr(blas, prefix + "trsm")(1, a.T, b.T, side=1, lower=not lower)
    return found.T


def _diagonal(lapack: Lapack, a: Array) -> tuple[Array, int]:
    """The diagonal whose product is the determinant, and the sign that the exchanged rows give to it."""
    lu, exchanged, _ = lapack("getrf")(a.T)
    odd = np.count_nonzero(exchanged != np.arange(len(a))) % 2
    return np.diagonal(lu), -1 if odd else 1


@_of_each(np.linalg.slogdet)
def _slogdet(lapack: Lapack, a: Array) -> tuple[Any, Any]:
    diagonal, turned = _diagonal(lapack, a)
    size = np.abs(diagonal)
    with np.errstate(all="ignore"):
        sign = turned * np.prod(np.where(size == 0, 0, diagonal / size))
        total = np.sum(np.log(size), dtype=np.float64)
    return np.asarray(sign, a.dtype)[()], np.asarray(total, size.dtype)[()]


@_of_each(np.linalg.det)
def _det(lapack: Lapack, a: Array) -> Any:
    diagonal, turned = _diagonal(lapack, a)
    with np.errstate(all="ignore"):
        wide = np.prod(diagonal, dtype=np.result_type(diagonal, np.float64))
        return np.asarray(turned * wide).astype(a.dtype)[()]


@_of_each(np.linalg.qr)
def _qr(lapack: Lapack, a: Array) -> tuple[Array, Array]:
    """The reduced decomposition of a matrix that is not wide."""
    space = _BLOCK * a.shape[1]
    packed, scales, _, _ = lapack("geqrf")(np.array(a, order="F"), lwork=space, overwrite_a=1)
    upper = np.triu(packed[: a.shape[1]])
    generate = "orgqr" if a.dtype.kind == "f" else "ungqr"
    return lapack(generate)(packed, scales, lwork=space, overwrite_a=1)[0], upper


@_of_each(partial(np.linalg.svd, full_matrices=False))
def _svd(lapack: Lapack, a: Array) -> tuple[Array, Array, Array]:
    """The reduced decomposition: callers say so to the other libraries."""
    left, values, right, info = lapack("gesdd")(a.T, full_matrices=0)
    _checked(info, "SVD did not converge")
    return right.T, values, left.T


@_of_each(np.linalg.eigh, kinds="f")
def _eigh(lapack: Lapack, a: Array) -> tuple[Array, Array]:
    values, vectors, info = lapack("syevd")(a.T, lower=0)
    _checked(info, "Eigenvalues did not converge")
    return values, vectors


@_of_each(partial(np.linalg.svd, compute_uv=False))
def _svdvals(lapack: Lapack, a: Array) -> Array:
    _, values, _, info = lapack("gesdd")(a.T, compute_uv=0)
    _checked(info, "SVD did not converge")
    return values


@_of_each(np.linalg.eigvalsh, kinds="f")
def _eigvalsh(lapack: Lapack, a: Array) -> Array:
    values, _, info = lapack("syevd")(a.T, lower=0, compute_v=0)
    _checked(info, "Eigenvalues did not converge")
    return values


_HOST = SimpleNamespace(
    cholesky=_cholesky,
    inv=_inv,
    solve=_solve,
    slogdet=_slogdet,
    det=_det,
    qr=_qr,
    svd=_svd,
    eigh=_eigh,
    svdvals=_svdvals,
    eigvalsh=_eigvalsh,
)
