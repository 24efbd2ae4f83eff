"""Who listens to what is called, in the order of entering; per thread."""

from __future__ import annotations

import threading
from importlib import import_module
from typing import Any

__all__ = ["LISTENERS", "Listeners", "door"]


class Listeners(threading.local):
    """What the current thread does with calls besides running them.

    ``dispatch`` are the modes that are told of operators, ``functions`` those that are told of functions, the
    outermost first. ``quiet`` while an operator runs: what it calls is part of it. ``below`` inside of a listener,
    where nothing is differentiated. ``natively`` is the operator whose own history counts, ``made`` what it made.
    ``excluded`` counts the blocks in which functions are not shown to classes, ``entered`` the modes that were
    entered and not left: those that are told of something at present are taken from the rows above.
    """

    dispatch: tuple[Any, ...] = ()
    functions: tuple[Any, ...] = ()
    quiet: bool = False
    below: bool = False
    natively: Any = None
    made: Any = None
    excluded: int = 0
    entered: int = 0


LISTENERS = Listeners()


def door() -> Any:
    """What has functions look for listeners, which is loaded when there is the first one.

    >>> door().__name__
    'tracejit.fx.interception'
    """
    return import_module(f"{__package__.partition('.')[0]}.fx.interception")
