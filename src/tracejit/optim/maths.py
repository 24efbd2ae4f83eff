"""The functions update rules use besides operators; they work on arrays, tensors and numbers alike."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..cuda.arrays import is_on_device, module_of


def sqrt(x: Any) -> Any:
    """The square root of an array, a tensor or a number."""
    if _is_array(x):
        return module_of(x).sqrt(x)
    return math.sqrt(x) if isinstance(x, (int, float)) else x.sqrt()


def maximum(x: Any, y: Any) -> Any:
    """The elementwise larger of two arrays or tensors; NaN if either is."""
    return module_of(x, y).maximum(x, y) if _is_array(x) else x.maximum(y)


def _is_array(x: Any) -> bool:
    return isinstance(x, np.ndarray) or is_on_device(x)


def both_parts(number: Any, of: Any) -> Any:
    """What the state of a parameter starts from: the number, for complex ones in both parts."""
    return complex(number, number) if of.dtype.is_complex else number


class Mix(NamedTuple):
    """The weight of a running mean as the three numbers that mixing needs, each rounded once in double precision."""

    weight: Any
    rest: Any
    early: bool  # below one half

    @classmethod
    def of(cls, decay: float) -> Mix:
        """The weight of a new value in a mean that decays by ``decay``."""
        weight = 1.0 - decay
        return cls(weight, 1.0 - weight, weight < 0.5)


def lerp(start: Any, end: Any, mix: Mix) -> Any:
    """``start + weight * (end - start)``, written so that it ends exactly at ``end``."""
    if mix.early:
        return start + (end - start) * mix.weight
    return end - (end - start) * mix.rest


def where(condition: Any, x: Any, y: Any) -> Any:
    """``x`` where the condition holds, else ``y``."""
    return np.where(condition, x, y) if isinstance(condition, np.ndarray) else x.where(condition, y)


def sign(x: Any) -> Any:
    """-1, 0 or 1; NaN gives 0."""
    if not isinstance(x, np.ndarray):
        return x.sign()
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


def clamp(x: Any, least: Any, most: Any) -> Any:
    """``x`` between two bounds."""
    if isinstance(x, np.ndarray):
        return np.minimum(np.maximum(x, x.dtype.type(least)), x.dtype.type(most))
    return x.maximum(_like(least, x)).minimum(_like(most, x))


def _like(number: Any, x: Any) -> Any:
    return number if hasattr(number, "dtype") else x.new_full((), number)
