"""Raw memory for tensors: aligned arrays, and mapped pages for large ones.

Every array made here rests on a buffer that is not an array. That matters: NumPy lets a view refer
to the array that owns the memory and skips those between, so only so do all views of such an array
hold a reference to it and not to something beneath.
"""

from __future__ import annotations

import contextlib
import mmap

import numpy as np

__all__ = ["ALIGNMENT", "aligned_array", "map_pages"]

#: Bytes: a cache line, and the longest vector register.
ALIGNMENT = 64
_HUGE_PAGE = 2 << 20


def aligned_array(nbytes: int) -> np.ndarray:
    """A uint8 array of `nbytes` bytes whose address is a multiple of 64.

    >>> aligned_array(100).ctypes.data % ALIGNMENT
    0
    """
    raw = np.empty(nbytes + ALIGNMENT, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return np.frombuffer(memoryview(raw.data)[start : start + nbytes], dtype=np.uint8)


def map_pages(nbytes: int) -> np.ndarray:
    """A uint8 array on pages of its own, on huge pages where the system has them.

    A first touch then costs one page fault for 2 MiB in place of 512. Raises MemoryError when the
    system has no more.

    >>> len(map_pages(5000))
    5000
    """
    if not hasattr(mmap, "MAP_PRIVATE") or not hasattr(mmap, "MAP_ANONYMOUS"):
        return aligned_array(nbytes)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # private: a child process gets its own copy
    try:
        # A huge page starts at a multiple of its size, a mapping anywhere: room to align in.
        # Address space that is never touched costs nothing.
        pages = mmap.mmap(-1, nbytes + _HUGE_PAGE, flags=flags)
    except OSError as error:
        raise MemoryError(str(error)) from error
    except OverflowError as error:
        raise MemoryError(f"{nbytes:,} bytes are more than can be addressed") from error
    whole = np.frombuffer(pages, dtype=np.uint8)
    start = -whole.ctypes.data % _HUGE_PAGE
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without huge pages
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memoryview(pages)[start : start + nbytes], dtype=np.uint8)
