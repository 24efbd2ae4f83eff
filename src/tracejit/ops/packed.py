"""What matrices are taken apart into, as one array each: by kernels side by side where they are small and many.

The names are LAPACK's and NumPy's. Where there are several results they are rows below each other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .host_matrices import linalg
from .lapack_errors import leading_minor
from .namespace import xp
from .op import Array
from .side_by_side import attempted, served, side_by_side

__all__ = [
    *(
        "cholesky",
        "cholesky_tried",
        "det",
        "eigh",
        "eigvalsh",
        "inv",
        "lu",
        "qr",
        "slogdet",
        "solve",
        "svd",
        "svdvals",
    )
]


@side_by_side("inv")
def inv(x: Array) -> Array:
    """Inverses.

    >>> inv(2 * np.eye(1))
    array([[0.5]])
    """
    return linalg(x).inv(x)


@side_by_side("solve")
def solve(a: Array, b: Array) -> Array:
    """Solutions of systems, in equal batches.

    >>> solve(2 * np.eye(1), np.eye(1))
    array([[0.5]])
    """
    return linalg(a).solve(a, b)


@side_by_side("det")
def det(x: Array) -> Array:
    """Determinants.

    >>> float(det(2 * np.eye(2)))
    4.0
    """
    return linalg(x).det(x)


def slogdet(x: Array) -> tuple[Array, Array]:
    """The sign of each determinant and the logarithm of its absolute value.

    >>> [float(x) for x in slogdet(-np.eye(3))]
    [-1.0, 0.0]
    """
    found = attempted("det", x)
    if found is None:
        sign, size = linalg(x).slogdet(x)
        return sign, size
    numbers, odd = found
    with np.errstate(divide="ignore"):
        sign, size = np.sign(numbers), np.log(np.abs(numbers))
    if len(odd):
        sign[odd], size[odd] = linalg(x).slogdet(x.reshape(-1, *x.shape[-2:])[odd])
    return sign.reshape(x.shape[:-2]), size.reshape(x.shape[:-2])


def cholesky(x: Array) -> Array:
    """Lower triangular factors; raises NumPy's error where there are none.

    >>> cholesky(4 * np.eye(1))
    array([[2.]])
    """
    found = _cholesky(x)
    if not xp(x).isfinite(found).all():  # LAPACK takes inf and nan for positive
        raise np.linalg.LinAlgError("Matrix is not positive definite: it has nan or inf in it")
    return found


def cholesky_tried(x: Array) -> Array:
    """Factors above a row that begins with 0, or with the order of the leading minor that is not positive.

    Where there is no factor there are NaN.

    >>> cholesky_tried(np.diag([4.0, -1.0]))[2]
    array([2., 0.])
    """
    n = x.shape[-1]
    out = np.zeros((*x.shape[:-2], n + 1, n), x.dtype)
    with contextlib.suppress(np.linalg.LinAlgError):
        out[..., :n, :] = cholesky(x)
        return out
    for index in np.ndindex(*x.shape[:-2]):
        try:
            out[index][:n] = cholesky(x[index])
        except np.linalg.LinAlgError:
            out[index][:n], out[index][n, 0] = np.nan, leading_minor(x[index]) or n
    return out


@side_by_side("cholesky")
def _cholesky(x: Array) -> Array:
    return linalg(x).cholesky(x)


@side_by_side("eigh")
def eigh(x: Array) -> Array:
    """Eigenvalues in the first row, eigenvectors as columns below, of Hermitian matrices (lower triangle read).

    >>> eigh(4 * np.eye(1)).tolist()
    [[4.0], [1.0]]
    """
    values, vectors = linalg(x).eigh(x)
    return xp(x).concatenate([values[..., None, :], vectors], -2)


def eigvalsh(x: Array) -> Array:
    """Eigenvalues of Hermitian matrices (lower triangle read), which take half the time without vectors.

    >>> eigvalsh(4 * np.eye(1)).tolist()
    [4.0]
    """
    if served("eigh", x):
        return eigh(x)[..., 0, :]
    values: Array = linalg(x).eigvalsh(x)
    return values


@side_by_side("qr")
def qr(x: Array) -> Array:
    """Q above R of the reduced decomposition of tall matrices.

    >>> np.abs(qr(4 * np.eye(1))).tolist()
    [[1.0], [4.0]]
    """
    return xp(x).concatenate(linalg(x).qr(x), -2)


@side_by_side("svd")
def svd(x: Array) -> Array:
    """U, a row of singular values, and V^H below each other, of tall matrices.

    >>> float(svd(4 * np.eye(1))[1, 0])
    4.0
    """
    if not xp(x).isfinite(x).all():  # LAPACK may go on for ever
        raise np.linalg.LinAlgError("SVD did not converge")
    u, s, vh = linalg(x).svd(x, full_matrices=False)
    return xp(x).concatenate([u, s[..., None, :], vh], -2)


def svdvals(x: Array) -> Array:
    """Singular values of tall matrices.

    >>> svdvals(4 * np.eye(1)).tolist()
    [4.0]
    """
    n = xp(x)
    if served("svd", x) or not n.isfinite(x).all():
        return svd(x)[..., x.shape[-2], :]
    values: Array = linalg(x).svdvals(x) if n is np else n.linalg.svd(x, compute_uv=False)
    return values


@side_by_side("lu")
def lu(x: Array) -> Array:
    """L without its diagonal and U in one matrix; the row (from one) each was exchanged with in a last column.

    >>> lu(4 * np.eye(1))
    array([[4., 1.]])
    """
    n = xp(x)
    out = n.zeros((*x.shape[:-1], x.shape[-1] + 1), x.dtype)
    if not x.size:
        out[..., : min(x.shape[-2:]), -1] = n.arange(1, min(x.shape[-2:]) + 1)
        return out
    factored = _lu_of(n)
    for index in np.ndindex(*x.shape[:-2]):
        out[index][:, :-1], pivots = factored(x[index])
        out[index][: len(pivots), -1] = pivots + 1
    return out


def _lu_of(n: Any) -> Callable[[Array], tuple[Array, Array]]:
    """LAPACK's factorisation of one matrix; exchanges counted from zero. A zero pivot is no error."""
    if n is not np:
        from cupyx.scipy.linalg import lu_factor

        return partial(lu_factor, check_finite=False)
    from scipy.linalg import get_lapack_funcs

    def factored(x: Array) -> tuple[Array, Array]:
        (getrf,) = get_lapack_funcs(("getrf",), (x,))
        found, pivots, _ = getrf(x)
        return found, pivots

    return factored
