"""Products of rows that lie in groups with one matrix for each group, as mixtures of experts compute them."""

from __future__ import annotations

from typing import Any

from ...dtypes import as_dtype, bfloat16, float16, float32, int32
from ...errors import ShapeError
from ..table import alias, function
from .common import Tensor, check_tensor, shape_of
from .factories import zeros
from .indexing import index_copy, index_select
from .joining import stack
from .matrices import bmm, matmul
from .ranges import arange
from .selecting import nonzero
from .sorting import searchsorted


@function(method=False)
def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: Any = None,
) -> Tensor:
    """Products of groups, which end at ``offs`` (int32) along rows, columns or what is summed.

    (M, K) with (G, K, N): rows by groups, (M, N). (G, M, K) with (K, N): columns by groups, (M, N). (M, K) with (K, N):
    what is summed by groups, (G, M, N). (G, M, K) with (G, K, N), without ``offs``: ``bmm``. What lies behind the last
    group is zero. Raises ``RuntimeError`` for shapes that do not fit and dtypes other than float32 and the halves.

    >>> import tracejit as tj
    >>> experts = tj.stack([tj.eye(2), 2 * tj.eye(2)])
    >>> tj.nn.functional.grouped_mm(tj.ones(3, 2), experts, offs=tj.tensor([1, 3], dtype=tj.int32))
    tensor([[1., 1.],
            [2., 2.],
            [2., 2.]])
    """
    _check_matrices(mat_a, mat_b)
    _check_options(mat_a, mat_b, offs, bias, out_dtype)
    if offs is None:
        return bmm(mat_a, mat_b)
    if mat_a.ndim == 2 == mat_b.ndim:
        pieces = _members(offs, shape_of(mat_b)[0])
        return stack([matmul(index_select(mat_a, 1, i), index_select(mat_b, 0, i)) for i in pieces])
    if mat_a.ndim == 2:
        return _along(0, mat_a, mat_b, offs)
    return _along(1, mat_b, mat_a, offs)


def _along(dim: int, whole: Tensor, each: Tensor, offs: Tensor) -> Tensor:
    """Rows (``dim`` 0) or columns (1) of ``whole`` by groups, times the matrix of each group."""
    extent = shape_of(whole)[dim]
    shape = (extent, shape_of(each)[2]) if dim == 0 else (shape_of(each)[1], extent)
    found = zeros(shape, dtype=whole.dtype, device=whole.device)
    for group, members in enumerate(_members(offs, extent)):
        matrix, part = each[group], index_select(whole, dim, members)
        product = matmul(part, matrix) if dim == 0 else matmul(matrix, part)
        found = index_copy(found, dim, members, product)
    return found


def _members(offs: Tensor, extent: int) -> list[Tensor]:
    """The positions below ``extent`` that each group has."""
    groups = searchsorted(offs, arange(extent, dtype=int32, device=offs.device), right=True)
    return [nonzero(groups == group).reshape(-1) for group in range(shape_of(offs)[0])]


def _check_matrices(a: Tensor, b: Tensor) -> None:
    for name, x in (("mat_a", a), ("mat_b", b)):
        check_tensor("grouped_mm", x)
        if x.ndim not in (2, 3):
            raise ShapeError(f"{name} has to be 2 or 3d")
        if x.dtype not in (float32, bfloat16, float16):
            raise RuntimeError(
                f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {x.dtype.title}"
            )
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {a.dtype.title} != {b.dtype.title}"
        )
    if shape_of(a)[-1] != shape_of(b)[-2]:
        raise ShapeError("contraction dimension of mat_a and mat_b must match")


def _check_options(a: Tensor, b: Tensor, offs: Tensor | None, bias: Any, out_dtype: Any) -> None:
    if (offs is None) != (a.ndim == 3 == b.ndim):
        raise RuntimeError(
            "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"
        )
    if offs is None:
        if shape_of(a)[0] != shape_of(b)[0]:
            raise ShapeError("batched dimension has to match")
    elif offs.ndim != 1 or offs.dtype is not int32:
        raise RuntimeError("Offsets have to be int32" if offs.ndim == 1 else "offs has to be 1D")
    elif any(x.ndim == 3 and shape_of(x)[0] != shape_of(offs)[0] for x in (a, b)):
        raise ShapeError("matrix batch sizes have to match")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype is not None and as_dtype(out_dtype) is not a.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")


alias("_grouped_mm", grouped_mm, method=False)
