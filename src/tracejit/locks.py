"""Locks that a forked process finds free.

A fork copies memory and the forking thread only: a lock that another thread holds stays held in the child for ever, and
what it protects is half changed. So most locks are made new in the child; what they protect is changed in steps that
leave it whole. Those of the compiler, whose memory is not ours to keep whole, are waited for before the process forks.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import weakref
from typing import Any

#: How long a fork waits for a compilation in another thread, in seconds.
PATIENCE = 10.0

_renewed: weakref.WeakSet[Any] = weakref.WeakSet()
_awaited: list[tuple[int, Any]] = []
_taken: list[Any] = []


def renewed_lock() -> Any:
    """A lock of the kind ``threading.Lock()``, free in a forked process."""
    lock = threading.Lock()
    _renewed.add(lock)
    return lock


def renewed_rlock() -> Any:
    """A lock of the kind ``threading.RLock()``, free in a forked process."""
    lock = threading.RLock()
    _renewed.add(lock)
    return lock


def awaited_rlock(level: int) -> Any:
    """A lock of the kind ``threading.RLock()`` that a fork waits for.

    Whoever holds it takes only locks of higher levels.
    """
    lock = threading.RLock()
    _awaited.append((level, lock))
    return lock


def _before_fork() -> None:
    found = [lock for _, lock in sorted(_awaited, key=lambda pair: pair[0])] + _of_llvmlite()
    _taken[:] = [lock for lock in found if lock.acquire(timeout=PATIENCE)]


def _of_llvmlite() -> list[Any]:
    """The lock under which llvmlite calls LLVM, for us and for others."""
    module = sys.modules.get("llvmlite.binding.ffi")
    lock = getattr(getattr(getattr(module, "lib", None), "_lock", None), "_lock", None)
    return [lock] if hasattr(lock, "acquire") else []


def free_llvmlite() -> None:
    """Give back llvmlite's lock where an interrupt kept this thread from it; no call of LLVM is going on here."""
    for lock in _of_llvmlite():
        with contextlib.suppress(RuntimeError):
            while True:
                lock.release()


def _after_fork_in_parent() -> None:
    while _taken:
        _taken.pop().release()


def _after_fork_in_child() -> None:
    taken = list(map(id, _taken))
    _after_fork_in_parent()
    for lock in (*_renewed, *(lock for _, lock in _awaited if id(lock) not in taken)):
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
