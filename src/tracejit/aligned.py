"""Arrays whose memory begins where a cache line does, each on memory of its own.

NumPy's begin at any multiple of 16 bytes. A vector of 64 bytes then lies in two lines wherever it is read, which takes
twice as long: kernels that go over rows in the cache were a fifth slower with such operands.

Such an array rests on a buffer that is no array, nor a view of one's memory as far as NumPy knows: all views of it then
refer to it, as to an array that has its memory from NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pickle import PickleBuffer
from typing import Any

import numpy as np

__all__ = ["LINE", "copy", "empty", "full", "has_memory", "lines", "zeros"]

#: Bytes of a cache line, which are those of the longest vector register, too.
LINE = 64
#: Bytes of the smallest arrays that are worth it: below, the time to make an array is all there is to a call.
LEAST = 1024

_Shape = int | Sequence[int]


def lines(make: Any, nbytes: int) -> memoryview:
    """So many bytes from the beginning of a line on, of an array that ``make`` (``np.empty``, ``np.zeros``) makes.

    >>> np.frombuffer(lines(np.empty, 100), np.uint8).ctypes.data % LINE
    0
    """
    memory: np.ndarray = make(nbytes + LINE, np.uint8)
    start = -memory.__array_interface__["data"][0] % LINE
    return memory.data[start : start + nbytes]


def empty(shape: _Shape, dtype: Any) -> np.ndarray:
    """``np.empty(shape, dtype)``, which is aligned if it is not small.

    >>> empty((3, 100), np.float32).ctypes.data % 64
    0
    """
    return _placed(np.empty, shape, np.dtype(dtype))


def zeros(shape: _Shape, dtype: Any) -> np.ndarray:
    """``np.zeros(shape, dtype)``, which is aligned if it is not small.

    >>> found = zeros((3, 100), np.float32)
    >>> found.ctypes.data % 64, bool(found.any())
    (0, False)
    """
    return _placed(np.zeros, shape, np.dtype(dtype))


def copy(x: Any, dtype: Any = None) -> Any:
    """``x.astype(dtype, order="C")`` of an array of any library; NumPy's is aligned if it is not small.

    >>> found = copy(np.arange(900)[::3], np.float32)
    >>> found.ctypes.data % 64, float(found[-1])
    (0, 897.0)
    """
    wanted = x.dtype if dtype is None else np.dtype(dtype)
    if not isinstance(x, np.ndarray) or x.size * wanted.itemsize < LEAST:
        return x.astype(wanted, order="C", copy=True)
    out = empty(x.shape, wanted)
    np.copyto(out, x, casting="unsafe")
    return out


def full(shape: _Shape, value: Any, dtype: Any) -> np.ndarray:
    """``np.full(shape, value, dtype)``, which is aligned if it is not small.

    >>> full((3, 100), 2.0, np.float32).ctypes.data % 64
    0
    """
    out = empty(shape, dtype)
    out[...] = value
    return out


def has_memory(x: Any) -> bool:
    """Does the memory of an array belong to it, so that it is no view: NumPy's, or of an array made here?

    >>> has_memory(np.ones(3)), has_memory(zeros(300, np.float32)), has_memory(zeros(300, np.float32)[1:])
    (True, True, False)
    """
    memory = x.base
    return type(memory) is PickleBuffer or (memory is None and bool(x.flags.owndata))


def _placed(make: Any, shape: _Shape, dtype: np.dtype[Any]) -> np.ndarray:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    nbytes = math.prod(sizes) * dtype.itemsize
    if nbytes < LEAST:
        found: np.ndarray = make(shape, dtype)
        return found
    buffer: Any = PickleBuffer(lines(make, nbytes))
    return np.ndarray(sizes, dtype, buffer)
