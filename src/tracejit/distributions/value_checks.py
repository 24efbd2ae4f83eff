"""What constraints ask of values whose last one or two dimensions belong together; each answers with a bool tensor."""

from __future__ import annotations

from typing import Any

from ..number_limits import finfo


def is_symmetric(x: Any) -> Any:
    """Is each matrix its own transpose, to 1e-6?"""
    return ((x - x.mT).abs() <= 1e-6).flatten(-2).all(-1)


def is_definite(x: Any) -> Any:
    """Is it symmetric, with positive eigenvalues, so that it has a lower triangular root?"""
    from ..ops.functions.checked_systems import cholesky_ex

    return is_symmetric(x) & (cholesky_ex(x).info == 0)


def is_semidefinite(x: Any) -> Any:
    """Is it symmetric, without negative eigenvalues?"""
    from ..ops.functions.linear_algebra import eigvalsh

    return is_symmetric(x) & (eigvalsh(x) >= 0).all(-1)


def is_correlation_root(x: Any) -> Any:
    """Is it a lower triangle with a positive diagonal and rows of length 1?"""
    apart = ((x * x).sum(-1) - 1).abs()
    tolerance = 10 * x.shape[-1] * finfo(x.dtype).eps
    return is_root(x) & (apart < tolerance).all(-1)


def is_lower(x: Any) -> Any:
    """Is all above the diagonal zero?"""
    return (x.tril() == x).flatten(-2).all(-1)


def is_root(x: Any) -> Any:
    """Is it a lower triangle with a positive diagonal?"""
    return is_lower(x) & (x.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


def is_simplex(x: Any) -> Any:
    """Is no number negative, and is the sum 1?"""
    return (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6)


def is_one_hot(x: Any) -> Any:
    """Is one number 1, and are all others 0?"""
    return ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1)
