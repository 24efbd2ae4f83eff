"""The functions update rules use besides operators; they work on arrays, tensors and numbers alike."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def sqrt(x: Any) -> Any:
    """The square root of an array, a tensor or a number."""
    if isinstance(x, np.ndarray):
        return np.sqrt(x)
    return math.sqrt(x) if isinstance(x, (int, float)) else x.sqrt()


def maximum(x: Any, y: Any) -> Any:
    """The elementwise larger of two arrays or tensors; NaN if either is."""
    return np.maximum(x, y) if isinstance(x, np.ndarray) else x.maximum(y)


def lerp(start: Any, end: Any, weight: float) -> Any:
    """``start + weight * (end - start)``, written so that it ends exactly at ``end``."""
    if weight < 0.5:
        return start + (end - start) * weight
    return end - (end - start) * (1.0 - weight)
