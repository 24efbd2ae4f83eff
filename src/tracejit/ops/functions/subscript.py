"""``x[index]`` and ``x[index] = value``: integers, slices, None, ``...``, masks and index tensors, mixed.

Basic parts become one view; index tensors then take from it. Index tensors next to each other keep their place, others
put their common dimensions in front, as in PyTorch. A 0-d integer tensor selects like an integer: a view.
"""

from __future__ import annotations

import builtins
import operator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import DimensionError
from ...extents import is_symbolic
from ...sizes import largest, smallest
from ...types import Shape
from .. import elementwise as e
from .. import indexing as ix
from .. import movement as m
from .. import ordering as o
from .. import shapes
from .. import source as s
from ..overlaps import refuse_overlap
from ..table import function
from ..transfer import to_device
from .common import Tensor, as_type, constant, is_tensor, shape_of
from .scalar_positions import select_scalars

_BAD_TYPE = "tensors used as indices must be long, int, byte or bool tensors"


@dataclass
class Plan:
    """An index, read: a slice of every dimension, then what each dimension of the result is."""

    starts: list[int]
    counts: list[int]
    steps: list[int]
    dropped: list[int] = field(default_factory=list)  # dimensions indexed by an integer
    layout: list[Any] = field(default_factory=list)  # None (new), a dimension, or (dim, index)
    cut: bool = False  # was anything left out?


#: What makes a list the parts of an index; one of mere numbers, or of 32 items and more, is an index tensor.
_PARTS = (type(None), type(...), builtins.slice, list, tuple, range, np.ndarray)


def _items(index: Any) -> list[Any]:
    if isinstance(index, tuple):
        return list(index)
    short = isinstance(index, list) and len(index) < 32
    parted = short and any(isinstance(i, _PARTS) or is_tensor(i) for i in index)
    return list(index) if parted else [index]


def _as_index(item: Any, x: Tensor) -> Any:
    """Lists and arrays as index tensors, those of the host where ``x`` lies; the rest as it is."""
    if type(item) is int or type(item) is builtins.slice:
        return item
    if is_tensor(item):
        if item.dtype.is_floating_point:
            raise IndexError(_BAD_TYPE)
        item = _beside(item, x)
        return as_type(item, dtypes.bool_) if item.dtype is dtypes.uint8 else item
    if isinstance(item, (list, tuple, range, np.ndarray)):
        array = np.asarray(item)
        if array.size == 0 and not isinstance(item, np.ndarray):
            array = array.astype(np.int64)
        if array.dtype.kind not in "biu":
            raise IndexError(_BAD_TYPE)
        dtype = dtypes.bool_ if array.dtype.kind == "b" else dtypes.int64
        return s.literal(values=tuple(array.ravel().tolist()), shape=array.shape, dtype=dtype)
    return item


def _beside(index: Tensor, x: Tensor) -> Tensor:
    """An index tensor on the device of ``x``; single numbers find their way themselves."""
    if not getattr(x, "is_cuda", False) or index.is_cuda or not index.ndim:
        return index
    return to_device(index, source=-1, device=x.get_device())


def _consumes(item: Any) -> int:
    if type(item) is int or type(item) is builtins.slice:
        return 1
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return int(item.ndim) if is_tensor(item) and item.dtype is dtypes.bool_ else 1


def read(x: Tensor, index: Any) -> Plan:
    """The plan of ``x[index]``."""
    shape = shape_of(x)
    items = [_as_index(i, x) for i in _items(index)]
    used = sum(map(_consumes, items))
    if used > len(shape):
        raise DimensionError(f"too many indices for tensor of dimension {len(shape)}")
    found = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(found) > 1:
        raise DimensionError("an index can only have a single ellipsis ('...')")
    at = found[0] if found else len(items)
    fill = [builtins.slice(None)] * (len(shape) - used)
    plan = Plan([0] * len(shape), list(shape), [1] * len(shape))
    dim = 0
    for item in (*items[:at], *fill, *items[at + 1 :]):
        _add(plan, item, dim, shape)
        dim += _consumes(item)
    return plan


def _add(plan: Plan, item: Any, dim: int, shape: Shape) -> None:
    if type(item) is int:
        _add_integer(plan, item, dim, shape[dim])
    elif item is None:
        plan.layout.append(None)
    elif isinstance(item, bool):
        plan.layout.append(item)
    elif isinstance(item, builtins.slice):
        _add_slice(plan, item, dim, shape[dim])
    elif is_tensor(item) and item.dtype is dtypes.bool_:
        _add_mask(plan, item, dim, shape)
    elif is_tensor(item):
        plan.layout.append((dim, item))
    elif hasattr(item, "__index__"):
        _add_integer(plan, shapes.as_size(item), dim, shape[dim])
    else:
        raise TypeError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are "
            f"valid indices (got {type(item).__name__})"
        )


