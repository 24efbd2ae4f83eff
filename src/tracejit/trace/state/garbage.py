"""Garbage that a function has collected: ``gc.collect()`` in a training step, done again at the end of every call."""

from __future__ import annotations

import dis
import gc
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from ...modes import MODES

__all__ = ["notes_collection"]


class Collected:
    """One collection of all garbage: made by the recorded run, and again by every call."""

    def __call__(self) -> None:
        """Collect, in a later call."""
        gc.collect()

    def saved(self) -> Callable[[], None]:
        """What takes back what it changes: nothing does, and nobody needs it."""
        return _nothing

    def namespaces(self) -> Iterable[tuple[dict[str, Any], frozenset[str] | None]]:
        """It sets no numbers that code can read."""
        return ()


def notes_collection(function: Any, frame: FrameType) -> bool:
    """Is this a call of ``gc.collect()`` whose result is not used? Then the recorder of this thread knows of it.

    >>> import sys
    >>> notes_collection(gc.collect, sys._getframe())  # nothing is recorded
    False
    """
    recorder = MODES.recorder
    if function is not gc.collect or recorder is None or not _is_dropped(frame):
        return False
    recorder.stop_trial("collects garbage")
    recorder.not_in_rounds()
    recorder.again(Collected())
    return True


def _is_dropped(frame: FrameType) -> bool:
    """Is what a call without arguments returns, in code that has just come to it, not used?"""
    steps = [x for x in dis.get_instructions(frame.f_code) if x.opname not in ("CACHE", "PRECALL")]
    at = next((i for i, x in enumerate(steps) if x.offset >= frame.f_lasti), len(steps))
    if at + 1 >= len(steps) or not steps[at].opname.startswith("CALL"):
        return False
    return not steps[at].arg and steps[at + 1].opname == "POP_TOP"


def _nothing() -> None:
    """Nothing."""
