"""Large arrays in eager code on several threads: what NumPy does with one.

Elements do not know of each other, and rows that are reduced do not either, so the bits are those of the whole at once.
What is one universal function the native pool computes (`runtime.eager.strided`); the rest is done slab by slab.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from .. import aligned, config
from ..cuda.arrays import address_of, module_of
from .float_errors import ignore, restore

__all__ = [
    "BODIES",
    "LARGE",
    "POOLED",
    "REDUCED",
    "SHARED",
    "along_rows",
    "by_float32",
    "computed_into",
    "converted",
    "copied",
    "elementwise",
    "reduced",
    "set_native",
    "shared",
]

Array = Any
#: Elements from which on a second thread is worth waking, of the native pool and of Python: for what takes long for
#: each of them, for reductions, and for what writes its results twice, to temporaries first.
SHARED, LARGE, REDUCED, BODIES = 1 << 16, 1 << 18, 1 << 21, 1 << 22
#: Elements of a result from which on the native pool is sooner than NumPy alone.
POOLED = 1 << 17
#: Elements of what is computed at a time where a function makes temporaries, which then stay in the cache.
BLOCK = 1 << 15
#: Additions that take as long as sorting does for an element.
_SORTED = 8
#: Makes a result of a universal function, its operands and the dtype, or None; also where it is to be written to.
Native = Callable[..., Array | None]
_native: list[Native] = []
_SUBNORMAL, _ONE = np.full(1, 1e-40, np.float32), np.ones(1, np.float32)
#: The number of the first dtype that is not NumPy's own.
_FOREIGN = 256


def set_native(function: Native) -> None:
    """Install what computes elementwise results by the native pool.

    >>> before = _native[0]
    >>> set_native(lambda run, arrays, dtype, out=None: None)
    >>> set_native(before)
    """
    _native[:] = [function]


class _Shared:
    """NumPy, whose universal functions and `where` are computed by the native pool where that serves."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if isinstance(found, np.ufunc) or found is np.where:
            found = partial(_shared_call, found)
        setattr(self, name, found)
        return found


_SHARED_NUMPY = _Shared()


def shared(*arrays: Any) -> Any:
    """The module of some arrays; for large ones on the host, one that shares their elements among threads.

    >>> shared(np.zeros(3)) is np, shared(np.zeros(SHARED)) is np
    (True, False)
    """
    n = module_of(*arrays)
    if n is not np or max([x.size for x in arrays]) < SHARED:
        return n
    return _SHARED_NUMPY


def copied(x: Array) -> Array:
    """A contiguous copy of an array.

    >>> copied(np.ones((2, 3))[:, ::2]).flags.c_contiguous
    True
    """
    if shared(x) is _SHARED_NUMPY and x.dtype.kind in "iufc":
        found = _by_pool(np.positive, [x], x.dtype)  # a loop that copies
        if found is not None and found.flags.c_contiguous:
            return found
    return aligned.copy(x)


def converted(x: Array, dtype: Any) -> Array:
    """``x.astype(dtype)``, which keeps the order of memory; numbers become halves by way of float32.

    >>> converted(np.ones((2, 3)).T, np.float32).strides
    (4, 12)
    """
    x = by_float32(x, dtype)
    return aligned.copy(x, dtype) if x.flags.c_contiguous else x.astype(dtype)


def by_float32(x: Array, dtype: Any) -> Array:
    """``x``, in float32 where it is wider and to become half precision or less, which rounds twice as PyTorch does.

    So do kernels; NumPy rounds once, and so does ml_dtypes since 0.7. What ml_dtypes makes of a bfloat16 beyond the
    limits of an integer is zero, where float32 wraps around.

    >>> x = np.array([1 + 2**-11 + 2**-40])
    >>> by_float32(x, np.float16).astype(np.float16) == 1, x.astype(np.float16) == 1
    (array([ True]), array([False]))
    """
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        return x.astype(np.float32) if x.dtype.num >= _FOREIGN else x
    narrow = kind.itemsize < 4 and kind.kind in "fV"
    if narrow and x.dtype.itemsize > 2 and x.dtype.char not in "fF":
        return x.astype(np.float32)
    return x


def _shared_call(run: Any, *operands: Any) -> Array:
    arrays = [np.asarray(x) for x in operands]
    dtypes = tuple([x.dtype for x in arrays])
    found = _by_pool(run, arrays, dtypes[-1] if run is np.where else _result(run, dtypes))
    return run(*operands) if found is None else found