def slice_bounds(item: builtins.slice, extent: int) -> tuple[int, int]:
    """Where a slice with a positive step starts and stops in a dimension.

    >>> slice_bounds(builtins.slice(-3, None), 5), slice_bounds(builtins.slice(7), 5)
    ((2, 5), (0, 5))
    """
    start = 0 if item.start is None else _bound(item.start, extent)
    return start, extent if item.stop is None else _bound(item.stop, extent)


def _bound(position: Any, extent: int) -> Any:
    """A position counted from either end, within the dimension.

    A symbolic one rarely has to be cut off, so that it is not may be decided; a plain one is cut off where need be.
    """
    at = position if is_symbolic(position) else operator.index(position)
    if is_symbolic(at):
        at = at + extent if at < 0 else at
        return 0 if at < 0 else extent if at > extent else at
    return largest(at + extent, 0) if at < 0 else smallest(at, extent)


def _add_integer(plan: Plan, index: int, dim: int, extent: int) -> None:
    if not -extent <= index < extent:
        raise DimensionError(
            f"index {index} is out of bounds for dimension {dim} with size {extent}"
        )
    plan.starts[dim], plan.counts[dim], plan.cut = index % extent, 1, True
    plan.dropped.append(dim)


def _add_slice(plan: Plan, item: builtins.slice, dim: int, extent: int) -> None:
    step = 1 if item.step is None else item.step.__index__()
    if step <= 0:
        raise ValueError("step must be greater than zero")
    if item.start is None and item.stop is None and step == 1:
        plan.layout.append(dim)
        return
    if any(map(is_symbolic, (item.start, item.stop, extent))):
        start, stop = slice_bounds(item, extent)
    else:
        start, stop, _ = builtins.slice(item.start, item.stop, step).indices(extent)
    plan.starts[dim], plan.steps[dim], plan.cut = start, step, True
    plan.counts[dim] = largest(-((start - stop) // step), 0)
    plan.layout.append(dim)


def _add_mask(plan: Plan, mask: Tensor, dim: int, shape: Shape) -> None:
    for d, extent in enumerate(shape_of(mask)):
        if extent != shape[dim + d]:
            raise DimensionError(
                f"The shape of the mask {list(mask.shape)} at index {d} does not match the shape of "
                f"the indexed tensor {list(shape)} at index {dim + d}"
            )
    if not mask.ndim:  # a dimension of one or none, in front of those that are left
        where = o.nonzero(m.reshape(mask, shape=(1,)))
        plan.layout.append((None, m.squeeze(where, dims=(1,))))
        return
    rows = o.nonzero(mask)
    for d in range(mask.ndim):
        column = m.slice(rows, starts=(0, d), counts=(shape_of(rows)[0], 1), steps=(1, 1))
        plan.layout.append((dim + d, m.squeeze(column, dims=(1,))))


def _is_new(entry: Any) -> bool:
    """Does a layout entry stand for a dimension that the tensor does not have?"""
    if isinstance(entry, tuple):
        return entry[0] is None
    return entry is None or isinstance(entry, bool)


def basic_view(x: Tensor, plan: Plan, to_read: bool = False) -> Tensor:
    """The view of ``x`` by the integers, slices and Nones of a plan; one dimension per layout entry.

    ``x`` itself will do where the view is only read from and shows all of it.
    """
    new = tuple([i for i, entry in enumerate(plan.layout) if _is_new(entry)])
    view = x
    if (
        plan.cut or not to_read
    ):  # who writes to a view of everything writes to a part, as autograd sees it
        starts, counts, steps = tuple(plan.starts), tuple(plan.counts), tuple(plan.steps)
        view = m.slice(x, starts=starts, counts=counts, steps=steps)
    if plan.dropped:
        view = m.squeeze(view, dims=tuple(plan.dropped))
    view = m.unsqueeze(view, dims=new) if new else view
    for i, entry in enumerate(plan.layout):
        if entry is False:
            counts = tuple(0 if d == i else n for d, n in enumerate(shape_of(view)))
            zeros = (0,) * len(counts)
            view = m.slice(view, starts=zeros, counts=counts, steps=(1,) * len(counts))
    return view


@dataclass
class Target:
    """What index tensors address: a rearranged view, one index along one of its dimensions, and the way back."""

    view: Tensor
    index: Tensor
    dim: int
    order: Shape  # how the dimensions of the basic view were permuted
    shape: Shape  # the permuted shape before dimensions were merged


def _target(view: Tensor, indices: dict[int, Tensor]) -> Target:
    """Merge the indexed dimensions of ``view`` into one, and their indices into one."""
    where = sorted(indices)
    shape = shape_of(view)
    order = tuple(range(len(shape)))
    if len(where) == 1:
        return Target(view, indices[where[0]], where[0], order, shape)
    if where != list(range(where[0], where[0] + len(where))):
        order = (*where, *(d for d in order if d not in where))
        view, first = m.permute(view, dims=order), 0
    else:
        first = where[0]
    permuted = shape_of(view)
    extents = permuted[first : first + len(where)]
    index = _linear([indices[d] for d in where], extents, where)
    merged = (*permuted[:first], shapes.numel(extents), *permuted[first + len(where) :])
    return Target(m.reshape(view, shape=merged), index, first, order, permuted)


def _linear(indices: list[Tensor], extents: Shape, dims: list[int]) -> Tensor:
    """Row-major positions of several broadcast indices."""
    total: Tensor = None
    try:
        shapes.broadcast("index", [shape_of(i) for i in indices])
    except RuntimeError:
        listing = ", ".join(str(list(i.shape)) for i in indices)
        raise DimensionError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {listing}"
        ) from None
    for index, extent, dim in zip(indices, extents, dims, strict=True):
        position = ix.wrap_index(index, size=extent, dim=dim)
        total = position if total is None else e.add(e.mul(total, extent), position)
    return total


def _index_tensors(plan: Plan) -> dict[int, Tensor]:
    return {i: entry[1] for i, entry in enumerate(plan.layout) if isinstance(entry, tuple)}


@function(namespace=False, method="__getitem__")
def getitem(self: Tensor, index: Any) -> Tensor:
    """The elements at ``index``: a view for integers, also in 0-d tensors, slices, None and ``...``, else a copy.

    Raises ``IndexError`` for indices out of range, too many indices, and indices of other types.

    >>> import tracejit as tj
    >>> x = tj.arange(6).reshape(2, 3)
    >>> x[0, 1:], x[:, [2, 0]], x[x > 3]
    (tensor([1, 2]), tensor([[2, 0],
            [5, 3]]), tensor([4, 5]))
    """
    plan = read(self, index)
    found = _index_tensors(plan)
    view = basic_view(self, plan, bool(found))
    if not found:  # True and False are masks without dimensions, and masks make copies
        return e.clone(view) if any(isinstance(entry, bool) for entry in plan.layout) else view
    view, indices = select_scalars(view, found)
    if not indices:
        return view
    target = _target(view, indices)
    return ix.take(target.view, target.index, dim=target.dim)


def _fitted(value: Any, dtype: Any, shape: Shape) -> Tensor:
    """A value to be stored: cast, and broadcast without its leading extents of one."""
    x = as_type(value, dtype) if is_tensor(value) else constant(value, dtype)
    own = shape_of(x)
    while len(own) > len(shape) and own[0] == 1:
        own = own[1:]
    if own != shape_of(x):
        x = m.reshape(x, shape=own)
    if own == shape:
        return x
    try:
        return m.expand(x, shape=shape)
    except RuntimeError:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(own)} cannot be broadcast to indexing "
            f"result of shape {list(shape)}"
        ) from None


