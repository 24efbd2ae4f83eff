"""Memory of the stand-in for a GPU: who owns it, and which allocation an address lies in."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np

#: Everything that owns memory and is alive.
LIVE: weakref.WeakSet[Any] = weakref.WeakSet()
#: A set that grows while it is walked through is an error, and threads allocate.
_GROWS = threading.Lock()


def lives(owner: Any) -> None:
    """From now on this owns memory."""
    with _GROWS:
        LIVE.add(owner)


def region(address: int) -> np.ndarray | None:
    """The bytes of the allocation that an address lies in."""
    with _GROWS:
        owners = list(LIVE)
    for owner in owners:
        found = owner.bytes
        if found.ctypes.data <= address < found.ctypes.data + max(found.nbytes, 1):
            return found
    return None
