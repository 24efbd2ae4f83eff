"""A caching allocator for tensor memory.

Fresh memory is dear: the kernel zeroes each page at its first touch, which for megabytes costs more
than the arithmetic. So memory that comes back is kept in free lists, one per size class (at most
12.5 % larger than asked, 64 bytes at least), and handed out again. Memory goes back to its list
when its `Block` dies, or, where views of the block's array outlive it, with the last of them.

What is kept unused is bounded (see `set_cache_limit`); above the bound memory goes back to the
system, large pieces first. Beyond a gigabyte only so much is kept as was once in use besides what
is now, and it is lent: the system may take the pages where memory is short, and they stay, ready
for use, where it is not.
"""

from __future__ import annotations

import os
import sys
import weakref
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tracejit.runtime.pages import LENDS, aligned_array, lend, map_pages

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Block",
    "MemoryStats",
    "allocate",
    "empty_cache",
    "give_back_large",
    "memory_stats",
    "set_cache_limit",
]

_SMALL = 64 << 10  # classes up to this size are looked up in a table
_HUGE = 2 << 20  # from here on memory is mapped directly, on huge pages where there are any
_SMALL_CACHED = 2 << 20  # bytes kept per small class
_HELD = 1 << 30  # bytes kept that the system may not take

#: An array of the class's size, the address of its first byte.
_Cell = tuple[np.ndarray, int]


