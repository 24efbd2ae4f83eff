"""Whether threads of this package compile at the moment, beside which others are not to spin or to be woken."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..locks import renewed_lock

__all__ = ["is_occupied", "occupied", "watchers"]

#: Seconds that one thread may keep Python's lock from another that compiles, or waits for what one compiles.
TURN = 1e-4
_before: list[float] = []
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
        if _threads[0] == max(number, 0):  # the first came, or the last went
            _take_turns(number > 0)
    for watcher in watchers:
        watcher()


def _take_turns(often: bool) -> None:
    """Let threads wait less for Python's lock, or as long as they did before.

    Most of a compilation runs without the lock, but needs it for a moment forty times. Beside a thread that plans or
    runs the user's code each time may take the whole interval, and the other way round.
    """
    now = sys.getswitchinterval()
    if often and now > TURN:
        _before[:] = [now]
        sys.setswitchinterval(TURN)
    elif not often and _before:
        before = _before.pop()
        if abs(now - TURN) < 1e-7:  # else somebody else set it meanwhile
            sys.setswitchinterval(before)


def _after_fork() -> None:
    if _threads[0]:  # the threads that compiled are not in the child
        _threads[0] = 0
        _take_turns(False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
