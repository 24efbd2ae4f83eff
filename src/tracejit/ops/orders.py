"""Stable orders of NumPy arrays along their last axis, by sorting whole numbers.

NumPy sorts 64-bit integers several times as fast as it finds the stable order of an array. So an element of at most 32
bits becomes an unsigned number that stands in the same order, and its position is written behind it: no two such words
are equal, and what order they come in is the stable one. Integers of 64 bits do if they lie near each other; in others
the position takes the place of the last bits, and the few that differ in those alone are ordered afterwards. The first
few of an order come from the extremes of short pieces: what is behind the last of the best pieces cannot be among them.
A single place of an order is selected.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .op import Array
from .slabs import along_rows

#: Elements per piece of a row when few positions are asked for.
PIECE = 64
#: What finds places by a kernel.
_search: list[Callable[[Array, Array, bool], Array | None]] = []
#: What finds orders of short rows by a kernel.
_network: list[Callable[[Array, int, int, bool], Array | None]] = []
#: Elements of an array, and rows, from which on it does, and most elements of a row.
_MANY, _ROWS, _SHORT_ROW = 1 << 11, 4, 1 << 10
#: Rows from which on the first few are found without an order of the others.
_LONG_ROW = 1 << 8
#: Types that it knows: single and double precision, signed numbers of 32 and 64 bits.
_KNOWN = "fdilq"
#: One in so many neighbours may seem alike to what sorts by first bits.
_ALIKE = 8
#: Fewest elements whose order is worth finding in another way than NumPy's.
SHORT = 16


def stable_order(x: Array, descending: bool) -> Array:
    """Positions of the elements of a float, int or bool array in order along its last axis; int64.

    Equal elements keep their order, -0.0 equals 0.0, and NaN counts as the largest.

    >>> stable_order(np.array([2.0, np.nan, -0.0, 0.0, 2.0]), False), stable_order(np.array([1, 3, 3]), True)
    (array([2, 3, 0, 4, 1]), array([1, 2, 0]))
    """
    if not SHORT <= x.shape[-1] < 1 << 32:
        return _order_of_values(x, descending)
    bits, ranks = 32, None
    if x.dtype.itemsize <= 4:
        ranks = _ranks(x, descending)
    elif x.dtype.kind in "iu" and x.size:
        bits = (x.shape[-1] - 1).bit_length()
        ranks = _near_ranks(x, descending, 1 << 64 - bits)
    if ranks is None:
        found = _order_by_first_bits(_ranks(x, descending)) if x.size else None
        return _order_of_values(x, descending) if found is None else found
    words = _words(ranks, bits)
    words.sort(axis=-1)
    words &= np.uint64((1 << bits) - 1)
    return words.view(np.int64)


def place_in_order(x: Array, place: int) -> Array:
    """Number ``place`` of ascending `stable_order`, along the last axis, which keeps an extent of one.

    The element there is found by selection, which takes time in proportion to the row; what equals it, if it is not
    alone, is counted through.

    >>> place_in_order(np.array([[3.0, 7.0, 5.0], [1.0, 0.0, 1.0]]), 1)
    array([[2],
           [0]])
    """
    here = np.s_[..., place : place + 1]
    if x.shape[-1] < PIECE and x.dtype.itemsize <= 4:
        words = _words(_ranks(x, False), 32)
        words.partition(place, axis=-1)
        return (words[here] & np.uint64(0xFFFFFFFF)).view(np.int64)
    element = np.partition(x, place, axis=-1)[here]
    equal, before = x == element, x < element
    last = element != element
    if last.any():
        nan = np.isnan(x)
        equal, before = np.where(last, nan, equal), np.where(last, ~nan, before)
    if (np.count_nonzero(equal, axis=-1) == 1).all():
        return equal.argmax(axis=-1, keepdims=True)
    wanted = place + 1 - np.count_nonzero(before, axis=-1, keepdims=True)
    return (equal & (equal.cumsum(axis=-1) == wanted)).argmax(axis=-1, keepdims=True)


def first_in_order(x: Array, count: int, descending: bool) -> Array:
    """The first ``count`` of `stable_order`, along the last axis.

    >>> first_in_order(np.array([[3.0, 7.0, 5.0]]), 2, True)
    array([[1, 2]])
    """
    extent = x.shape[-1]
    pieces = extent // PIECE
    if count == 0 or not x.size or pieces < count:
        return stable_order(x, descending)[..., :count]
    rows = x.reshape(-1, extent)
    whole = rows[:, : pieces * PIECE].reshape(len(rows), PIECE, pieces)  # a piece is a column
    best = whole.max(axis=1) if descending else whole.min(axis=1)
    ends = rows[:, pieces * PIECE :]
    if x.dtype.kind == "f" and (np.isnan(best).any() or np.isnan(ends).any()):
        return stable_order(x, descending)[..., :count]
    place = pieces - count if descending else count - 1
    bound = np.partition(best, place, axis=1)[:, place : place + 1]
    row, position = np.divmod(
        np.flatnonzero(rows >= bound if descending else rows <= bound), extent
    )
    order = np.lexsort((_ranks(rows[row, position], descending), row))
    starts = np.searchsorted(row, np.arange(len(rows)))
    found = position[order[starts[:, None] + np.arange(count)]]
    return found.astype(np.int64, copy=False).reshape(*x.shape[:-1], count)


def places_among(sequence: Array, values: Array, right: bool) -> Array:
    """Where values would go in a sorted vector, or in sorted rows; kernels search for many of them.

    >>> places_among(np.array([1, 3, 3]), np.array([3, 0]), True)
    array([3, 0])
    """
    found = _search[0](sequence, values, right) if _search else None
    if found is not None:
        return found
    last = sequence[..., -1:]
    if not ((sequence[..., :-1] <= sequence[..., 1:]).all() and (last == last).all()):
        return _by_halves(sequence, values, right)
    side = "right" if right else "left"
    if sequence.ndim == 1:
        return np.asarray(sequence.searchsorted(values, side), np.int64)
    out = np.zeros(values.shape, np.int64)
    if values.size and sequence.size:
        rows, wanted = (x.reshape(-1, x.shape[-1]) for x in (sequence, values))
        for place, row, x in zip(out.reshape(-1, out.shape[-1]), rows, wanted, strict=True):
            place[:] = row.searchsorted(x, side)
    return out


def _by_halves(sequence: Array, values: Array, right: bool) -> Array:
    """Where PyTorch's search ends that looks at elements which are not in order, or not numbers."""
    length = sequence.shape[-1]
    rows = sequence.reshape(-1, length)
    wanted = values.reshape(1 if sequence.ndim == 1 else len(rows), -1)
    low, high = np.zeros(wanted.shape, np.int64), np.full(wanted.shape, length, np.int64)
    for _ in range(length.bit_length()):
        middle = low + ((high - low) >> 1)
        there = np.take_along_axis(rows, np.minimum(middle, length - 1), 1)
        behind = there > wanted if right else there >= wanted
        left = low < high
        low, high = np.where(left & ~behind, middle + 1, low), np.where(left & behind, middle, high)
    return low.reshape(values.shape)


