"""What a mask or a value selects: masked_select, masked_scatter, nonzero, argwhere."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from .. import indexing as ix
from .. import movement as m
from .. import ordering as o
from .. import shapes
from ..table import function
from .common import Tensor, alone, constant, shape_of


@function()
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where ``mask`` (broadcast) is True, as a vector.

    Raises ``RuntimeError`` when ``mask`` is not bool.

    >>> import tracejit as tj
    >>> tj.masked_select(tj.tensor([1, 2, 3]), tj.tensor([True, False, True]))
    tensor([1, 3])
    """
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(
            f"masked_select: expected BoolTensor for mask, got {mask.dtype.tensor_name}"
        )
    common = shapes.broadcast("masked_select", [shape_of(input), shape_of(mask)])
    flat = (
        m.reshape(m.expand(x, shape=common), shape=(shapes.numel(common),)) for x in (input, mask)
    )
    values, chosen = flat
    return ix.take(values, m.squeeze(o.nonzero(chosen), dims=(1,)), dim=0)


@function()
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """``input`` with elements of ``source``, in order, where ``mask`` is True.

    Raises ``RuntimeError`` when ``source`` has too few elements and for masks that are not bool.

    >>> import tracejit as tj
    >>> tj.masked_scatter(tj.zeros(3), tj.tensor([True, False, True]), tj.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype.title}"
        )
    common = shapes.broadcast("masked_scatter", [shape_of(input), shape_of(mask)])
    input, spread = (m.expand(x, shape=common) for x in (input, mask))
    flat = m.reshape(spread, shape=(input.spec.numel,))
    where = m.squeeze(o.nonzero(flat), dims=(1,))
    wanted, there = shape_of(where)[0], source.spec.numel
    if wanted > there:
        raise RuntimeError(
            "masked_scatter: expected self to have fewer True elements than source has elements"
        )
    values = m.slice(m.reshape(source, shape=(there,)), starts=(0,), counts=(wanted,), steps=(1,))
    base = m.reshape(input, shape=(input.spec.numel,))
    found = ix.put(base, where, values, dim=0, accumulate=False)
    return alone(m.reshape(found, shape=shape_of(input)))


@function()
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The positions of non-zero elements: one row each, or one vector per dimension.

    >>> import tracejit as tj
    >>> tj.nonzero(tj.tensor([0, 3, 0, 5]))
    tensor([[1],
            [3]])
    """
    if not as_tuple:
        return o.nonzero(input)
    rows = o.nonzero(input if input.ndim else m.reshape(input, shape=(1,)))
    return rows.unbind(1)


@function()
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """``nonzero`` cut to ``size`` rows, or filled up to them with ``fill_value``.

    >>> import tracejit as tj
    >>> tj.nonzero_static(tj.tensor([0, 3, 0, 5]), size=3)
    tensor([[ 1],
            [ 3],
            [-1]])
    """
    if size < 0:
        raise RuntimeError(
            f"nonzero_static: 'size' must be an non-negative integer, but got {size}"
        )
    found = constant(fill_value, dtypes.int64, (size, input.ndim))
    rows = o.nonzero(input)
    count = min(shape_of(rows)[0], size)
    starts, steps = (0, 0), (1, 1)
    kept = m.slice(rows, starts=starts, counts=(count, input.ndim), steps=steps)
    return m.slice_scatter(found, kept, starts=starts, counts=(count, input.ndim), steps=steps)


@function()
def argwhere(input: Tensor) -> Tensor:
    """The positions of non-zero elements, one row each.

    >>> import tracejit as tj
    >>> tj.argwhere(tj.tensor([0, 3]))
    tensor([[1]])
    """
    return o.nonzero(input)
