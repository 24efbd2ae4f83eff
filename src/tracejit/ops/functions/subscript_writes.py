"""``x[index] = value``: what is written to views, to masks, and at index tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import DtypeError
from .. import elementwise as e
from .. import indexing as ix
from .. import movement as m
from .. import source as s
from ..overlaps import is_own, refuse_overlap, refuse_own
from ..table import function
from .common import Tensor, as_type, constant, is_tensor, refuse_overflow, shape_of
from .repeated_places import fill_where, fitted, put_at, repeated
from .scalar_positions import select_scalars
from .subscript import basic_view, beside, index_tensors, read, target_of, within


def put_back(
    view: Tensor, indices: dict[int, Tensor], value: Any, accumulate: bool, leading: bool = False
) -> Tensor:
    """``view`` with ``value`` written (or added) at index tensors: what ``view[...] = value`` makes.

    ``leading`` says that the value may have leading extents of one too many.
    """
    shape = shape_of(view)
    indices = {
        d: m.reshape(i, shape=(1,)) if not i.ndim and len(indices) > 1 else i
        for d, i in indices.items()
    }
    target = target_of(view, within(view, indices))
    taken = shape_of(target.view)
    place = (*taken[: target.dim], *shape_of(target.index), *taken[target.dim + 1 :])
    stored = fitted(value, view.dtype, place, leading)
    result = ix.put(target.view, target.index, stored, dim=target.dim, accumulate=accumulate)
    result = m.reshape(result, shape=target.shape)
    if target.order != tuple(range(len(shape))):
        inverse = tuple(sorted(range(len(shape)), key=target.order.__getitem__))
        result = m.permute(result, dims=inverse)
    return result


@function(namespace=False, method="__setitem__")
def setitem(self: Tensor, index: Any, value: Any) -> None:
    """Write ``value``, broadcast and cast, to the elements at ``index``.

    Raises ``IndexError`` as reading does, ``RuntimeError`` when the value does not broadcast.

    >>> import tracejit as tj
    >>> x = tj.zeros(2, 2)
    >>> x[0] = tj.tensor([1.0, 2.0])
    >>> x[x == 0] = -1
    >>> x
    tensor([[ 1.,  2.],
            [-1., -1.]])
    """
    if value is self and index is Ellipsis:
        self.copy_(self)
        return
    given = value
    if not is_tensor(value) and not isinstance(value, (bool, int, float, complex)):
        value = _number(value)
    if type(index) is bool and is_tensor(value):  # alone it is no position: what is written is cast
        given = value = as_type(value, self.dtype)
    if type(value) is int and not -(1 << 63) <= value < 1 << 63:
        raise ValueError("Overflow when unpacking long long: the number needs more than 64 bits")
    if not is_tensor(value) and not self.dtype.is_half:
        refuse_overflow(self.dtype, value)
    if is_tensor(index) and index.dtype is dtypes.bool_ and _is_number(value) and index.ndim:
        _fill_masked(self, beside(index, self), value)
        return
    since = self._next_node()
    plan = read(self, index)
    found = index_tensors(plan)
    view = basic_view(self, plan, to_read=any(not i.ndim for i in found.values()))
    view, indices = select_scalars(view, found)
    if indices:
        entries = index if isinstance(index, tuple) else (index,)
        _refuse_written(self, [i for i in entries if not _selects(i)], given)
    if indices and is_own(view, (given, *indices.values())) and not _one_by_mask(given, index):
        refuse_own(view, (given, *indices.values()))
    if indices and repeated(view):
        index = tuple(indices.get(d, slice(None)) for d in range(view.ndim))
        put_at(view, index, lambda shape: fitted(value, view.dtype, shape), accumulate=False)
    elif indices:
        view._assign(put_back(view, indices, value, False, leading=True), since)
    else:
        # One that is spread over the view stands for many elements, which nobody compares.
        if is_own(view, (value,)) and value.spec.numel == view.spec.numel:
            refuse_overlap(view, (value,))
        view._assign(fitted(value, view.dtype, shape_of(view)), since)


def _refuse_written(x: Tensor, index: Sequence[Any], value: Any) -> None:
    """``RuntimeError`` for a value of another dtype, and for one value at a mask from before there were bools."""
    found = [i for i in index if isinstance(i, _POSITIONS) or is_tensor(i)]
    old = len(found) == 1 and is_tensor(found[0]) and found[0].dtype is dtypes.uint8
    if old and (not is_tensor(value) or value.spec.numel == 1):  # a question that few need asked
        raise RuntimeError(
            "masked_fill_ only supports boolean masks, but got mask with dtype uint8"
        )
    if is_tensor(value):
        refuse_other_dtype(x, index, value)


def refuse_other_dtype(
    x: Tensor, index: Sequence[Any], value: Tensor, accumulate: bool = False
) -> None:
    """``RuntimeError`` where a tensor of another dtype is to be written at positions; one value at a mask is cast."""
    if value.dtype is x.dtype:
        return
    masks = [_is_mask(i) for i in index if isinstance(i, _POSITIONS) or is_tensor(i)]
    if masks == [True] and value.spec.numel == 1 and not accumulate:
        return
    raise DtypeError(
        "Index put requires the source and destination dtypes match, "
        f"got {x.dtype.title} for the destination and {value.dtype.title} for the source."
    )


#: What of an index is positions or masks, besides tensors.
_POSITIONS = (bool, list, tuple, range, np.ndarray)


def _selects(item: Any) -> bool:
    """Does a part of an index select like an integer?"""
    return is_tensor(item) and not item.ndim and item.dtype is not dtypes.bool_


def _is_mask(item: Any) -> bool:
    """Does a part of an index say of every element whether it is meant, and not where the meant ones are?"""
    if not is_tensor(item):
        array = np.asarray(item)
        return array.dtype.kind == "b" and array.ndim > 0
    return item.dtype is dtypes.bool_ and bool(item.ndim)


def _one_by_mask(given: Any, index: Any) -> bool:
    """Is one value put wherever a mask is true? It is read before anything is written."""
    if not is_tensor(given) or given.spec.numel != 1:
        return False
    entries = index if isinstance(index, tuple) else (index,)
    return any(is_tensor(i) and i.dtype is dtypes.bool_ for i in entries)


def _number(value: Any) -> Any:
    if isinstance(value, (np.ndarray, list, tuple)):
        array = np.asarray(value)
        dtype = (
            dtypes.get_default_dtype()
            if array.dtype == np.float64
            else dtypes.from_numpy(array.dtype)
        )
        return s.literal(values=tuple(array.ravel().tolist()), shape=array.shape, dtype=dtype)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"can't assign a {type(value).__name__} to a tensor")


def _is_number(value: Any) -> bool:
    return not is_tensor(value) or value.ndim == 0


def _fill_masked(x: Tensor, mask: Tensor, value: Any) -> None:
    """A mask and one value need no positions: a selection says it all, whatever the mask holds."""
    own, shape = shape_of(mask), shape_of(x)
    if own != shape[: len(own)]:
        read(x, mask)  # raises
    since = x._next_node()
    spread = m.reshape(mask, shape=own + (1,) * (len(shape) - len(own)))
    if repeated(x):
        fill_where(x, spread, value)
        return
    stored = as_type(value, x.dtype) if is_tensor(value) else constant(value, x.dtype)
    x._assign(e.where(spread, stored, x), since)