class _Bucket:
    """One size class and the memory that is free in it."""

    __slots__ = ("capacity", "free", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.free: list[_Cell] = []
        self.capacity = max(2, _SMALL_CACHED // size) if size <= _SMALL else sys.maxsize


class _State:
    """What only the large classes and fresh memory count."""

    __slots__ = ("cached", "fresh", "lent", "limit")

    def __init__(self) -> None:
        self.fresh = 0
        self.cached = 0
        self.lent = 0
        self.limit = _default_limit()


#: How often memory was asked for, the bytes in blocks now, and the most there ever were; native code counts here too.
_counters = array("q", [0, 0, 0])


@dataclass(frozen=True)
class MemoryStats:
    """Bytes in blocks, bytes kept for reuse, the most bytes ever in blocks; and how often memory
    was asked for, and how often a kept piece served."""

    allocated: int
    cached: int
    peak: int
    allocations: int
    reuses: int


def _default_limit() -> int:
    """A quarter of the machine's memory, of which all but a gigabyte is lent to the system; a gigabyte at most where
    that cannot be done, or where nobody says how much memory there is."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return _HELD
    if total <= 0:
        return _HELD
    return total // 4 if LENDS else min(_HELD, total // 4)


_state = _State()
#: Addresses of the kept pieces that the system may take.
_lent: set[int] = set()
_buckets: dict[int, _Bucket] = {}


def _size_class(nbytes: int) -> int:
    """The smallest class that holds `nbytes`: multiples of 64, then eight steps per doubling."""
    if nbytes < 0:
        raise ValueError(f"cannot allocate {nbytes} bytes")
    if nbytes <= 1024:
        return (nbytes + 63) & ~63 if nbytes > 0 else 64
    shift = (nbytes - 1).bit_length() - 4
    return (((nbytes - 1) >> shift) + 1) << shift


def _bucket(nbytes: int) -> _Bucket:
    size = _size_class(nbytes)
    bucket = _buckets.get(size)
    if bucket is None:
        bucket = _buckets.setdefault(size, _Bucket(size))
    return bucket


#: The bucket of every size up to `_SMALL`, by (nbytes + 63) // 64.
_small = [_bucket(index * 64) for index in range(_SMALL // 64 + 1)]


# The globals are bound as defaults because at interpreter exit they may be gone.
def _release(
    block: Block,
    _references: Callable[[object], int] = sys.getrefcount,
    _counters: array[int] = _counters,
    _large: int = _SMALL,
    _exits: Callable[[], bool] = sys.is_finalizing,
) -> None:
    """The end of a block: its memory goes back to the list it came from, unless the process ends."""
    bucket = block.bucket
    size = bucket.size
    _counters[1] -= size
    # Three references: this block's slot, its cell, and the argument of the call. More: a view.
    if size <= _large and _references(block.array) <= 3:
        if len(bucket.free) < bucket.capacity:
            bucket.free.append(block._cell)
    elif _exits():
        return
    elif _references(block.array) > 3:
        _leave_to_views(bucket, block.array)
    else:
        _keep(bucket, block._cell)


class Block:
    """Memory of a tensor: `array` (uint8, one-dimensional, 64-byte aligned) at address `ptr`.

    It may be longer than asked for, and holds whatever was in it before. When the block dies its
    memory is handed out again, once nothing refers to `array` any more.
    """

    __slots__ = ("_cell", "array", "bucket", "ptr")

    array: np.ndarray
    ptr: int
    bucket: _Bucket
    _cell: _Cell

    __del__ = _release  # in native code once that is loaded


def _keep(bucket: _Bucket, cell: _Cell) -> None:
    """Put memory nobody refers to into its free list, within the bounds."""
    if len(bucket.free) >= bucket.capacity:
        return
    bucket.free.append(cell)
    if bucket.size > _SMALL:
        _state.cached += bucket.size
        limit = min(_state.limit, max(_HELD, _counters[2] - _counters[1]))
        if _state.cached - _state.lent > _HELD:
            if lend(cell[0]):
                _lent.add(cell[1])
                _state.lent += bucket.size
            else:
                limit = min(limit, _state.cached - bucket.size)  # another makes room for it
        if _state.cached > limit:
            _trim(limit)


_watched: dict[int, weakref.ref[np.ndarray]] = {}


def _leave_to_views(bucket: _Bucket, array: np.ndarray) -> None:
    """Have the memory come back when the array, and with it its last view, dies."""
    memory: Any = array.base
    if memory is None or isinstance(memory, np.ndarray):
        return  # not laid out by `pages`: it dies with its views
    number = id(memory)

    def revive(_: object, _finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if _finalizing():
            return
        _watched.pop(number, None)
        fresh = np.frombuffer(memory, dtype=np.uint8)
        _keep(bucket, (fresh, fresh.ctypes.data))

    _watched[number] = weakref.ref(array, revive)


_new_block = Block.__new__  # an __init__ would double the cost of making one


def allocate(nbytes: int) -> Block:
    """A block of at least `nbytes` bytes of undefined content.

    Raises ValueError for a negative size, MemoryError when the system has no more.

    >>> block = allocate(100)
    >>> block.array.nbytes, block.ptr % 64
    (128, 0)
    """
    if 0 <= nbytes <= _SMALL:
        bucket = _small[(nbytes + 63) >> 6]
        try:
            cell = bucket.free.pop()
        except IndexError:
            cell = _fresh(bucket)
    else:
        bucket = _bucket(nbytes)
        cell = _take_large(bucket)
    block = _new_block(Block)
    block.array, block.ptr = block._cell = cell
    block.bucket = bucket
    counters = _counters
    counters[0] += 1
    counters[1] = live = counters[1] + bucket.size
    if live > counters[2]:
        counters[2] = live
    return block


def _take_large(bucket: _Bucket) -> _Cell:
    try:
        cell = bucket.free.pop()
    except IndexError:
        return _fresh(bucket)
    _uncount(bucket.size, cell)
    return cell


def _uncount(size: int, cell: _Cell) -> None:
    """A large piece is kept no more."""
    _state.cached -= size
    if cell[1] in _lent:
        _lent.discard(cell[1])
        _state.lent -= size


def _fresh(bucket: _Bucket) -> _Cell:
    """New memory from the system."""
    try:
        array = _new(bucket.size)
    except MemoryError:
        empty_cache()
        try:
            array = _new(bucket.size)
        except MemoryError:
            raise MemoryError(
                f"cannot allocate {bucket.size:,} bytes for a tensor "
                f"({_counters[1]:,} bytes are in use)"
            ) from None
    _state.fresh += 1
    return array, array.ctypes.data


def _new(size: int) -> np.ndarray:
    return map_pages(size) if size >= _HUGE else aligned_array(size)


def _trim(limit: int) -> None:
    """Give kept memory of the large classes back, largest class first, until `limit` is met."""
    for size in sorted(_buckets, reverse=True):
        free = _buckets[size].free
        while _state.cached > limit and size > _SMALL and free:
            try:
                cell = free.pop(0)  # the one unused for longest
            except IndexError:
                break
            _uncount(size, cell)


def empty_cache() -> None:
    """Give all memory that is kept for reuse back to the system.

    >>> empty_cache()
    >>> memory_stats().cached
    0
    """
    for bucket in list(_buckets.values()):
        if bucket.size <= _SMALL:
            bucket.free.clear()
    give_back_large()


def give_back_large() -> None:
    """Give the large pieces that are kept for reuse back to the system; small ones stay.

    >>> give_back_large()
    """
    _trim(0)


def set_cache_limit(nbytes: int) -> None:
    """Keep at most `nbytes` bytes for reuse (classes above 64 KiB; each small class keeps up to
    2 MiB). Raises ValueError for a negative bound.

    >>> set_cache_limit(-1)
    Traceback (most recent call last):
    ...
    ValueError: the bound of the cache cannot be negative: -1
    """
    if nbytes < 0:
        raise ValueError(f"the bound of the cache cannot be negative: {nbytes}")
    _state.limit = nbytes
    _trim(nbytes)


def memory_stats() -> MemoryStats:
    """Counters of the allocator.

    >>> memory_stats().allocated >= 0
    True
    """
    cached = sum(bucket.size * len(bucket.free) for bucket in list(_buckets.values()))
    return MemoryStats(
        allocated=_counters[1],
        cached=cached,
        peak=_counters[2],
        allocations=_counters[0],
        reuses=_counters[0] - _state.fresh,
    )
