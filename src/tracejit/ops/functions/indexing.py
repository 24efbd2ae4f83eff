"""Indexing functions as PyTorch spells them: gather, scatter, index_select, index_put, topk, sort, ..."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import dtypes
from ...errors import ShapeError
from ...modes import MODES
from .. import comparison as c
from .. import elementwise as e
from .. import indexing as ix
from .. import limits, shapes
from .. import movement as m
from ..table import function
from ..underived import underived
from .common import (
    Number,
    Tensor,
    as_type,
    constant,
    dim_of,
    is_tensor,
    promoted,
    refuse,
    refuse_overflow,
    shape_of,
)
from .slicing import slice_along
from .subscript import read
from .subscript_writes import put_back, refuse_other_dtype


@function(steady=True)
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """One element along ``dim`` per element of ``index``: ``out[i][j] = input[i][index[i][j]]``.

    Raises ``RuntimeError`` (also an ``IndexError``) for indices out of range.

    >>> import tracejit as tj
    >>> tj.gather(tj.tensor([[1, 2], [3, 4]]), 1, tj.tensor([[0], [1]]))
    tensor([[1],
            [4]])
    """
    d = dim_of(dim, input)
    if not input.ndim and index.ndim == 1:
        input = _vector(input)
    if not index.spec.numel and index.ndim != input.ndim:
        return m.reshape(slice_along(m.reshape(input, shape=(-1,)), 0, 0, 0), shape=shape_of(index))
    if input.ndim == 1 and not index.ndim:
        return m.reshape(ix.gather(input, _vector(index), dim=d), shape=())
    return ix.gather(input, index, dim=d)


def _source(input: Tensor, index: Tensor, src: Any) -> Tensor:
    if is_tensor(src):
        return src
    refuse_overflow(input.dtype, src)
    return constant(src, input.dtype, shape_of(index))


def _fitted(input: Tensor, index: Tensor, src: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
    """The three as vectors where dimensions differ and may: numbers are vectors of one, no index says nothing.

    None where dimensions are the same, or an error.
    """
    ranks = {input.ndim, index.ndim, src.ndim}
    if len(ranks) == 1 or (index.spec.numel and ranks != {0, 1}):
        return None
    row, places, values = (m.reshape(x, shape=(x.spec.numel,)) for x in (input, index, src))
    return row, places, values if index.spec.numel else slice_along(values, 0, 0, 0)


@function()
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    value: Number | None = None,
    reduce: str | None = None,
) -> Tensor:
    """``input`` with elements of ``src`` (or one value) written where ``gather`` would read.

    ``reduce`` "add" or "multiply" combines instead. Raises ``RuntimeError`` for indices out of range.

    >>> import tracejit as tj
    >>> tj.scatter(tj.zeros(1, 3), 1, tj.tensor([[2]]), 5.0)
    tensor([[0., 0., 5.]])
    """
    d = dim_of(dim, input)
    source = _source(input, index, value if src is None else src)
    if fitted := _fitted(input, index, source):
        row, places, values = fitted
        return m.reshape(scatter(row, 0, places, values, reduce=reduce), shape=shape_of(input))
    if reduce is None:
        return ix.scatter(input, index, source, dim=d)
    if reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    if reduce == "add":
        found = ix.scatter_add(input, index, source, dim=d)
    else:
        found = ix.scatter_combine(input, index, source, dim=d, reduce="prod")
    return underived(found, what="aten::scatter")


@function(steady=True)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """``input`` with elements of ``src`` added where ``gather`` would read.

    >>> import tracejit as tj
    >>> tj.scatter_add(tj.zeros(3), 0, tj.tensor([1, 1]), tj.ones(2))
    tensor([0., 2., 0.])
    """
    d = dim_of(dim, input)
    if fitted := _fitted(input, index, src):
        row, places, values = fitted
        return m.reshape(ix.scatter_add(row, places, values, dim=0), shape=shape_of(input))
    return ix.scatter_add(input, index, src, dim=d)


@function()
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """``input`` combined with elements of ``src`` by "sum", "prod", "mean", "amax" or "amin".

    Raises ``RuntimeError`` for another ``reduce`` and for indices out of range.

    >>> import tracejit as tj
    >>> tj.scatter_reduce(tj.zeros(2), 0, tj.tensor([0, 0]), tj.tensor([3.0, 5.0]), "amax")
    tensor([5., 0.])
    """
    d = dim_of(dim, input)
    fitted = _fitted(input, index, src)
    if not input.ndim or fitted:
        row, places, values = fitted or (_vector(input), _vector(index), _vector(src))
        found = scatter_reduce(row, 0, places, values, reduce, include_self=include_self)
        return m.reshape(found, shape=shape_of(input))
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    if reduce in ("amax", "amin", "mean"):
        unfit = "bool" if reduce == "mean" else "complex"
        refuse(f"scatter_gather_tensor_cpu_reduce_{reduce}", input.dtype, unfit)
    start = input if include_self else _without_self(input, d, index, reduce)
    if reduce not in ("sum", "mean"):
        return ix.scatter_combine(start, index, src, dim=d, reduce=reduce)
    total = ix.scatter_add(start, index, src, dim=d)
    return total if reduce == "sum" else _averaged(input, total, d, index, include_self)


def _averaged(x: Tensor, total: Tensor, dim: int, index: Tensor, include_self: bool) -> Tensor:
    kind = x.dtype.to_real() if x.dtype.is_complex else x.dtype
    ones = constant(1, kind, shape_of(index))
    counts = ix.scatter_add(
        constant(1 if include_self else 0, kind, shape_of(x)), index, ones, dim=dim
    )
    counts = limits.clamp_min(counts, 1)
    return e.div(total, counts) if x.dtype.is_differentiable else e.floor_divide(total, counts)


def _without_self(x: Tensor, dim: int, index: Tensor, reduce: str) -> Tensor:
    """The neutral element where something is scattered to."""
    neutral: Number = {"sum": 0, "mean": 0, "prod": 1}.get(reduce, 0)
    if reduce in ("amax", "amin"):
        neutral = _extreme(x.dtype, lowest=reduce == "amax")
    return ix.scatter(x, index, constant(neutral, x.dtype, shape_of(index)), dim=dim)


def _extreme(dtype: dtypes.DType, *, lowest: bool) -> Number:
    if dtype.is_floating_point:
        return float("-inf") if lowest else float("inf")
    bits = dtype.itemsize * 8 - (1 if dtype.is_signed else 0)
    return (-(1 << bits) if dtype.is_signed else 0) if lowest else (1 << bits) - 1


@function(steady=True)
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices of ``input`` along ``dim`` at the positions in a vector.

    Raises ``IndexError`` for positions out of range and indices with more dimensions.

    >>> import tracejit as tj
    >>> tj.index_select(tj.tensor([[1, 2], [3, 4]]), 0, tj.tensor([1]))
    tensor([[3, 4]])
    """
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    vector = m.reshape(index, shape=(1,)) if not index.ndim else index
    if not input.ndim:
        row = m.reshape(input, shape=(1,))
        return m.reshape(ix.take(row, vector, dim=0, negative=False), shape=())
    return ix.take(input, vector, dim=dim_of(dim, input), negative=False)


