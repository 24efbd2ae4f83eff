"""Raw memory for tensors: aligned arrays, and mapped pages for large ones.

Every array made here rests on a buffer that is not an array. That matters: NumPy lets a view refer
to the array that owns the memory and skips those between, so only so do all views of such an array
hold a reference to it and not to something beneath.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from functools import cache

import numpy as np

from tracejit.aligned import lines

__all__ = ["LENDS", "aligned_array", "keep_freed_memory", "lend", "map_pages"]

#: Can pages be lent here (see `lend`)?
LENDS = hasattr(mmap, "MADV_FREE") and hasattr(mmap, "MAP_ANONYMOUS")

_HUGE_PAGE = 2 << 20
#: Settings of ``mallopt``: from which size on memory is mapped, and how much of the heap's end may be free.
_MAPPED, _TRIMMED = -3, -1


def aligned_array(nbytes: int) -> np.ndarray:
    """A uint8 array of `nbytes` bytes whose address is a multiple of 64.

    >>> aligned_array(100).ctypes.data % 64
    0
    """
    return np.frombuffer(lines(np.empty, nbytes), dtype=np.uint8)


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


def lend(array: np.ndarray) -> bool:
    """Let the system take the pages of an array of `map_pages`, whose content is of no use; does it know now?

    It takes them where memory is short, and whoever writes there then gets fresh ones. Otherwise they stay, and the
    first touch has them back without a page fault. Arrays on other memory are left as they are.

    >>> lend(map_pages(5000)) in (False, True)
    True
    >>> lend(aligned_array(5000))
    False
    """
    pages = getattr(array.base, "obj", None)
    if not LENDS or not isinstance(pages, mmap.mmap):
        return False
    try:
        pages.madvise(mmap.MADV_FREE)
    except OSError:  # a kernel that cannot
        return False
    return True


@cache
def keep_freed_memory() -> bool:
    """Have the C library keep the memory of arrays of up to 32 MiB when they are freed; was it told to?

    The GNU C library maps large pieces one by one, or gives the end of its heap back to the system as soon as two
    pieces are free there; the next array then lies on pages that are zeroed at the first touch, which takes longer than
    to compute on them. Whoever has once freed 32 MiB has it behave as this asks for (``mallopt(3)``, dynamic
    thresholds). What the environment says about it is left alone.

    >>> keep_freed_memory() in (False, True)
    True
    """
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return False
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  (is it that library?)
        return bool(library.mallopt(_MAPPED, 32 << 20) and library.mallopt(_TRIMMED, 64 << 20))
    except (AttributeError, OSError, TypeError):
        return False
