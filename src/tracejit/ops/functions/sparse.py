"""Sparse tensors as programs make them, kept dense: their values, sizes and products are those of PyTorch.

What is saved is work of the program's author, not memory: a matrix made of coordinates is an ordinary tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import dtypes
from .. import comparison as c
from .. import movement as m
from .. import source
from ..table import FUNCTIONS, METHODS, function
from .common import Number, Tensor, check_tensor, is_tensor, place_of, shape_of
from .factories import made


@function(method=False)
def sparse_coo_tensor(
    indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """The tensor that is zero but for ``values`` at ``indices`` (one row for each dimension); repeated places add up.

    Without ``size`` it is as large as the indices need. The result is dense. Raises ``RuntimeError`` when sizes do
    not fit and ``IndexError`` for places outside.

    >>> import tracejit as tj
    >>> tj.sparse_coo_tensor([[0, 1], [1, 0]], [3.0, 4.0], (2, 2))
    tensor([[0., 3.],
            [4., 0.]])
    """
    places = indices if is_tensor(indices) else _literal(indices, dtypes.int64)
    given = values if is_tensor(values) else _literal(values, dtype)
    given = given if dtype is None else given.to(dtype)
    count, rest = shape_of(places)[0], shape_of(given)[1:]
    if size is None:
        size = (*(row.max().item() + 1 for row in places), *rest)
    if len(size) != count + len(rest):
        raise RuntimeError(
            f"number of dimensions must be sparse_dim ({count}) + dense_dim ({len(rest)}), but got {len(size)}"
        )
    empty = FUNCTIONS["zeros"](list(size), dtype=given.dtype, device=place_of(given, device))
    filled = FUNCTIONS["index_put"](empty, tuple(row.long() for row in places), given, True)
    return made(filled, requires_grad, device)


def _literal(values: Any, dtype: Any) -> Tensor:
    """Nested lists as a tensor."""
    array = np.asarray(values)
    kind = dtypes.get_default_dtype() if array.dtype.kind == "f" else dtypes.int64
    flat = tuple(array.reshape(-1).tolist())
    return source.literal(values=flat, shape=array.shape, dtype=dtype or kind)


@function(method=False)
def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices.

    >>> import tracejit as tj
    >>> tj.spmm(tj.eye(2), tj.ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    return FUNCTIONS["mm"](input, mat2)


@function(namespace=False)
def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor itself, in ``dtype`` if that is given.

    >>> import tracejit as tj
    >>> tj.ones(1).to_dense()
    tensor([1.])
    """
    return self if dtype is None else self.to(dtype)


@function(namespace=False)
def to_sparse(self: Tensor, *layout: Any, **options: Any) -> Tensor:
    """The tensor itself: zeros are kept.

    >>> import tracejit as tj
    >>> tj.ones(1).to_sparse()
    tensor([1.])
    """
    check_tensor("to_sparse", self)
    return self


@function(namespace=False)
def coalesce(self: Tensor) -> Tensor:
    """The tensor itself: repeated places were added up when it was made.

    >>> import tracejit as tj
    >>> tj.ones(1).coalesce()
    tensor([1.])
    """
    check_tensor("coalesce", self)
    return self


@function(namespace=False)
def indices(self: Tensor) -> Tensor:
    """Where the elements are that are not zero, one row for each dimension, in order.

    Zeros that were given as values are not told from others.

    >>> import tracejit as tj
    >>> tj.sparse_coo_tensor([[1, 0], [0, 1]], [3.0, 4.0], (2, 2)).indices()
    tensor([[0, 1],
            [1, 0]])
    """
    check_tensor("indices", self)
    return m.permute(FUNCTIONS["nonzero"](self), dims=(1, 0))


@function(namespace=False)
def values(self: Tensor) -> Tensor:
    """The elements that are not zero, in order.

    >>> import tracejit as tj
    >>> tj.sparse_coo_tensor([[1, 0], [0, 1]], [3.0, 4.0], (2, 2)).values()
    tensor([4., 3.])
    """
    check_tensor("values", self)
    return FUNCTIONS["masked_select"](self, c.ne(self, 0))


@function(namespace=False)
def is_coalesced(self: Tensor) -> bool:
    """True: repeated places were added up when the tensor was made.

    >>> import tracejit as tj
    >>> tj.ones(1).to_sparse().is_coalesced()
    True
    """
    check_tensor("is_coalesced", self)
    return True


@function(namespace=False)
def sparse_dim(self: Tensor) -> int:
    """How many dimensions have coordinates: all.

    >>> import tracejit as tj
    >>> tj.eye(2).to_sparse().sparse_dim()
    2
    """
    check_tensor("sparse_dim", self)
    dims: int = self.ndim
    return dims


@function(namespace=False)
def dense_dim(self: Tensor) -> int:
    """How many dimensions have no coordinates: none.

    >>> import tracejit as tj
    >>> tj.eye(2).to_sparse().dense_dim()
    0
    """
    check_tensor("dense_dim", self)
    return 0


@function(namespace=False, method="_nnz")
def count_of_values(self: Tensor) -> int:
    """How many elements are not zero.

    >>> import tracejit as tj
    >>> tj.eye(3).to_sparse()._nnz()
    3
    """
    check_tensor("_nnz", self)
    count: int = FUNCTIONS["count_nonzero"](self).item()
    return count


METHODS["_indices"], METHODS["_values"] = indices, values


def sparse_sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """The sum over ``dim``.

    >>> import tracejit as tj
    >>> tj.sparse.sum(tj.ones(2, 2), 0)
    tensor([2., 2.])
    """
    return FUNCTIONS["sum"](input, dim, dtype=dtype)


def sparse_addmm(
    mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    """``beta * mat + alpha * mat1 @ mat2``.

    >>> import tracejit as tj
    >>> tj.sparse.addmm(tj.ones(1, 1), tj.ones(1, 2), tj.ones(2, 1))
    tensor([[3.]])
    """
    return FUNCTIONS["addmm"](mat, mat1, mat2, beta=beta, alpha=alpha)