@function(steady=True)
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """``gather`` with ``indices`` broadcast against ``input``.

    Raises ``RuntimeError`` where those have another number of dimensions.

    >>> import tracejit as tj
    >>> tj.take_along_dim(tj.tensor([[1, 2], [3, 4]]), tj.tensor([[1]]), dim=1)
    tensor([[2],
            [4]])
    """
    if dim is None:
        flat = m.reshape(input, shape=(input.spec.numel,))
        return ix.gather(flat, m.reshape(indices, shape=(indices.spec.numel,)), dim=0)
    if input.ndim != indices.ndim:
        raise ShapeError(
            "tracejit.take_along_dim(): input and indices should have the same number of dimensions, "
            f"but got {input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    d = dim_of(dim, input)
    extent = shape_of(input)[d] if input.ndim else 1
    indices = e.where(c.lt(indices, 0), e.add(indices, extent), indices)
    others = [
        tuple(1 if i == d else n for i, n in enumerate(shape_of(x))) for x in (input, indices)
    ]
    common = shapes.broadcast("take_along_dim", others)
    wide, index = (
        m.expand(x, shape=tuple(shape_of(x)[d] if i == d else n for i, n in enumerate(common)))
        for x in (input, indices)
    )
    return ix.gather(wide, index, dim=d)


@function()
def take(input: Tensor, index: Tensor) -> Tensor:
    """Elements of the flattened ``input``.

    >>> import tracejit as tj
    >>> tj.take(tj.tensor([[1, 2], [3, 4]]), tj.tensor([0, 3]))
    tensor([1, 4])
    """
    return ix.take(m.reshape(input, shape=(input.spec.numel,)), index, dim=0)


@function()
def index_put(
    input: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False
) -> Tensor:
    """``input`` with ``values`` written (or added) at ``input[indices]``.

    >>> import tracejit as tj
    >>> tj.index_put(tj.zeros(3), (tj.tensor([1, 1]),), tj.tensor([2.0, 3.0]), accumulate=True)
    tensor([0., 5., 0.])
    """
    index = tuple(slice(None) if i is None else i for i in indices)
    refuse_other_dtype(input, index, values, accumulate)
    plan = read(input, index)
    found = {i: entry[1] for i, entry in enumerate(plan.layout) if isinstance(entry, tuple)}
    return put_back(input, found, values, accumulate)


def _vector(index: Tensor) -> Tensor:
    return m.reshape(index, shape=(1,)) if not index.ndim else index


@function(steady=True)
def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1
) -> Tensor:
    """``input`` with ``alpha * source`` added to the slices at ``index``.

    >>> import tracejit as tj
    >>> tj.index_add(tj.zeros(3), 0, tj.tensor([0, 0]), tj.ones(2))
    tensor([2., 0., 0.])
    """
    _check_slices(input, dim, index, source)
    scaled = source if alpha == 1 else as_type(e.mul(source, alpha), source.dtype)
    return _put_slices(input, dim, index, scaled, accumulate=True)


