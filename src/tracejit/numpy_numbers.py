"""NumPy's numbers and functions of numbers, as far as those that vary from call to call go through them.

``np.cos(step / 10)`` or an element of a schedule (``rates[3]``) is a ``np.float64``: a float to Python and to tensors,
which remembers where it came from in what is computed from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["FUNCTIONS", "NAMES", "NUMBERS", "PREDICATES"]

#: The classes of numbers that may vary from call to call.
NUMBERS = frozenset({int, float, np.float64})

_COMPUTED = (
    "absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh cbrt ceil copysign cos cosh deg2rad degrees "
    "divide exp exp2 expm1 fabs float_power floor floor_divide fmax fmin fmod hypot log log10 log1p log2 logaddexp "
    "maximum minimum multiply negative positive power rad2deg radians reciprocal remainder rint sign sin sinh sqrt "
    "square subtract tan tanh trunc"
)
_DECIDED = (
    "equal greater greater_equal isfinite isinf isnan less less_equal logical_not not_equal signbit"
)

#: What computes a number, or decides something, from numbers; by name.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    f"np.{name}": getattr(np, name) for name in f"{_COMPUTED} {_DECIDED}".split()
}
#: The names of those functions.
NAMES = {function: name for name, function in FUNCTIONS.items()}
#: Those whose result Python sees: a truth value.
PREDICATES = frozenset(f"np.{name}" for name in _DECIDED.split())
