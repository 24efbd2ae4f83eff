"""Where the machine code and the plans of this process came from, and who may stop more code from being made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["COUNTS", "Counts", "gates"]


@dataclass
class Counts:
    """Functions that LLVM compiled, that the store had, and that the process had already; plans made, and read.

    >>> Counts().compiled
    0
    """

    compiled: int = 0
    loaded: int = 0
    reused: int = 0
    plans_made: int = 0
    plans_read: int = 0


COUNTS = Counts()
#: Called before a function goes through LLVM; what they raise gives the compilation up.
gates: list[Callable[[], None]] = []
