"""Norms of matrices, and products beyond the matrix product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import dtypes
from ...errors import ShapeError
from .. import elementwise as e
from .. import movement as m
from .. import reduction as r
from .. import shapes
from ..precision import given_precision, lower_precision
from ..table import function
from .common import (
    Tensor,
    as_type,
    conjugated,
    constant,
    dim_of,
    refuse,
    shape_of,
    with_zero_gradient,
)
from .complex_numbers import abs as magnitudes
from .joining import stack
from .linear_algebra import svdvals
from .matrices import dot, matmul
from .norms import summands, vector_norm
from .rearranging import cross as any_cross


@function(method=False, namespace=False, large=True)
def matrix_norm(
    A: Tensor,
    ord: Any = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """The norm of matrices: "fro", "nuc", 2, -2 (singular values), 1, -1 (columns), inf, -inf (rows).

    Raises ``RuntimeError`` for other orders, and for vectors.

    >>> import tracejit as tj
    >>> tj.linalg.matrix_norm(tj.tensor([[3.0, 0.0], [0.0, 4.0]]), 2)
    tensor(4.)
    """
    if A.ndim < 2:
        raise ShapeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    if len(dim) != 2:
        raise ShapeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {tuple(dim)}")
    x = summands("linalg.matrix_norm", A, dtype)
    rows, columns = (dim_of(d, x) for d in dim)
    if rows == columns:
        raise ShapeError("linalg.matrix_norm: dims must be different")
    if ord == "fro":
        return vector_norm(x, 2, (rows, columns), keepdim)
    if ord in ("nuc", 2, -2):
        return _spectral(x, ord, rows, columns, keepdim)
    if ord not in (1, -1, math.inf, -math.inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    along, over = (rows, columns) if abs(ord) == 1 else (columns, rows)
    totals = r.sum(magnitudes(x), dims=(along,), keepdim=True)
    pick = _largest if ord > 0 else r.amin
    found = pick(totals, dims=(over,), keepdim=True)
    return found if keepdim else m.squeeze(found, dims=tuple(sorted((rows, columns))))


def _spectral(x: Tensor, ord: Any, rows: int, columns: int, keepdim: bool) -> Tensor:
    others = tuple(i for i in range(x.ndim) if i not in (rows, columns))
    values = svdvals(m.permute(x, dims=(*others, rows, columns)))
    last = (values.ndim - 1,)
    if ord == "nuc":
        found = r.sum(values, dims=last, keepdim=False)
    else:
        found = (_largest if ord > 0 else r.amin)(values, dims=last, keepdim=False)
    return m.unsqueeze(found, dims=tuple(sorted((rows, columns)))) if keepdim else found


def _largest(x: Tensor, *, dims: tuple[int], keepdim: bool) -> Tensor:
    """The largest of numbers that are not negative, zero of none."""
    pick = r.amax if shape_of(x)[dims[0]] else r.sum
    return pick(x, dims=dims, keepdim=keepdim)


@function(method=False, namespace=False, large=True)
def norm(
    A: Tensor,
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """The norm of vectors or, where two dimensions or a matrix and an order are given, of matrices.

    >>> import tracejit as tj
    >>> tj.linalg.norm(tj.tensor([3.0, 4.0]))
    tensor(5.)
    """
    matrices = (
        (isinstance(dim, (tuple, list)) and len(dim) == 2) or (dim is None and A.ndim == 2)
    ) and ord is not None
    if isinstance(dim, int) and isinstance(ord, str):
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {dim}")
    if isinstance(dim, (tuple, list)) and ord is not None and not 0 < len(dim) < 3:
        raise ShapeError(
            f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}"
        )
    named = isinstance(ord, str) and (dim is not None or A.ndim < 2)
    if matrices or named:
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    if dim is None and ord is not None and A.ndim > 1:
        raise RuntimeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. "
            f"Got {A.ndim}D."
        )
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@function(method=False, namespace=False)
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of matrices (first and last may be vectors) in the order that needs the fewest operations.

    >>> import tracejit as tj
    >>> tj.linalg.multi_dot([tj.ones(1, 2), tj.ones(2, 3), tj.ones(3)])
    tensor([6.])
    """
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    first, last = tensors[0], tensors[-1]
    for place, x in enumerate(tensors):
        most = "2D" if 0 < place < len(tensors) - 1 else "1D or 2D"
        if x.ndim not in ((2,) if most == "2D" else (1, 2)):
            raise ShapeError(f"multi_dot(): tensor {place} must be {most} but got {x.ndim}D")
    operands = list(tensors)
    if first.ndim == 1:
        operands[0] = m.unsqueeze(first, dims=(0,))
    if last.ndim == 1:
        operands[-1] = m.unsqueeze(last, dims=(1,))
    product = _in_order(
        operands, _best_order([shape_of(x) for x in operands]), 0, len(operands) - 1
    )
    gone = tuple(d for d, x in ((0, first), (1, last)) if x.ndim == 1)
    return m.squeeze(product, dims=gone) if gone else product