def set_search(search: Callable[[Array, Array, bool], Array | None]) -> None:
    """Install what finds such places by a kernel, or gives None."""
    _search[:] = [search]


def set_network(order: Callable[[Array, int, int, bool], Array | None]) -> None:
    """Install what finds orders of short rows by a kernel, or gives None.

    >>> before = list(_network)
    >>> set_network(lambda x, first, count, descending: None)
    >>> _network[:] = before
    """
    _network[:] = [order]


def by_network(x: Array, first: int, count: int, descending: bool) -> Array | None:
    """Places ``first`` and ``count - 1`` more of `stable_order`; None where others are to find them.

    >>> found = by_network(np.array([[3.0, 7.0, 5.0]] * 1000), 1, 2, False)
    >>> found is None or found[7].tolist()
    [2, 1]
    """
    if not _network or x.size < _MANY or x.ndim < 2 or x.dtype.kind not in "fiub":
        return None
    if x.dtype.itemsize < 4 and x.dtype.kind != "f":  # numbers that a larger type has too
        x = x.astype(np.int32)
    n = x.shape[-1]
    if not 2 <= n <= _SHORT_ROW or x.size < _ROWS * n or not count:
        return None
    if x.dtype.char not in _KNOWN or not x.dtype.isnative:
        return None
    if first == 0 and count <= n // PIECE and n >= _LONG_ROW:
        return None  # the extremes of pieces tell sooner than an order of all
    return _network[0](x, first, count, descending)


