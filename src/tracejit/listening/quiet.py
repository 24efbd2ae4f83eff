"""Running something that no listener is to be told of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .stack import LISTENERS

__all__ = ["hushed", "quietly"]


def quietly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a function gives, of which nobody is told.

    >>> quietly(max, 1, 2)
    2
    """
    before = LISTENERS.quiet
    LISTENERS.quiet = True
    try:
        return function(*args, **kwargs)
    finally:
        LISTENERS.quiet = before


@contextmanager
def hushed() -> Iterator[None]:
    """Inside, nobody is told of anything.

    >>> with hushed():
    ...     LISTENERS.quiet
    True
    """
    before = LISTENERS.quiet
    LISTENERS.quiet = True
    try:
        yield
    finally:
        LISTENERS.quiet = before