def _best_order(sizes: Sequence[tuple[int, ...]]) -> dict[tuple[int, int], int]:
    """Where to cut each stretch of a chain of products (dynamic programming)."""
    extents = [sizes[0][0], *(size[1] for size in sizes)]
    n = len(sizes)
    cost = {(i, i): 0 for i in range(n)}
    cut: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            costs = {
                k: cost[i, k] + cost[k + 1, j] + extents[i] * extents[k + 1] * extents[j + 1]
                for k in range(i, j)
            }
            cut[i, j] = min(costs, key=costs.__getitem__)
            cost[i, j] = costs[cut[i, j]]
    return cut


def _in_order(
    operands: Sequence[Tensor], cut: dict[tuple[int, int], int], i: int, j: int
) -> Tensor:
    if i == j:
        return operands[i]
    k = cut[i, j]
    return matmul(_in_order(operands, cut, i, k), _in_order(operands, cut, k + 1, j))


@function(method=False, namespace=False, within=lower_precision)
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Inner products along ``dim``.

    >>> import tracejit as tj
    >>> tj.linalg.vecdot(tj.ones(2, 3), tj.ones(3))
    tensor([3., 3.])
    """
    refuse("linalg.vecdot", x.dtype, "bool int")
    product = e.mul(conjugated(x), y)
    return as_type(r.sum(product, dims=(dim_of(dim, product),), keepdim=False), product.dtype)


@function(method=False, namespace=False, large=True)
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of vectors of three elements along ``dim``.

    >>> import tracejit as tj
    >>> tj.linalg.cross(tj.tensor([1, 0, 0]), tj.tensor([0, 1, 0]))
    tensor([0, 0, 1])
    """
    return any_cross(input, other, dim)


@function(method=False, namespace=False)
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Rows of powers 0 to ``N - 1`` of the elements of vectors.

    >>> import tracejit as tj
    >>> tj.linalg.vander(tj.tensor([2, 3]), N=3)
    tensor([[1, 2, 4],
            [1, 3, 9]])
    """
    x = m.reshape(x, shape=(1,)) if not x.ndim else x
    x = x if x.dtype.is_differentiable else as_type(x, dtypes.int64)
    count = shape_of(x)[-1] if N is None else N
    if not count:
        return constant(0, x.dtype, (*shape_of(x), 0))
    shapes.refuse_vast((*shape_of(x), count), x.dtype.itemsize)
    powers = [with_zero_gradient(constant(1, x.dtype, shape_of(x)), x)]  # also of infinity and NaN
    for _ in range(count - 1):
        powers.append(e.mul(powers[-1], x) if len(powers) > 1 else e.clone(x))
    return stack(powers[:count], -1)


@function(within=given_precision)
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The inner product of two vectors.

    >>> import tracejit as tj
    >>> tj.vdot(tj.ones(2), tj.ones(2))
    tensor(2.)
    """
    return dot(conjugated(input), other)
