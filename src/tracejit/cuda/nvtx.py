"""Marks for NVIDIA's tools, under PyTorch's names. No tool listens to them here: they are accepted, without effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

#: What NVIDIA's library answers where no tool keeps count of ranges.
_UNCOUNTED = -2


def range_push(msg: str) -> int:
    """Open a range inside of those that are open.

    >>> range_push("forward"), range_pop()
    (-2, -2)
    """
    return _UNCOUNTED


def range_pop() -> int:
    """Close the range that was opened last.

    >>> range_pop()
    -2
    """
    return _UNCOUNTED


def range_start(msg: str) -> int:
    """Begin a range that any thread may end; its number.

    >>> range_end(range_start("copy"))
    """
    return 0


def range_end(range_id: int) -> None:
    """End a range of :func:`range_start`.

    >>> range_end(0)
    """


def mark(msg: str) -> None:
    """Note that something happened.

    >>> mark("here")
    """


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range around a block or, as a decorator, a function; ``msg`` is formatted with what follows it.

    >>> with range("batch {}", 3):
    ...     pass
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
