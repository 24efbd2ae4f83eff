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

from ...modes import MODES

__all__ = ["GENERATOR", "PickedItem", "picks"]

#: What reads the state of the generator: equal to every other way to read it.
GENERATOR = random.getstate
#: The file that such code says it is from.
_WRITTEN = "<@beartype("
#: How many bits it draws.
_BITS = 32


def picks(function: Any, frame: FrameType) -> bool:
    """Does a built-in method that ``frame`` calls draw the number of an item to be checked?

    >>> picks(len, __import__("sys")._getframe())
    False
    """
    return (
        getattr(function, "__name__", "") == "getrandbits"
        and function == random.getrandbits
        and frame.f_code.co_filename.startswith(_WRITTEN)
    )


class PickedItem:
    """One draw: made by the recorded run, and again by every call."""

    def __init__(self) -> None:
        self.before = random.getstate()

    def follows(self, states: Sequence[Any]) -> bool:
        """The run has drawn: was it this, from ``states`` on, and nothing else? Then later calls will draw as well."""
        expected, recorder = random.Random(), MODES.recorder
        expected.setstate(self.before)
        expected.getrandbits(_BITS)
        moved = expected.getstate() != random.getstate()
        if recorder is None or moved or any(state != self.before for state in states):
            return False
        recorder.again(self)
        return True

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
