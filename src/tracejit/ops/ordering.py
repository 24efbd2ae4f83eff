"""Order and running totals: argsort, cumulative sums and products, searching, data-dependent sizes."""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes
from ..sizes import largest
from ..types import TensorType
from .comparison import eq, gt, isfinite, logical_and
from .distinct import distinct_part
from .elementwise import mul, where
from .long_sums import accumulated_along, running
from .movement import slice
from .namespace import wide, xp
from .orders import along_last, first_in_order, place_in_order, places_among, stable_order
from .programs import by_program
from .reduction import accumulated, argmax, check_order, nonempty, sum
from .table import Array, Ints, Sample, contraction, indexing

_ALONG = (
    Sample(((5,),), {"dim": 0}),
    Sample(((3, 4),), {"dim": 1}),
    Sample(((3, 4),), {"dim": 0}),
    Sample(((0, 3),), {"dim": 0}),
    Sample(((),), {"dim": 0}),
)


def _index_type(x: TensorType, **_: Any) -> TensorType:
    check_order(x)
    return TensorType(x.shape, dtypes.int64)


@indexing(
    _index_type,
    samples=tuple(
        Sample(s.operands, {**s.attributes, "descending": d}) for s in _ALONG for d in (False, True)
    ),
)
def argsort(x: Array, *, dim: int, descending: bool) -> Array:
    """The stable order of x along ``dim``; NaN counts as the largest."""
    n = xp(x)
    if not x.ndim:
        return n.zeros((), np.int64)
    x = wide(x)
    if n is np:
        return along_last(
            lambda rows: stable_order(rows, descending), x, dim, (0, x.shape[dim], descending)
        )
    if not x.size:
        return n.zeros(x.shape, np.int64)
    if not descending:
        return n.argsort(x, axis=dim, kind="stable")
    order = n.argsort(n.flip(x, dim), axis=dim, kind="stable")
    return x.shape[dim] - 1 - n.flip(order, dim)


def _first_type(x: TensorType, *, dim: int, count: int, **_: Any) -> TensorType:
    check_order(x)
    shape = tuple(count if d == dim else extent for d, extent in enumerate(x.shape))
    return TensorType(shape, dtypes.int64)


@indexing(
    _first_type,
    samples=tuple(
        Sample(s.operands, {**s.attributes, "count": 2, "descending": d})
        for s in _ALONG[:3]
        for d in (False, True)
    ),
)
def first_positions(x: Array, *, dim: int, count: int, descending: bool) -> Array:
    """The first ``count`` positions of the stable order of x along ``dim``."""
    if xp(x) is np:
        few = int(count)
        places = (0, few, descending)
        return along_last(lambda rows: first_in_order(rows, few, descending), wide(x), dim, places)
    order = argsort.evaluate((x,), {"dim": dim, "descending": descending})
    return order[(*(np.s_[:],) * dim, np.s_[:count])]


def _place_type(x: TensorType, *, dim: int, place: int) -> TensorType:
    nonempty(x, {"dims": (dim,)})
    return _first_type(x, dim=dim, count=1)


@indexing(
    _place_type,
    samples=(
        *(Sample(s.operands, {**s.attributes, "place": 1}) for s in _ALONG[:3]),
        Sample((np.array([2.0, np.nan, 2.0]),), {"dim": 0, "place": 2}),
    ),
)
def position_at(x: Array, *, dim: int, place: int) -> Array:
    """The position that is number ``place`` of the stable order of x along ``dim``; extent one is kept."""
    if xp(x) is np:
        places = (int(place), 1, False)
        return along_last(lambda rows: place_in_order(rows, int(place)), wide(x), dim, places)
    order = argsort.evaluate((x,), {"dim": dim, "descending": False})
    return order[(*(np.s_[:],) * dim, np.s_[place : place + 1])]


def leading(x: Any, *, dim: int, count: int, descending: bool) -> Any:
    """`first_positions`; the single largest element is found without looking for an order."""
    if descending and type(count) is int and count == 1:
        return argmax(x, dims=(dim,), keepdim=True)
    return first_positions(x, dim=dim, count=count, descending=descending)


