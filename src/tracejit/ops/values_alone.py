"""Eigenvalues and singular values of real matrices without vectors, in half the time; a gradient finds those then."""

from __future__ import annotations

from typing import Any

from ..sizes import smallest
from ..types import TensorType
from . import packed
from .contraction import matmul, transposed
from .decompositions import eigen_symmetric, of_lower, svd_packed
from .lapack import guarded
from .library_threads import small_on_one_thread
from .linear_algebra import SQUARE, TALL, matrices, rows_of, square
from .movement import unsqueeze
from .table import Array, Sample, contraction


def _values_type(x: TensorType) -> TensorType:
    shape = matrices(x).shape
    return TensorType((*shape[:-2], smallest(shape[-2], shape[-1])), x.dtype)


def _eigenvalues_grad(g: Any, x: Any) -> Any:
    """V diag(g) V^T, where V is found only now."""
    vectors = rows_of(eigen_symmetric(x), 1, x.shape[-1])
    return of_lower(matmul(vectors * unsqueeze(g, dims=(g.ndim - 1,)), transposed(vectors)))


@contraction(
    lambda x: _values_type(square(x)), grad=_eigenvalues_grad, samples=(Sample((SQUARE,)),)
)
@small_on_one_thread
def eigenvalues_symmetric(x: Array) -> Array:
    """Eigenvalues of real symmetric matrices (lower triangle read), ascending."""
    return guarded("eigh", packed.eigvalsh, x)


def _singular_values_grad(g: Any, x: Any) -> Any:
    """U diag(g) V^T, which are found only now."""
    rows, k = x.shape[-2:]
    found = svd_packed(x)
    scaled = rows_of(found, 0, rows) * unsqueeze(g, dims=(g.ndim - 1,))
    return matmul(scaled, rows_of(found, rows + 1, k))


@contraction(
    lambda x: _values_type(matrices(x)), grad=_singular_values_grad, samples=(Sample((TALL,)),)
)
@small_on_one_thread
def singular_values(x: Array) -> Array:
    """Singular values of real tall matrices, descending."""
    return guarded("svd", packed.svdvals, x)
