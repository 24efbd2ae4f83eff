"""``x[index]``: integers, slices, None, ``...``, masks and index tensors, mixed.

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
from ...varying_arrays import VaryingArray
from .. import elementwise as e
from .. import indexing as ix
from .. import movement as m
from .. import ordering as o
from .. import shapes
from .. import source as s
from ..table import function
from ..transfer import to_device
from .common import Tensor, as_type, is_tensor, shape_of
from .scalar_positions import select_scalars

_BAD_TYPE = "tensors used as indices must be long, int, byte or bool tensors"
_INDEX_TYPES = (dtypes.int64, dtypes.int32, dtypes.uint8, dtypes.bool_)


@dataclass
class Plan:
    """An index, read: a slice of every dimension, then what each dimension of the result is."""

    starts: list[int]
    counts: list[int]
    steps: list[int]
    dropped: list[int] = field(default_factory=list)  # dimensions indexed by an integer
    layout: list[Any] = field(
        default_factory=list
    )  # None (new), a dimension, or (dim or None, index)
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
        if item.dtype not in _INDEX_TYPES:
            raise IndexError(_BAD_TYPE)
        item = beside(item, x)
        return as_type(item, dtypes.bool_) if item.dtype is dtypes.uint8 else item
    told = item.told() if type(item) is VaryingArray and item.dtype.kind in "bi" else None
    if told is not None:
        return beside(told if told.dtype is dtypes.bool_ else as_type(told, dtypes.int64), x)
    if isinstance(item, (list, tuple, range, np.ndarray)):
        array = np.asarray(item)
        if array.size == 0 and array.dtype.kind != "b":
            array = array.astype(np.int64)
        if array.dtype == np.uint8 and array is item:
            array = array.astype(np.bool_)  # a mask, as in a tensor
        if array.dtype.kind not in "biu":
            raise IndexError(_BAD_TYPE)
        dtype = dtypes.bool_ if array.dtype.kind == "b" else dtypes.int64
        return s.literal(values=tuple(array.ravel().tolist()), shape=array.shape, dtype=dtype)
    return item


def beside(index: Tensor, x: Tensor) -> Tensor:
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
    return _planned(shape_of(x), [_as_index(i, x) for i in _items(index)])


def _planned(shape: Shape, items: list[Any]) -> Plan:
    """The plan of indexing a tensor of this shape."""
    used = sum(map(_consumes, items))
    if used > len(shape):
        if not shape and len(items) == 1 and isinstance(items[0], builtins.slice):
            _step(items[0])
        raise DimensionError(f"too many indices for tensor of dimension {len(shape)}")
    found = [i for i, item in enumerate(items) if item is Ellipsis]
    at = found[0] if found else len(items)
    fill = [builtins.slice(None)] * (len(shape) - used)
    if len(found) > 1:  # each steps over as many dimensions, and the first one over all there are
        if fill and items[found[1] :] != [Ellipsis] * (len(items) - found[1]):
            raise DimensionError("an index behind a second ellipsis ('...') has no dimension left")
        items = [item for i, item in enumerate(items) if item is not Ellipsis or i == at]
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
    elif isinstance(item, bool):  # a mask without dimensions
        plan.layout.append((None, _place_of_truth(item)))
    elif isinstance(item, builtins.slice):
        _add_slice(plan, item, dim, shape[dim])
    elif is_tensor(item) and item.dtype is dtypes.bool_:
        _add_mask(plan, item, dim, shape)
    elif is_tensor(item):
        plan.layout.append((dim, item))
    elif hasattr(item, "__index__"):
        _add_integer(plan, shapes.as_size(item), dim, shape[dim])
    elif isinstance(item, str):
        raise TypeError("an index has the invalid data type 'str'")
    else:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are "
            f"valid indices (got {type(item).__name__})"
        )


def _place_of_truth(truth: bool) -> Tensor:
    """The only position of a new dimension, or none: index tensors beside it are broadcast with it."""
    values = (0,) if truth else ()
    return s.literal(values=values, shape=(len(values),), dtype=dtypes.int64)


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


def _step(item: builtins.slice) -> int:
    step: int = 1 if item.step is None else item.step.__index__()
    if step <= 0:
        raise ValueError("step must be greater than zero")
    return step


def _add_slice(plan: Plan, item: builtins.slice, dim: int, extent: int) -> None:
    step = _step(item)
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
    return entry is None or (isinstance(entry, tuple) and entry[0] is None)


def basic_view(x: Tensor, plan: Plan, to_read: bool = False) -> Tensor:
    """The view of ``x`` by the integers, slices and Nones of a plan; one dimension per layout entry.

    ``x`` itself will do where the view is only read from and shows all of it.
    """
    view = x
    for op, attributes in _steps(plan, to_read):
        view = op(view, **attributes)
    return view


def _steps(plan: Plan, to_read: bool = False) -> list[tuple[Any, dict[str, Any]]]:
    """The views that lead to the view of a plan; who writes to all of it writes to a part, as autograd sees it."""
    found: list[tuple[Any, dict[str, Any]]] = []
    if plan.cut or not to_read:
        starts, counts, steps = tuple(plan.starts), tuple(plan.counts), tuple(plan.steps)
        found.append((m.slice, {"starts": starts, "counts": counts, "steps": steps}))
    if plan.dropped:
        found.append((m.squeeze, {"dims": tuple(plan.dropped)}))
    new = tuple([i for i, entry in enumerate(plan.layout) if _is_new(entry)])
    if new:
        found.append((m.unsqueeze, {"dims": new}))
    return found


def part_steps(shape: Shape, index: Any) -> list[tuple[Any, dict[str, Any]]]:
    """The views by which integers, slices and ``...`` show a part of a tensor of this shape.

    >>> [(op.name, *attributes.values()) for op, attributes in part_steps((4, 5), (1, builtins.slice(2, 4)))]
    [('slice', (1, 2), (1, 2), (1, 1)), ('squeeze', (0,))]
    """
    return _steps(_planned(shape, _items(index)))


#: The steps for shapes and indices that were met, which a loop meets again and again.
_known_steps: dict[Any, list[tuple[Any, dict[str, Any]]]] = {}
_MOST_KNOWN = 4096
_INTEGERS = frozenset({int})
_PLACES = frozenset({int, type(None)})


def _basic_steps(shape: Shape, index: Any) -> list[tuple[Any, dict[str, Any]]] | None:
    """The steps to the view by plain integers, slices, Nones and ``...``; None where there is more in the index."""
    words: list[Any] = [shape]
    for item in index if type(index) is tuple else (index,):
        if type(item) is builtins.slice:
            bounds = item.start, item.stop, item.step
            if not _PLACES.issuperset(map(type, bounds)):
                return None
            words.append(bounds)
        elif type(item) is int or item is None or item is Ellipsis:
            words.append(item)
        else:
            return None
    if not _INTEGERS.issuperset(map(type, shape)):
        return None
    key = tuple(words)
    found = _known_steps.get(key)
    if found is None:
        found = part_steps(shape, index)
        if len(_known_steps) >= _MOST_KNOWN:
            _known_steps.clear()
        _known_steps[key] = found
    return found


@dataclass
class Target:
    """What index tensors address: a rearranged view, one index along one of its dimensions, and the way back."""

    view: Tensor
    index: Tensor
    dim: int
    order: Shape  # how the dimensions of the basic view were permuted
    shape: Shape  # the permuted shape before dimensions were merged


def target_of(view: Tensor, indices: dict[int, Tensor]) -> Target:
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


def within(view: Tensor, indices: dict[int, Tensor]) -> dict[int, Tensor]:
    """The indices, all at the start where there is no element to find at them: then nobody asks whether they exist.

    A dimension without elements has no start either.
    """
    shape = shape_of(view)
    extents = (*shape, *(n for index in indices.values() for n in shape_of(index)))
    if not any(map(_is_none, extents)):
        return indices
    if any(_is_none(shape[d]) and 0 not in shape_of(index) for d, index in indices.items()):
        return indices
    return {d: e.mul(index, 0) for d, index in indices.items()}


def _is_none(extent: Any) -> bool:
    return type(extent) is int and extent == 0


def index_tensors(plan: Plan) -> dict[int, Tensor]:
    """The index tensors of a plan, by dimension of its view."""
    return {i: entry[1] for i, entry in enumerate(plan.layout) if isinstance(entry, tuple)}


@function(namespace=False, method="__getitem__", steady=True)
def getitem(self: Tensor, index: Any) -> Tensor:
    """The elements at ``index``: a view for integers, also in 0-d tensors, slices, None and ``...``, else a copy.

    Raises ``IndexError`` for indices out of range, too many indices, and indices of other types.

    >>> import tracejit as tj
    >>> x = tj.arange(6).reshape(2, 3)
    >>> x[0, 1:], x[:, [2, 0]], x[x > 3]
    (tensor([1, 2]), tensor([[2, 0],
            [5, 3]]), tensor([4, 5]))
    """
    basic = _basic_steps(shape_of(self), index)
    if basic is not None:
        for op, attributes in basic:
            self = op(self, **attributes)
        return self
    plan = read(self, index)
    found = index_tensors(plan)
    view = basic_view(self, plan, bool(found))
    if not found:
        return view
    view, indices = select_scalars(view, found)
    if not indices:
        return view
    target = target_of(view, within(view, indices))
    return ix.take(target.view, target.index, dim=target.dim)