def running_type(x: TensorType, *, dim: int) -> TensorType:
    """The shape of x, in the dtype that sums over it have."""
    return TensorType(x.shape, accumulated(x.dtype))


def reversed_cumsum(g: Any, dim: int) -> Any:
    """Totals from each position to the end."""
    return _flip(cumsum(_flip(g, dim), dim=dim), dim)


def _flip(x: Any, dim: int) -> Any:
    shape = x.spec.shape
    if not shape:
        return x
    starts = tuple(largest(n - 1, 0) if d == dim else 0 for d, n in enumerate(shape))
    steps = tuple(-1 if d == dim else 1 for d in range(len(shape)))
    return slice(x, starts=starts, counts=shape, steps=steps)


@contraction(running_type, total=True, grad=lambda g, dim: reversed_cumsum(g, dim), samples=_ALONG)
def cumsum(x: Array, *, dim: int) -> Array:
    """The sum of everything up to each position along ``dim``."""
    return _running(cumsum, x, dim)


def _running(op: Any, x: Array, dim: int) -> Array:
    served = by_program(op, (x,), {"dim": dim}, same_bits=True)
    if served is not None:
        return served
    dtype = accumulated(dtypes.from_numpy(x.dtype)).np
    if not x.ndim:
        return x.astype(dtype)
    start = x.astype(dtype) if x.dtype.kind in "biu" else wide(x)
    found = running(getattr(xp(x), op.name), start, dim, x.dtype.char in "fF" and xp(x) is np)
    return found.astype(dtype, copy=False)


def _cumprod_grad(g: Any, x: Any, out: Any, dim: int) -> Any:
    """Exact also after zeros: only products up to the first zero, and that zero itself, move.

    What comes after is zero times what it would be without that zero: of which the derivative is not zero.
    """
    zero, first, at_zero, before = _cumprod_slopes(g, x, out, dim)
    filled = where(first, 1.0, x)
    _, again, at_next, between = _cumprod_slopes(g, filled, cumprod(filled, dim=dim), dim)
    after = where(again, at_next, where(gt(cumsum(eq(filled, 0), dim=dim), 0), 0.0, between))
    null = sum(where(first, x, 0.0), dims=(dim,) if x.spec.shape else (), keepdim=True)
    after = null * where(isfinite(after), after, 0.0) + 0.0
    return where(zero, where(first, at_zero, after), before)


def _cumprod_slopes(g: Any, x: Any, out: Any, dim: int) -> tuple[Any, Any, Any, Any]:
    """Where a zero was seen, where the first is; the gradient there and before it."""
    zero = eq(x, 0)
    seen = cumsum(zero, dim=dim)
    first = logical_and(zero, eq(seen, 1))
    before = reversed_cumsum(mul(g, out), dim) / where(zero, 1.0, x)
    without = cumprod(where(first, 1.0, x), dim=dim)
    return gt(seen, 0), first, reversed_cumsum(mul(g, without), dim), before


@contraction(
    running_type,
    total=True,
    grad=lambda g, x, out, dim: _cumprod_grad(g, x, out, dim),
    samples=(
        *_ALONG,
        Sample((np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 1.0]]),), {"dim": 1}),
    ),
)
def cumprod(x: Array, *, dim: int) -> Array:
    """The product of everything up to each position along ``dim``."""
    return _running(cumprod, x, dim)


@indexing(
    _index_type,
    samples=tuple(
        Sample(s.operands, {**s.attributes, "largest": d}) for s in _ALONG for d in (False, True)
    ),
)
def cumextreme_index(x: Array, *, dim: int, largest: bool) -> Array:
    """Where the largest (or smallest) element up to each position is: the last such; NaN wins."""
    n = xp(x)
    if not x.ndim:
        return n.zeros((), np.int64)
    attributes = {"dim": dim, "largest": largest}
    found = by_program(cumextreme_index, (x,), attributes, same_bits=True)
    if found is not None:
        return found
    x = wide(x)
    running = accumulated_along(n.maximum if largest else n.minimum, x, dim)
    here = (x == running) | ((x != x) & (running != running))
    shape = tuple(-1 if d == dim else 1 for d in range(x.ndim))
    positions = n.where(here, n.arange(x.shape[dim]).reshape(shape), 0)
    return accumulated_along(n.maximum, positions, dim)