def put_back(view: Tensor, indices: dict[int, Tensor], value: Any, accumulate: bool) -> Tensor:
    """``view`` with ``value`` written (or added) at index tensors: what ``view[...] = value`` makes."""
    shape = shape_of(view)
    indices = {
        d: m.reshape(i, shape=(1,)) if not i.ndim and len(indices) > 1 else i
        for d, i in indices.items()
    }
    target = _target(view, indices)
    taken = shape_of(target.view)
    place = (*taken[: target.dim], *shape_of(target.index), *taken[target.dim + 1 :])
    stored = _fitted(value, view.dtype, place)
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
    if not is_tensor(value) and not isinstance(value, (bool, int, float, complex)):
        value = _number(value)
    if is_tensor(index) and index.dtype is dtypes.bool_ and _is_number(value) and index.ndim:
        _fill_masked(self, _beside(index, self), value)
        return
    since = self._next_node()
    plan = read(self, index)
    found = _index_tensors(plan)
    view = basic_view(self, plan, to_read=any(not i.ndim for i in found.values()))
    view, indices = select_scalars(view, found)
    if indices:
        view._assign(put_back(view, indices, value, accumulate=False), since)
    else:
        refuse_overlap(view, (value,))
        view._assign(_fitted(value, view.dtype, shape_of(view)), since)


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
    stored = as_type(value, x.dtype) if is_tensor(value) else constant(value, x.dtype)
    x._assign(e.where(spread, stored, x), since)
