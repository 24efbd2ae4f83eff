"""Garbage collection while a call is recorded or planned: less often.

A recording makes several objects per operation, and a plan many more, all of which stay: what Python takes for a reason
to look for garbage, again and again, through everything there is. That was a third of the time of long recordings.
Cycles are still collected, after more allocations.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

from ...locks import renewed_rlock

_T = TypeVar("_T")
#: Allocations, less what was freed, between two collections of young objects; Python's own choice is 700 or 2,000.
RARE = 20_000

_lock = renewed_rlock()
_depth = 0
_before: tuple[int, int, int] | None = None
_chosen = RARE


class Collection:
    """How often garbage is collected while one call is recorded or planned, in whatever thread.

    >>> import gc
    >>> before, collection = gc.get_threshold(), Collection()
    >>> collection.rarely()
    >>> gc.get_threshold()[0] >= before[0]
    True
    >>> collection.as_before()
    >>> gc.get_threshold() == before
    True
    """

    def __init__(self) -> None:
        self.begun = False

    def rarely(self, between: int = RARE) -> None:
        """Collect after so many allocations only, until all who asked for less have asked for the opposite."""
        global _depth, _before, _chosen
        with _lock:
            self.begun = True
            _depth += 1
            young, *older = gc.get_threshold()
            if _depth == 1 and 0 < young < between:  # zero: the user does not want any
                _before = (young, *older)  # type: ignore[assignment]
                _chosen = between
                gc.set_threshold(between, *older)

    def as_before(self) -> None:
        """Put back what was changed, unless somebody else changed it meanwhile."""
        global _depth, _before
        with _lock:
            if not self.begun:
                return
            self.begun = False
            _depth -= 1
            if _depth == 0 and _before is not None:
                if gc.get_threshold() == (_chosen, *_before[1:]):
                    gc.set_threshold(*_before)
                _before = None


def grow_old() -> None:
    """Have all there is count as old: only collections of everything look at it, and none of young objects has to.

    Nothing is moved that the user has frozen, for thawing makes no difference between objects.

    >>> import gc
    >>> before = gc.get_freeze_count()
    >>> grow_old()
    >>> gc.get_freeze_count() <= before  # nothing is left aside
    True
    """
    if gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()


def collecting_rarely(work: Callable[[], _T]) -> _T:
    """What ``work`` returns, done while garbage is collected less often."""
    collection = Collection()
    try:
        collection.rarely()
        return work()
    finally:
        collection.as_before()