def _search_type(sorted_sequence: TensorType, values: TensorType, *, right: bool) -> TensorType:
    return TensorType(values.shape, dtypes.int64)


@indexing(
    _search_type,
    samples=(
        Sample((np.array([1.0, 2.0, 2.0, 5.0]), (3, 2)), {"right": False}),
        Sample((np.array([1.0, 2.0, 2.0, 5.0]), np.array([2.0, 9.0, 0.0])), {"right": True}),
    ),
)
def search_sorted(sorted_sequence: Array, values: Array, *, right: bool) -> Array:
    """Where each value would go in a sorted vector, or row by row in sorted rows."""
    n = xp(values)
    if n is np:
        return places_among(sorted_sequence, values, right)
    sorted_sequence, values = wide(sorted_sequence), wide(values)
    side = "right" if right else "left"
    if sorted_sequence.ndim == 1:
        return n.searchsorted(sorted_sequence, values, side)
    if not values.size or not sorted_sequence.size:
        return n.zeros(values.shape, np.int64)
    rows = sorted_sequence.reshape(-1, sorted_sequence.shape[-1])
    wanted = values.reshape(rows.shape[0], -1)
    found = [n.searchsorted(row, v, side) for row, v in zip(rows, wanted, strict=True)]
    return n.stack(found).astype(np.int64, copy=False).reshape(values.shape)


# --- results whose size depends on values -------------------------------------------------------


# Their rules give None for an extent that only the run tells.


def _nonzero_type(x: TensorType) -> TensorType:
    return TensorType((None, len(x.shape)), dtypes.int64)  # type: ignore[arg-type]


def _unique_type(x: TensorType, *, part: str) -> TensorType:
    if part == "inverse":
        return TensorType(x.shape, dtypes.int64)
    return TensorType((None,), x.dtype if part == "values" else dtypes.int64)  # type: ignore[arg-type]


def _counted_type(x: TensorType, *, minlength: int) -> TensorType:
    return TensorType((None,), dtypes.int64)  # type: ignore[arg-type]


@indexing(_nonzero_type, dynamic=True, samples=(Sample((Ints((3, 4), 0, 2),)), Sample(((0,),))))
def nonzero(x: Array) -> Array:
    """The positions of the elements that are not zero, one row each."""
    if xp(x) is np and x.ndim:
        return _positions(x)
    return (
        xp(x)
        .argwhere(x)
        .astype(np.int64, copy=False)
        .reshape(-1 if x.ndim else int(x != 0), x.ndim)
    )


def _positions(x: Array) -> Array:
    """What ``argwhere`` gives, several times as fast: places in the flat array, divided into their dimensions."""
    rest = np.flatnonzero(x if x.dtype == np.bool_ else x != 0)
    found = np.empty((len(rest), x.ndim), np.int64)
    for dim in range(x.ndim - 1, 0, -1):
        above = rest // x.shape[dim] if len(rest) else rest
        np.subtract(rest, above * x.shape[dim], out=found[:, dim])
        rest = above
    found[:, 0] = rest
    return found


@indexing(_unique_type, dynamic=True, samples=(Sample((Ints((7,), 0, 4),), {"part": "values"}),))
def unique_part(x: Array, *, part: str) -> Array:
    """A part of the sorted distinct elements of x: "values", "inverse" or "counts". Every NaN is one of its own."""
    n = xp(x)
    if n is np and (found := distinct_part(x, part)) is not None:
        return found
    if part == "values":  # by sorting them: an order is only needed for what follows
        return n.unique(wide(x), equal_nan=False).astype(x.dtype)
    if part == "counts":
        return n.unique(wide(x), return_counts=True, equal_nan=False)[1]
    return n.unique(wide(x), return_inverse=True, equal_nan=False)[1].reshape(x.shape)


