"""Memory of the host that a GPU reads by itself: pinned to its place.

Copies of ordinary memory are staged by CuPy and take what they need at once. Those of pinned memory go on while Python
does: the host waits for them unless it was told not to, and the memory is kept until they are done.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .arrays import MODULES, namespace
from .streams import keep_until_now

__all__ = ["is_pinned", "pinned", "sent", "without_waiting"]


class _Here(threading.local):
    """What this thread wants."""

    waits = True


_here = _Here()


def pinned(array: Any) -> Any:
    """A copy of an array of the host in pinned memory, row by row; `DeviceError` without a GPU.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     assert is_pinned(pinned(np.ones(3)))
    """
    memory = namespace().cuda.alloc_pinned_memory(max(array.nbytes, 1))
    copy = np.frombuffer(memory, array.dtype, array.size).reshape(array.shape)
    copy[...] = array
    return copy


def is_pinned(array: Any) -> bool:
    """Does an array lie in memory that `pinned` made?

    >>> is_pinned(np.ones(3))
    False
    """
    owner = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    owner = owner.obj if isinstance(owner, memoryview) else owner
    return any(isinstance(owner, m.cuda.PinnedMemoryPointer) for m in MODULES.values())


def sent(array: Any) -> None:
    """A copy of a pinned array was just queued in the current stream.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     sent(pinned(np.ones(3)))
    """
    if _here.waits:
        namespace().cuda.get_current_stream().synchronize()
    else:
        keep_until_now(array, namespace().cuda.get_current_stream())


@contextmanager
def without_waiting() -> Iterator[None]:
    """Within the block, this thread does not wait for copies of pinned memory.

    >>> with without_waiting():
    ...     pass
    """
    before, _here.waits = _here.waits, False
    try:
        yield
    finally:
        _here.waits = before
