"""Numbers of a recording that another thread got hold of.

While a function is recorded, objects stand in Python state for the numbers there that vary. What another thread runs
meanwhile reads them, computes with their values and may keep one. Once both threads are done, values stand everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from ..arrays.unread import given_arguments
from .fitness import put_back, put_back_everywhere
from .places import TURNS
from .plain_parts import plain_parts

#: Numbers of recordings that are over, which are still somewhere: perhaps among the variables of a function that runs.
_LEFT: list[ref[Any]] = []


def left_over(numbers: Sequence[ref[Any]]) -> None:
    """A recording is over that had handed out these numbers."""
    alive = [r for r in numbers if r() is not None]
    if alive:
        put_back_everywhere(alive)
        _LEFT[:] = [r for r in (*_LEFT, *alive) if r() is not None]


def run_beside(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What the function returns, without numbers that stand in Python state while another thread records."""
    turns = TURNS.ended
    met = TURNS.exclusive is not None
    args, kwargs = given_arguments(args, kwargs)
    try:
        result = function(*args, **kwargs)
    finally:
        met = met or TURNS.exclusive is not None or TURNS.ended != turns
        if met and _LEFT:
            put_back(list(_LEFT))
    return plain_parts(result) if met else result