def along_last(
    function: Callable[[Array], Array], x: Array, dim: int, places: tuple[int, int, bool]
) -> Array:
    """Places of the order along ``dim`` (the first, how many, is it descending): by a kernel, or by ``function``.

    That is given an array whose last axis is ``dim``.

    >>> along_last(lambda rows: stable_order(rows, False), np.array([[3, 1], [2, 5]]), 0, (0, 2, False)).tolist()
    [[1, 0], [0, 1]]
    """
    last = dim == x.ndim - 1
    rows = np.ascontiguousarray(x if last else np.moveaxis(x, dim, -1))
    found = by_network(rows, *places)
    if found is None:
        found = along_rows(function, rows, places[1], np.int64)
    return np.ascontiguousarray(found if last else np.moveaxis(found, -1, dim))


def _words(ranks: Array, bits: int) -> Array:
    """What stands in the order of the ranks, its last ``bits`` telling where each is; in a row no two are equal."""
    words = ranks.astype(np.uint64)
    words <<= np.uint64(bits)
    words |= np.arange(ranks.shape[-1], dtype=np.uint64)
    return words


def _order_by_first_bits(ranks: Array) -> Array | None:
    """The order of numbers of 64 bits; None where many are alike in all but as many bits as a position takes.

    >>> others = range(1 << 50, 1 << 54, 1 << 49)
    >>> _order_by_first_bits(np.array([9 << 40, 1, 0, 8 << 40, *others], np.uint64))[:4].tolist()
    [2, 1, 3, 0]
    """
    count = ranks.shape[-1]
    low = np.uint64((1 << (count - 1).bit_length()) - 1)
    words = ranks & ~low
    words |= np.arange(count, dtype=np.uint64)
    words.sort(axis=-1)
    alike = (words[..., 1:] ^ words[..., :-1]) <= low
    order = (words & low).view(np.int64)
    many = np.count_nonzero(alike)
    if many:
        if many * _ALIKE > ranks.size:
            return None
        _order_alike(order.reshape(-1, count), alike.reshape(-1, count - 1), ranks)
    return order


def _order_alike(order: Array, alike: Array, ranks: Array) -> None:
    """Put in order what was taken for alike: neighbours in rows of an order of ``ranks``."""
    inside = np.zeros(order.shape, bool)
    inside[:, 1:] = alike
    begins = ~inside
    inside[:, :-1] |= alike
    row, place = np.nonzero(inside)
    positions = order[row, place]
    runs = np.cumsum(begins[row, place])
    sorted_again = np.lexsort((ranks.reshape(order.shape)[row, positions], runs))
    order[row, place] = positions[sorted_again]


def _near_ranks(x: Array, descending: bool, limit: int) -> Array | None:
    """How far integers are from the first in the order; None where that is not below ``limit`` for all of them."""
    low, high = x.min(), x.max()
    if int(high) - int(low) >= limit:
        return None
    return high - x if descending else x - low


def _order_of_values(x: Array, descending: bool) -> Array:
    if not descending:
        return x.argsort(axis=-1, kind="stable")
    order = x[..., ::-1].argsort(axis=-1, kind="stable")
    return x.shape[-1] - 1 - order[..., ::-1]


def _ranks(x: Array, descending: bool) -> Array:
    """Unsigned integers in the order of the elements, equal where those are."""
    if x.dtype.kind == "f":
        ranks = _ranks_of_floats(x)
    elif x.dtype.kind == "i":
        unsigned = np.dtype(f"u{x.dtype.itemsize}")
        ranks = x.view(unsigned) ^ unsigned.type(1 << 8 * x.dtype.itemsize - 1)
    else:
        ranks = x.view(np.uint8) if x.dtype == np.bool_ else x
    return ~ranks if descending else ranks


def _ranks_of_floats(x: Array) -> Array:
    """The bits of a float, all of them turned over where it is negative, else the first: NaN is behind infinity."""
    bits = 8 * x.dtype.itemsize
    signed = np.where(np.isnan(x), np.nan, x + x.dtype.type(0)).astype(x.dtype, copy=False)
    whole = signed.view(f"i{x.dtype.itemsize}")
    mask = whole >> (bits - 1)
    mask |= whole.dtype.type(-(1 << bits - 1))
    return (whole ^ mask).view(f"u{x.dtype.itemsize}")
