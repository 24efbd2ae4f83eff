"""Memory of the stand-in for a GPU: who owns it, and which allocation an address lies in."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np

#: Everything that owns memory and is alive.
LIVE: weakref.WeakSet[Any] = weakref.WeakSet()
#: A set that grows while it is walked through is an error, and threads allocate.
GROWS = threading.Lock()


def region(address: int) -> np.ndarray | None:
    """The bytes of the allocation that an address lies in."""
    with GROWS:
        owners = list(LIVE)
    for owner in owners:
        found = owner.bytes
        if found.ctypes.data <= address < found.ctypes.data + max(found.nbytes, 1):
            return found
    return None
