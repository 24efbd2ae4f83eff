"""The array namespace behind op bodies: NumPy for host arrays, CuPy for device arrays."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def xp(*arrays: Any) -> Any:
    """The module whose functions work on ``arrays``."""
    for array in arrays:
        if isinstance(array, np.ndarray):
            return np
        if type(array).__module__.startswith("cupy"):
            return sys.modules["cupy"]
    return np


def special(*arrays: Any) -> Any:
    """``scipy.special``, or its CuPy counterpart."""
    if xp(*arrays) is np:
        import scipy.special

        return scipy.special
    import cupyx.scipy.special

    return cupyx.scipy.special