@indexing(
    lambda x, *, count: TensorType((count,), dtypes.int64),
    dynamic=True,
    tells_values=True,
    samples=(Sample((Ints((3,), 0, 4),), {"count": 3}),),
)
def as_sizes(x: Array, *, count: int) -> Array:
    """The ``count`` elements of x, which are sizes: none is negative."""
    if x.size and int(x.min()) < 0:
        raise ValueError("a negative size")
    return xp(x).array(x, np.int64)


@indexing(
    lambda counts: TensorType((None,), dtypes.int64),  # type: ignore[arg-type]
    dynamic=True,
    samples=(
        Sample((Ints((3,), 0, 4),)),
        Sample((np.array([1, -1]),), {}, RuntimeError, "repeats can not be negative"),
    ),
)
def repeated_positions(counts: Array) -> Array:
    """Each position as often as its count says."""
    if counts.size and int(counts.min()) < 0:
        raise RuntimeError("repeats can not be negative")
    return xp(counts).repeat(xp(counts).arange(counts.size), counts).astype(np.int64, copy=False)


_COUNTED = (
    Sample((Ints((7,), 0, 4),), {"minlength": 6}),
    Sample((Ints((7,), 0, 4),), {"minlength": 0}),
    Sample((np.array([3, -1]),), {"minlength": 0}, RuntimeError, "non-negative integral inputs"),
)
NOT_COUNTED = "bincount only supports 1-d non-negative integral inputs."


@indexing(_counted_type, dynamic=True, samples=_COUNTED)
def bincount_of(x: Array, *, minlength: int) -> Array:
    """How often each integer from zero on occurs."""
    try:
        return xp(x).bincount(x, minlength=minlength).astype(np.int64, copy=False)
    except ValueError:  # it looks for negative elements itself; there may be too many bins, too
        if (x < 0).any():
            raise RuntimeError(NOT_COUNTED) from None
        raise


@indexing(_counted_type, dynamic=True, samples=_COUNTED)
def bins_of(x: Array, *, minlength: int) -> Array:
    """As many zeros as :func:`bincount_of` has counts."""
    top = -1
    if x.size:  # without a sign negative elements are the largest: they are found in the same pass
        bits = 8 * x.dtype.itemsize
        top = int(x.view(f"uint{bits}").max())
        if x.dtype.kind == "i" and top >> (bits - 1):
            raise RuntimeError(NOT_COUNTED)
    return xp(x).zeros(max(top + 1, minlength), np.int64)


@indexing(
    lambda x, *, part: TensorType(x.shape[:1] if part == "inverse" else (None,), dtypes.int64),  # type: ignore[arg-type]
    dynamic=True,
    samples=(Sample((Ints((7, 2), 0, 2),), {"part": "first"}),),
)
def unique_rows(x: Array, *, part: str) -> Array:
    """Of the sorted distinct rows of x: where each occurs "first", the "inverse" or the "counts"."""
    n = xp(x)
    if (
        n is not np
    ):  # whose own compares one pair of rows at a time, by differences that may overflow
        return _distinct_rows(n, wide(x), part)
    _, first, inverse, counts = n.unique(
        wide(x), axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    found = {"first": first, "inverse": inverse.reshape(x.shape[:1]), "counts": counts}
    return found[part].astype(np.int64, copy=False)


def _distinct_rows(n: Any, x: Array, part: str) -> Array:
    """A part of :func:`unique_rows`, from the stable orders of the columns, the last one first."""
    rows = x.reshape(x.shape[0], math.prod(x.shape[1:]))
    order = n.arange(len(rows))
    for column in reversed(range(rows.shape[1])):
        order = order[n.argsort(rows[:, column][order], kind="stable")]
    ordered = rows[order]
    new = n.ones(len(rows), np.bool_)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    if part == "inverse":
        found = n.empty(len(rows), np.int64)
        found[order] = n.cumsum(new) - 1
        return found
    starts = n.flatnonzero(new)
    if part == "first":
        return order[starts]
    return n.concatenate([starts[1:], n.full(min(len(rows), 1), len(rows))]) - starts