def _check_slices(input: Tensor, dim: int, index: Tensor, source: Tensor) -> None:
    """``RuntimeError`` unless ``source`` has a slice for each index, of the shape of one of ``input``."""
    own, theirs = shape_of(input), shape_of(source)
    if not own or not theirs:
        return
    d = dim_of(dim, input)
    if own[:d] + own[d + 1 :] != theirs[:d] + theirs[d + 1 :]:
        raise ShapeError(
            "index_add(): source tensor shape must match self tensor shape, excluding the specified "
            f"dimension. Got self.shape = {list(own)} source.shape = {list(theirs)}"
        )
    if index.spec.numel != theirs[d]:
        raise ShapeError(
            f"index_add_(): Number of indices ({index.spec.numel}) should be equal to "
            f"source.size(dim): ({theirs[d]}), for dim: {d}"
        )


def _put_slices(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, accumulate: bool
) -> Tensor:
    """Write or add slices along ``dim``; a 0-d tensor is a vector of one element. No position is negative."""
    d = dim_of(dim, input)
    if not input.ndim:
        row, values = _vector(input), _vector(source)
        put = ix.put(row, _vector(index), values, dim=0, accumulate=accumulate, negative=False)
        return m.reshape(put, shape=())
    if input.ndim == 1:
        source = _vector(source)
    return ix.put(input, _vector(index), source, dim=d, accumulate=accumulate, negative=False)


@function()
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """``input`` with the slices at ``index`` combined with those of ``source``: "prod", "mean", "amax" or "amin".

    Raises ``RuntimeError`` for another ``reduce`` and for indices out of range.

    >>> import tracejit as tj
    >>> tj.index_reduce(tj.ones(2), 0, tj.tensor([0, 0]), tj.tensor([2.0, 5.0]), "prod")
    tensor([10.,  1.])
    """
    refuse("index_func_", input.dtype, "bool complex" if reduce != "mean" else "bool")
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        )
    d, row = dim_of(dim, input), input if input.ndim else _vector(input)
    values = source if source.ndim else _vector(source)
    _check_count("index_reduce_", index, values, d, ShapeError)
    along = tuple(-1 if i == d else 1 for i in range(values.ndim))
    places = m.expand(_vector(index).reshape(along), shape=shape_of(values))
    found = scatter_reduce(row, d, places, values, reduce, include_self=include_self)
    return m.reshape(found, shape=shape_of(input))


def _check_count(
    name: str, index: Tensor, source: Tensor, dim: int, error: type[Exception]
) -> None:
    """There is a slice of ``source`` for every index."""
    count, slices = index.spec.numel, shape_of(source)[dim] if source.ndim else 1
    if count != slices:
        raise error(
            f"{name}(): Number of indices ({count}) should be equal to source.size(dim): ({slices}), for dim: {dim}"
        )


@function()
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """``input`` with the slices at ``index`` replaced by ``source``; where autocast is on, of the wider dtype of both.

    >>> import tracejit as tj
    >>> tj.index_copy(tj.zeros(3), 0, tj.tensor([2]), tj.ones(1))
    tensor([0., 0., 1.])
    """
    if MODES.autocast is not None:
        kind = promoted(input, source)
        input, source = as_type(input, kind), as_type(source, kind)
    _check_count("index_copy_", index, source, dim_of(dim, input), IndexError)
    return _put_slices(input, dim, index, source, accumulate=False)


@function()
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """``input`` with the slices at ``index`` filled with ``value``.

    >>> import tracejit as tj
    >>> tj.index_fill(tj.zeros(3), 0, tj.tensor([2]), 7)
    tensor([0., 0., 7.])
    """
    if is_tensor(value) and value.ndim:
        raise ShapeError(
            "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.ndim} dimension(s)."
        )
    d = dim_of(dim, input)
    if not input.ndim:
        return m.reshape(index_fill(_vector(input), 0, index, value), shape=())
    vector = _vector(index)
    shape = (*shape_of(input)[:d], shape_of(vector)[0], *shape_of(input)[d + 1 :])
    if is_tensor(value):  # by a mask: a slice that is named twice has one gradient
        extent = shape_of(input)[d]
        none = constant(False, dtypes.bool_, (extent,))
        ones = constant(True, dtypes.bool_, shape_of(vector))
        named = ix.put(none, vector, ones, dim=0, accumulate=False)
        along = m.reshape(named, shape=(extent, *(1,) * (input.ndim - d - 1)))
        return e.where(along, as_type(value, input.dtype), input)
    refuse_overflow(input.dtype, value)
    one = constant(value, input.dtype)
    return ix.put(input, vector, m.expand(one, shape=shape), dim=d, accumulate=False)
