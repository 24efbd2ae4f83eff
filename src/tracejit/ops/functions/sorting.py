"""Order as PyTorch spells it: sort, argsort, topk, kthvalue, searchsorted, unique, bincount."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...errors import DimensionError, ShapeError
from .. import elementwise as e
from .. import indexing as ix
from .. import movement as m
from .. import ordering as o
from ..table import function
from . import return_types as types
from .common import (
    Number,
    Tensor,
    alone,
    as_type,
    constant,
    dim_of,
    is_tensor,
    refuse,
    refuse_bool,
    shape_of,
)
from .return_types import Found, ValuesAndIndices


@function()
def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False
) -> Tensor:
    """The positions that sort ``input`` along ``dim``; always stable; NaN counts as the largest.

    >>> import tracejit as tj
    >>> tj.argsort(tj.tensor([3, 1, 2]))
    tensor([1, 2, 0])
    """
    return o.argsort(input, dim=dim_of(dim, input), descending=descending)


@function(steady=True)
def sort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False
) -> ValuesAndIndices:
    """``input`` in order along ``dim``, and where each element was; always stable.

    >>> import tracejit as tj
    >>> tj.sort(tj.tensor([3, 1, 2])).values
    tensor([1, 2, 3])
    """
    d = dim_of(dim, input)
    indices = o.argsort(input, dim=d, descending=descending)
    if not input.ndim:
        return types.sort(e.clone(input), indices)
    return types.sort(ix.gather(input, indices, dim=d), indices)


@function()
def msort(input: Tensor) -> Tensor:
    """``input`` in order along the first dimension.

    >>> import tracejit as tj
    >>> tj.msort(tj.tensor([3, 1, 2]))
    tensor([1, 2, 3])
    """
    return sort(input, 0).values


@function(steady=True)
def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> ValuesAndIndices:
    """The ``k`` largest (or smallest) elements along ``dim`` in order, and where they were.

    Raises ``RuntimeError`` when there are fewer.

    >>> import tracejit as tj
    >>> tj.topk(tj.tensor([1, 5, 3]), 2).values
    tensor([5, 3])
    """
    refuse_bool("topk", input.dtype)
    d = dim_of(dim, input)
    extent = shape_of(input)[d] if input.ndim else 1
    if not 0 <= k <= extent:
        raise RuntimeError("selected index k out of range")
    if not input.ndim:
        return types.topk(e.clone(input), o.argsort(input, dim=0, descending=False))
    indices = o.leading(input, dim=d, count=k, descending=largest)
    return types.topk(ix.gather(input, indices, dim=d), indices)


@function()
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices:
    """The ``k``-th smallest element along ``dim`` (counted from one), and where it was.

    Raises ``RuntimeError`` when there is none.

    >>> import tracejit as tj
    >>> tj.kthvalue(tj.tensor([5, 1, 3]), 2)
    tracejit.return_types.kthvalue(
    values=tensor(3),
    indices=tensor(2))
    """
    refuse_bool("kthvalue_cpu", input.dtype)
    d = dim_of(dim, input)
    extent = shape_of(input)[d] if input.ndim else 1
    if not extent:
        raise DimensionError(f"kthvalue(): Expected reduction dim {d} to have non-zero size.")
    if not 1 <= k <= extent:
        raise RuntimeError("kthvalue(): selected number k out of range for dimension " + str(d))
    if not input.ndim:
        return types.kthvalue(e.clone(input), o.argsort(input, dim=0, descending=False))
    found = o.position_at(input, dim=d, place=k - 1)
    return at_positions(types.kthvalue, input, found, d, keepdim)


def at_positions(kind: type[Found], x: Tensor, indices: Tensor, dim: int, keepdim: bool) -> Found:
    """A result of this kind: values at indices of extent one along ``dim``, both without it unless ``keepdim``."""
    values = ix.gather(x, indices, dim=dim)
    if keepdim:
        return kind(values, e.clone(indices))
    return kind(alone(m.squeeze(values, dims=(dim,))), e.clone(m.squeeze(indices, dims=(dim,))))


@function(method=False)
def searchsorted(
    sorted_sequence: Tensor,
    input: Tensor | Number,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where each element of ``input`` would go in sorted vectors (before equal ones unless ``right``).

    ``sorter`` is the order that sorts vectors that are not sorted themselves.

    >>> import tracejit as tj
    >>> tj.searchsorted(tj.tensor([1, 3, 5]), tj.tensor([3, 4]))
    tensor([1, 2])
    """
    refuse("searchsorted_out_cpu", sorted_sequence.dtype, "bool complex")
    _check_search(sorted_sequence, input, right, side, sorter)
    right = right or side == "right"
    if sorter is not None:
        sorted_sequence = ix.gather(sorted_sequence, sorter, dim=sorted_sequence.ndim - 1)
    values = input if is_tensor(input) else constant(input, sorted_sequence.dtype)
    found = o.search_sorted(sorted_sequence, values, right=right)
    return as_type(found, dtypes.int32) if out_int32 else found


def _check_search(
    boundaries: Tensor, input: Any, right: bool, side: str | None, sorter: Tensor | None
) -> None:
    """Raise ``RuntimeError`` for sides and shapes that do not fit."""
    if side not in (None, "left", "right"):
        raise RuntimeError(f"searchsorted(): side can only be 'left' or 'right' but got {side}")
    if right and side == "left":
        raise RuntimeError(
            "searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    if not boundaries.ndim:
        raise RuntimeError("searchsorted(): boundaries tensor should have positive dimension")
    shape = shape_of(boundaries)
    if len(shape) > 1 and is_tensor(input) and shape_of(input)[:-1] != shape[:-1]:
        raise ShapeError(
            "searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but got {list(shape)} and {list(shape_of(input))}"
        )
    if sorter is not None and shape_of(sorter) != shape:
        raise ShapeError(
            f"searchsorted(): boundary and sorter must have the same size, but got {list(shape)} and "
            f"{list(shape_of(sorter))}"
        )


@function(method=False)
def bucketize(
    input: Tensor | Number, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """The number of the bucket, between sorted boundaries (a vector), of each element.

    >>> import tracejit as tj
    >>> tj.bucketize(tj.tensor([0, 4]), tj.tensor([1, 3, 5]))
    tensor([0, 2])
    """
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@function()
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often (or with what total weight) each integer from zero on occurs in a vector.

    Raises ``RuntimeError`` for negative or non-integer elements.

    >>> import tracejit as tj
    >>> tj.bincount(tj.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """
    refuse("bincount_cpu", input.dtype, "bool float complex")
    if input.ndim != 1:
        raise RuntimeError(o.NOT_COUNTED)
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if weights is None:
        return o.bincount_of(input, minlength=minlength)
    dtype = weights.dtype if weights.dtype is dtypes.float32 else dtypes.float64
    bins = o.bins_of(input, minlength=minlength)
    zeros = constant(0, dtype, shape_of(bins))
    values = as_type(weights, dtype)
    return ix.put(zeros, input, values, dim=0, accumulate=True, negative=False)
