"""Planning without garbage collection: it makes many objects that stay, and nothing of the user's runs meanwhile."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")
#: Threads that have switched collection off.
_threads: set[int] = set()


def without_collection(work: Callable[[], _T]) -> _T:
    """What ``work`` returns; collection is off meanwhile, and on again after it unless it was off before.

    >>> without_collection(lambda: print(gc.isenabled()))
    False
    >>> gc.isenabled()
    True
    """
    if not gc.isenabled():
        return work()
    try:  # whether or not an interrupt lets the first lines end
        _threads.add(threading.get_ident())
        gc.disable()
        return work()
    finally:
        gc.enable()
        _threads.discard(threading.get_ident())


def _after_fork() -> None:
    """The thread that would switch it on again is not here."""
    if _threads - {threading.get_ident()}:
        _threads.clear()
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
