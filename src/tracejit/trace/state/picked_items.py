"""Checks of arguments that look at one item of a list, picked at random by Python's generator.

Code that ``beartype`` writes around functions draws a number for that. Compiled calls check more than the picked item
(what is in the list has a guard), so the number decides nothing; but whoever draws next finds the generator moved on.
So every later call draws as often.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any

__all__ = ["PickedItem", "picks"]

#: The file that such code says it is from.
_WRITTEN = "<@beartype("
#: How many bits it draws.
_BITS = 32


def picks(method: Any, given: Sequence[Any], frame: FrameType) -> bool:
    """Does a method of a generator that ``frame`` calls draw the number of an item to be checked?

    >>> picks(random.getrandbits, (32,), __import__("sys")._getframe())
    False
    """
    written = frame.f_code.co_filename.startswith(_WRITTEN)
    return written and method == random.getrandbits and tuple(given) == (_BITS,)


class PickedItem:
    """One draw: made by the recorded run, and again by every call."""

    def __call__(self) -> None:
        """Draw, in a later call."""
        random.getrandbits(_BITS)

    def saved(self) -> Callable[[], None]:
        """A function that takes the generator back to where it is now."""
        state = random.getstate()
        return lambda: random.setstate(state)

    def namespaces(self) -> Iterable[tuple[dict[str, Any], frozenset[str] | None]]:
        """It sets no numbers that code can read."""
        return ()