def computed_into(out: Array, run: np.ufunc, *operands: Any) -> None:
    """``run(*operands, out=out)``, by several threads where that is worth it.

    >>> x = np.arange(3.0)
    >>> computed_into(x, np.multiply, x, 2)
    >>> x.tolist()
    [0.0, 2.0, 4.0]
    """
    before = ignore()
    try:
        if out.size >= POOLED and out.flags.c_contiguous and _native and _threads() > 1:
            arrays = [np.asarray(x, out.dtype) for x in operands]
            apart = all(_is_apart(x, out) for x in arrays)
            if apart and _native[0](run, arrays, out.dtype, out) is not None:
                return
        run(*operands, out=out)
    finally:
        restore(before)


def _is_apart(x: Array, out: Array) -> bool:
    """Is what is written to an element of ``out`` read from none of ``x``, or from the same one?"""
    if x is out or not np.may_share_memory(x, out):
        return True
    return x.shape == out.shape and x.strides == out.strides and address_of(x) == address_of(out)


def _by_pool(run: Any, arrays: Sequence[Array], dtype: Any) -> Array | None:
    """What the native pool makes of it; of a choice on one thread, too, because NumPy's loop branches."""
    if run is not np.where and (_is_small(arrays) or _threads() < 2):
        return None
    return _native[0](run, arrays, dtype) if _native else None


def _is_small(arrays: Sequence[Array]) -> bool:
    """Are there too few elements for a second thread, where no operand is repeated to give more?"""
    shape: tuple[int, ...] = ()
    for x in arrays:
        if x.ndim and x.shape != shape:
            if shape or x.size >= POOLED:
                return False
            shape = x.shape
    return True


def elementwise(
    run: Callable[..., Array], arrays: Sequence[Array], attributes: Mapping[str, Any], dtype: Any
) -> Array | None:
    """``run(*arrays, **attributes)`` as ``dtype``, in the order of rows; None where that is not worth it.

    >>> x = np.ones((2, LARGE), np.float32)
    >>> found = elementwise(np.add, (x, x), {}, np.dtype("float32"))
    >>> found is None or float(found.sum()) == 4 * LARGE
    True
    """
    if isinstance(run, np.ufunc):
        found = _by_pool(run, arrays, dtype)
        if found is not None:
            return found
    if max([x.size for x in arrays]) < LARGE:
        return None
    shape = _common_shape(arrays)
    axis = _axis(shape)
    if axis is None or math.prod(shape) < LARGE or not all(map(_by_rows, arrays)):
        return None
    out = aligned.empty(shape, dtype)

    def at_once(start: int, stop: int) -> None:
        run(*_rows(arrays, axis, len(shape), start, stop), out=_cut(out, axis, start, stop))

    def made(first: int, last: int) -> Array:
        return run(*_rows(arrays, axis, len(shape), first, last), **attributes)

    direct = isinstance(run, np.ufunc) and _gives(run, arrays, dtype)
    work = at_once if direct else _by_blocks(made, out, axis, out.size)
    _share(work, shape[axis], out.size)
    return out


def reduced(
    run: Callable[..., Array], x: Array, dims: Sequence[int], keepdim: bool
) -> Array | None:
    """``run(x, axis=dims, keepdims=keepdim)``, a reduction along rows; None where that is not worth it.

    >>> found = reduced(np.add.reduce, np.ones((2, LARGE), np.float32), (1,), False)
    >>> found is None or found.tolist() == [LARGE, LARGE]
    True
    """
    axis = _axis(x.shape)
    if axis is None or axis in dims or not x.flags.c_contiguous:
        return None
    dims, parts = tuple(dims), {}

    def work(start: int, stop: int) -> None:
        parts[start] = run(_cut(x, axis, start, stop), axis=dims, keepdims=keepdim)

    _share(work, x.shape[axis], x.size)
    place = axis if keepdim else axis - sum(d < axis for d in dims)
    return np.concatenate([parts[start] for start in sorted(parts)], axis=place)


