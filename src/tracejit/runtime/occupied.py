"""Whether threads of this package compile at the moment, beside which others are not to spin or to be woken."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..locks import renewed_lock

__all__ = ["is_occupied", "occupied", "watchers"]

#: Called after every change.
watchers: list[Callable[[], None]] = []
_lock = renewed_lock()
_threads = [0]


@contextmanager
def occupied() -> Iterator[None]:
    """Mark a part of a program in which this thread compiles.

    >>> with occupied(), occupied():
    ...     is_occupied()
    True
    """
    _add(1)
    try:
        yield
    finally:
        _add(-1)


def is_occupied() -> bool:
    """Does a thread compile?

    >>> with occupied():
    ...     is_occupied()
    True
    """
    return _threads[0] > 0


def _add(number: int) -> None:
    with _lock:
        _threads[0] += number
    for watcher in watchers:
        watcher()


def _after_fork() -> None:
    _threads[0] = 0  # the threads that compiled are not in the child


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
