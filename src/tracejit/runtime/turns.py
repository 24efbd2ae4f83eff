"""How long a thread may keep Python's lock from another one, while helpers compile.

Most of a compilation runs without the lock, but needs it for a moment forty times. Beside a thread that plans, each
time may take the interpreter's whole interval, and kernels of ten milliseconds take thirty.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ..locks import renewed_lock

__all__ = ["TURN", "short_turns"]

#: Seconds.
TURN = 1e-4
_lock = renewed_lock()
_helpers = [0]
_before: list[float] = []


@contextmanager
def short_turns() -> Iterator[None]:
    """Mark what a helper does: while there is one, turns are short.

    >>> before = sys.getswitchinterval()
    >>> with short_turns(), short_turns():
    ...     sys.getswitchinterval() <= TURN
    True
    >>> sys.getswitchinterval() == before
    True
    """
    _add(1)
    try:
        yield
    finally:
        _add(-1)


def _add(number: int) -> None:
    with _lock:
        _helpers[0] += number
        now = sys.getswitchinterval()
        if number > 0 and _helpers[0] == 1 and now > TURN:
            _before[:] = [now]
            sys.setswitchinterval(TURN)
        elif _helpers[0] == 0:
            _restore(now)


def _restore(now: float) -> None:
    if _before:
        before = _before.pop()
        if abs(now - TURN) < TURN / 100:  # else somebody else set it meanwhile
            sys.setswitchinterval(before)


def _after_fork() -> None:
    _helpers[0] = 0  # they are not in the child
    _restore(sys.getswitchinterval())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
