"""The threads of the BLAS and LAPACK that NumPy and SciPy bring, off while they multiply or take apart small matrices.

A factorisation is many small products, each of which OpenBLAS would share among threads that wait for one another.
Below five hundred rows that gains nothing, and where another process wants a core too it takes many times longer.
A single product gains a few microseconds, and loses a hundred times as much.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from types import TracebackType
from typing import Any

import numpy as np

from .. import config
from ..locks import renewed_lock
from .namespace import xp
from .table import Array

__all__ = [
    "DECORATIONS",
    "SHARED",
    "Library",
    "OneThread",
    "multiplied",
    "one_thread",
    "small_on_one_thread",
]

#: Of how many rows and columns matrices are that no library shares among threads, and the largest that it should not.
TINY, SMALL = 32, 512
#: Multiplications of two matrices from which on a library shares them among threads, and on which it should.
SHARED, WORTH_SHARING = 1 << 18, 1 << 24


@dataclass(frozen=True)
class Library:
    """A library that has threads: of how many it says so, and takes another number."""

    get_num_threads: Callable[[], int]
    set_num_threads: Callable[[int], None]


class OneThread:
    """One thread for some libraries as long as anybody is inside; the last to leave puts back what was there."""

    def __init__(self, libraries: list[Library]) -> None:
        self.libraries = libraries
        self.lock = renewed_lock()
        self.inside = 0
        self.before: list[int] = []

    def __enter__(self) -> None:
        with self.lock:
            if not self.inside:
                self.before = [library.get_num_threads() for library in self.libraries]
                for library, threads in zip(self.libraries, self.before, strict=True):
                    if threads != 1:
                        library.set_num_threads(1)
            self.inside += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                for library, threads in zip(self.libraries, self.before, strict=True):
                    if threads != 1:  # else somebody else switched them off, and will put them back
                        library.set_num_threads(threads)


def one_thread() -> OneThread:
    """One thread for the libraries of NumPy and SciPy while in the context.

    >>> with one_thread():
    ...     print(np.linalg.inv(np.eye(2)).tolist())
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _libraries(_OF_SCIPY in sys.modules)


#: Compiled modules linked to the libraries: what these export is found through them.
_OF_NUMPY, _OF_SCIPY = "numpy.linalg._umath_linalg", "scipy.linalg._flapack"
#: What OpenBLAS's names begin and end with: NumPy's and SciPy's own builds, then those of distributions.
DECORATIONS = (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", ""))


@cache
def _libraries(of_scipy: bool) -> OneThread:
    """Those that are OpenBLAS; NumPy and SciPy may share one."""
    found: dict[int, Library] = {}
    for name in (_OF_NUMPY, _OF_SCIPY) if of_scipy else (_OF_NUMPY,):
        path = getattr(sys.modules.get(name), "__file__", None)
        try:
            library = ctypes.CDLL(path) if path else None
        except OSError:
            continue
        for prefix, suffix in DECORATIONS:
            get = getattr(library, f"{prefix}openblas_get_num_threads{suffix}", None)
            put = getattr(library, f"{prefix}openblas_set_num_threads{suffix}", None)
            if get is not None and put is not None:
                address = ctypes.cast(put, ctypes.c_void_p).value or 0
                found[address] = Library(get, put)
                break
    return OneThread(list(found.values()))


def small_on_one_thread(body: Callable[..., Array]) -> Callable[..., Array]:
    """``body``, on one thread where the matrices that it takes apart are small but not tiny.

    >>> small_on_one_thread(np.linalg.inv)(np.eye(100)).shape
    (100, 100)
    """

    @wraps(body)
    def called(*operands: Array, **attributes: Any) -> Array:
        if TINY < max(operands[0].shape[-2:]) <= SMALL and type(operands[0]) is np.ndarray:
            with one_thread():
                return body(*operands, **attributes)
        return body(*operands, **attributes)

    return called


def multiplied(x: Array, y: Array) -> Array:
    """``matmul`` of a library, on one thread where two matrices are little work, or where there is to be no other.

    >>> multiplied(np.eye(100), np.eye(100)).sum()
    np.float64(100.0)
    """
    n = xp(x, y)
    one = x.shape[-2] * x.shape[-1] * y.shape[-1]
    if n is not np or one < SHARED or (one >= WORTH_SHARING and config.threads != 1):
        return n.matmul(x, y)
    with one_thread():
        return np.matmul(x, y)
