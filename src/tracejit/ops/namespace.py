"""The array namespace behind op bodies: NumPy for host arrays, CuPy for device arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cuda.arrays import module_of as xp

__all__ = ["special", "xp"]


def special(*arrays: Any) -> Any:
    """``scipy.special``, or its CuPy counterpart.

    >>> special(np.zeros(1)).__name__
    'scipy.special'
    """
    if xp(*arrays) is np:
        import scipy.special

        return scipy.special
    import cupyx.scipy.special

    return cupyx.scipy.special