def along_rows(run: Callable[[Array], Array], x: Array, count: int, dtype: Any) -> Array:
    """``run(x)``, which makes ``count`` numbers of each row of the last dimension, by itself, as by sorting it.

    >>> x = np.arange(6).reshape(2, 3)
    >>> along_rows(lambda rows: rows[:, ::-1], x, 3, np.int64).tolist()
    [[2, 1, 0], [5, 4, 3]]
    """
    additions = x.size * _SORTED
    axis = _axis(x.shape[:-1]) if additions >= LARGE else None
    if axis is None:
        return run(x)
    out = aligned.empty((*x.shape[:-1], count), dtype)
    work = _by_blocks(lambda first, last: run(_cut(x, axis, first, last)), out, axis, x.size)
    _share(work, x.shape[axis], additions)
    return out


def _by_blocks(
    made: Callable[[int, int], Array], out: Array, axis: int, elements: int
) -> Callable[[int, int], None]:
    """Work that writes ``made(first, last)`` to ``out``, so few rows at a time that temporaries stay in the cache.

    All rows together have so many ``elements`` to work on.
    """
    block = max(1, BLOCK * out.shape[axis] // elements)

    def work(start: int, stop: int) -> None:
        for first in range(start, stop, block):
            last = min(first + block, stop)
            _cut(out, axis, first, last)[...] = made(first, last)

    return work


def _common_shape(arrays: Sequence[Array]) -> tuple[int, ...]:
    shapes = {x.shape for x in arrays if x.ndim}
    return shapes.pop() if len(shapes) == 1 else np.broadcast_shapes(*shapes)


def _axis(shape: tuple[int, ...]) -> int | None:
    """The dimension that is shared among threads: the first that has an extent."""
    if _threads() < 2 or _flushes():
        return None
    return next((axis for axis, extent in enumerate(shape) if extent > 1), None)


def _by_rows(x: Array) -> bool:
    """Do the elements lie in the order of rows, be it with gaps?"""
    steps = [step for step, extent in zip(x.strides, x.shape, strict=True) if extent > 1 and step]
    return all(a >= b for a, b in pairwise([*steps, 0]))


@cache
def _result(run: np.ufunc, dtypes: tuple[Any, ...]) -> Any:
    return run.resolve_dtypes((*dtypes, None))[-1]


def _gives(run: np.ufunc, arrays: Sequence[Array], dtype: Any) -> bool:
    """Are the results of this dtype, so that they can be written in place?"""
    return bool(_result(run, tuple([x.dtype for x in arrays])) == dtype)


def _rows(arrays: Sequence[Array], axis: int, ndim: int, start: int, stop: int) -> list[Array]:
    """The parts of operands that broadcast to the rows from ``start`` to ``stop`` of the result."""
    found = []
    for x in arrays:
        own = axis - ndim + x.ndim
        found.append(x if own < 0 or x.shape[own] == 1 else _cut(x, own, start, stop))
    return found


def _cut(x: Array, axis: int, start: int, stop: int) -> Array:
    return x[(slice(None),) * axis + (slice(start, stop),)]


def _flushes() -> bool:
    """Does this thread count subnormal numbers as zero (``set_flush_denormal``)? The helpers do not."""
    return not np.multiply(_SUBNORMAL, _ONE).any()


def _threads() -> int:
    return config.threads or _usable()


@cache
def _usable() -> int:
    return config.default_threads()


def _share(work: Callable[[int, int], None], extent: int, elements: int) -> None:
    """``work(start, stop)`` for parts of ``range(extent)``, all at the same time."""
    parts = min(_threads(), extent, max(1, 2 * elements // LARGE))
    bounds = [extent * i // parts for i in range(parts + 1)]
    waiting, start = [], bounds[-1]
    if parts > 1:
        with contextlib.suppress(RuntimeError):  # no more threads, or the program ends
            submit = _helpers(_threads() - 1).submit
            for a, b in reversed(list(pairwise(bounds[1:]))):
                waiting.append(submit(_careless, work, a, b))
                start = a
    try:
        _careless(work, 0, start)
    finally:
        errors = [one.exception() for one in waiting]
    for error in filter(None, errors):
        raise error


def _careless(work: Callable[[int, int], None], start: int, stop: int) -> None:
    """NaN and infinities are results like any other, in every thread."""
    before = ignore()
    try:
        work(start, stop)
    finally:
        restore(before)


@cache
def _helpers(count: int) -> Any:
    """So many threads that wait for work."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(count, "tracejit-eager")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)  # threads do not survive a fork
