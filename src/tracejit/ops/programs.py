"""Ops that eager code leaves to compiled code where arrays are large, and NumPy goes one element after the other.

`runtime.eager.programs` makes a program of the single op, once NumPy has done as much work as that takes to compile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..dtypes import bfloat16, float16, float32, float64

__all__ = ["LONG", "by_program", "set_programs"]

Array = Any
#: Elements from which on a program is worth its call.
LEAST = 1 << 14
#: Elementwise ops of which NumPy's loops take up to a hundred nanoseconds for each element, on processors without
#: AVX-512 at least; kernels round in another way.
LONG = frozenset(
    [
        *("sinh", "cosh", "tan", "asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2"),
        *("exp2", "expm1", "log2", "log10", "log1p", "logaddexp", "hypot"),
        *("exp", "log", "sin", "cos", "tanh", "pow"),
    ]
)
_FLOATS = tuple([kind.np for kind in (float16, bfloat16, float32, float64)])
#: What runs an op as a program: the op, its arrays, attributes, and whether NumPy's bits are those of the kernel.
Run = Callable[[Any, Sequence[Array], Mapping[str, Any], bool], Array | None]
_run: list[Run] = []


def set_programs(run: Run) -> None:
    """Install what runs single ops as programs, or gives None.

    >>> before = list(_run)
    >>> set_programs(lambda op, arrays, attributes, same: None)
    >>> _run[:] = before
    """
    _run[:] = [run]


def by_program(
    op: Any, arrays: Sequence[Array], attributes: Mapping[str, Any], *, same_bits: bool
) -> Array | None:
    """The result of ``op`` by compiled code; None where NumPy is to compute it.

    >>> from tracejit.ops.ordering import cumsum
    >>> by_program(cumsum, [np.ones(3)], {"dim": 0}, same_bits=True) is None  # too few
    True
    """
    if not _run or not all(type(x) is np.ndarray and x.dtype.isnative for x in arrays):
        return None
    if max([x.size for x in arrays]) < LEAST:
        return None
    if not same_bits and any(x.dtype not in _FLOATS for x in arrays):
        return None
    return _run[0](op, arrays, attributes, same_bits)
