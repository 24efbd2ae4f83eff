"""Distinct elements and slices: unique, and unique_consecutive for what is sorted already."""

from __future__ import annotations

from typing import Any

from ...dtypes import int64
from .. import comparison as c
from .. import elementwise as e
from .. import indexing as ix
from .. import movement as m
from .. import ordering as o
from .. import reduction as r
from .. import source as s
from ..table import function
from ..underived import underived
from .common import Tensor, as_type, check_tensor, dim_of, refuse, shape_of
from .slicing import slice_along


def _rows(x: Tensor, d: int) -> Tensor:
    """The slices along ``d`` as the rows of a matrix."""
    order = (d, *(i for i in range(x.ndim) if i != d))
    count = shape_of(x)[d]
    rest = x.spec.numel // max(count, 1)
    return m.reshape(m.permute(x, dims=order), shape=(count, rest))


def _chosen(parts: list[Tensor], inverse: bool, counts: bool) -> Any:
    """The values, and of the others what was asked for."""
    wanted = [parts[0], *([parts[1]] if inverse else []), *([parts[2]] if counts else [])]
    return wanted[0] if len(wanted) == 1 else tuple(wanted)


@function()
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements (or slices along ``dim``) in order; optionally where each went, and how many there are.

    >>> import tracejit as tj
    >>> tj.unique(tj.tensor([3, 1, 3])), tj.unique(tj.tensor([[1, 2], [1, 2]]), dim=0)
    (tensor([1, 3]), tensor([[1, 2]]))
    """
    refuse("unique", input.dtype, "complex")
    check_tensor("unique", input)
    wanted = [True, return_inverse, return_counts]
    if dim is None:
        names = [n for n, w in zip(("values", "inverse", "counts"), wanted, strict=True) if w]
        parts = [o.unique_part(input, part=name) for name in names]
        return parts[0] if len(parts) == 1 else tuple(parts)
    d = dim_of(dim, input)
    rows = _rows(input, d)
    values = ix.take(underived(input, what="unique_dim"), o.unique_rows(rows, part="first"), dim=d)
    others = [
        o.unique_rows(rows, part=name) if w else values
        for name, w in zip(("inverse", "counts"), wanted[1:], strict=True)
    ]
    return _chosen([values, *others], return_inverse, return_counts)


@function()
def unique_consecutive(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The first of every run of equal elements (or slices along ``dim``); optionally which run each is in, and lengths.

    >>> import tracejit as tj
    >>> tj.unique_consecutive(tj.tensor([1, 1, 2, 1]), return_counts=True)
    (tensor([1, 2, 1]), tensor([2, 1, 1]))
    """
    refuse("unique", input.dtype, "complex")
    check_tensor("unique_consecutive", input)
    x = underived(input, what="unique_consecutive" if dim is None else "unique_dim_consecutive")
    x = m.reshape(x, shape=(input.spec.numel,)) if dim is None else x
    d = 0 if dim is None else dim_of(dim, input)
    count = shape_of(x)[d]
    rows = _rows(x, d)
    if count:
        here, before = slice_along(rows, 0, 1, count - 1), slice_along(rows, 0, 0, count - 1)
        differ = c.ne(here, before)
        alone = shape_of(rows)[1] == 1
        moved = (
            m.squeeze(differ, dims=(1,)) if alone else r.any_true(differ, dims=(1,), keepdim=False)
        )
        begins = m.cat(s.full(shape=(1,), value=True, dtype=moved.dtype), moved, dim=0)
    else:
        begins = s.full(shape=(0,), value=True, dtype=c.eq(rows, rows).dtype)
    first = m.squeeze(o.nonzero(begins), dims=(1,))
    inverse = ends = None
    if return_inverse:
        inverse = e.sub(o.cumsum(as_type(begins, int64), dim=0), 1)
        inverse = m.reshape(inverse, shape=shape_of(input)) if dim is None else inverse
    if return_counts:
        later = slice_along(first, 0, min(1, count), shape_of(first)[0] - min(1, count))
        last = s.full(shape=(min(1, count),), value=count, dtype=int64)
        ends = e.sub(m.cat(later, last, dim=0), first)
    return _chosen([ix.take(x, first, dim=d), inverse, ends], return_inverse, return_counts)
