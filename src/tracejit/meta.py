"""Tensors without memory, on the device "meta": shapes, dtypes and strides of what would be computed, and no numbers.

Their arrays lie in pages that nobody touches, which the operating system therefore does not provide. Views are views
of NumPy; every other operation asks its type rule. Whoever asks for numbers is refused.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

__all__ = ["ANY", "META", "MetaArray", "is_meta", "meta_array", "meta_like"]

#: The number of the device.
META = -2
#: Are there such tensors at all? Until there are, nobody has to ask.
ANY: list[bool] = [False]
NO_DATA = "Cannot copy out of meta tensor; no data!"
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
#: Functions of NumPy that look at no element.
_VIEWS = frozenset(
    {
        *(
            "as_strided",
            "atleast_1d",
            "broadcast_arrays",
            "broadcast_to",
            "diagonal",
            "expand_dims",
        ),
        *("flip", "may_share_memory", "moveaxis", "ndim", "permute_dims", "reshape", "rollaxis"),
        *("shape", "shares_memory", "size", "squeeze", "swapaxes", "transpose"),
    }
)
_lock = threading.Lock()
_pages: list[mmap.mmap] = []


class MetaArray(np.ndarray[Any, Any]):
    """An array of which only the shape, the dtype and the strides count."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(NO_DATA)

    __array_ufunc__ = item = tolist = tobytes = dump = dumps = tofile = _refuse
    __bool__ = __float__ = __int__ = __index__ = __complex__ = __reduce__ = _refuse
    __setitem__ = fill = sort = partition = _refuse

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func.__name__ not in _VIEWS:
            raise NotImplementedError(NO_DATA)
        return super().__array_function__(func, types, args, kwargs)

    def copy(self, order: Any = "C") -> MetaArray:
        """Another array like this one."""
        return meta_array(self.shape, self.dtype)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> MetaArray:
        return self.copy()

    def astype(self, dtype: Any, *_: Any, **__: Any) -> MetaArray:
        """An array of another dtype."""
        return meta_array(self.shape, dtype)


def meta_array(shape: Sequence[int], dtype: Any) -> MetaArray:
    """An array of this shape and dtype, row by row, without memory.

    >>> meta_array((1 << 20, 1 << 20), np.float32).strides
    (4194304, 4)
    """
    kind = np.dtype(dtype)
    size = kind.itemsize
    for extent in shape:
        size *= extent
    ANY[0] = True
    return np.ndarray.__new__(MetaArray, tuple(shape), kind, buffer=_room(size))


def meta_like(array: Any) -> MetaArray:
    """An array without memory, like another one.

    >>> meta_like(np.zeros((2, 3))).shape
    (2, 3)
    """
    return array if is_meta(array) else meta_array(array.shape, array.dtype)


def is_meta(array: Any) -> bool:
    """Has an array no memory?

    >>> is_meta(np.zeros(2)), is_meta(meta_array((2,), np.float32))
    (False, True)
    """
    return type(array) is MetaArray


def _room(size: int) -> mmap.mmap:
    """At least so many bytes of pages that nobody touches; all arrays share them."""
    with _lock:
        if not _pages or len(_pages[-1]) < size:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
            _pages.append(mmap.mmap(-1, max(1 << 30, 1 << size.bit_length()), flags=flags))
        return _pages[-1]
