"""How many elements are worth the attention of a second thread: the fewer, the more is done for each.

A hand-over to a thread that is awake takes a microsecond or two. In that time one thread adds `config.grain_elements`
numbers, which come from the second-level cache. Up to `_FREE` operations fit into the time that an element takes there;
with more, as many elements are worth it as take that long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from .. import config
from ..ir.graph import Value
from ..ops.table import Elementwise

__all__ = ["elements_per_chunk", "evaluates_functions"]

#: Vector instructions for an element that a sum of two arrays has time for.
_FREE = 14
#: Fewer elements are never divided further.
_LEAST = 1024
#: Vector instructions of an operation: of a function, of quotients and roots, of any other.
_FUNCTION, _QUOTIENT, _OTHER = 24, 6, 1
_CHEAP = frozenset(
    "maximum minimum clamp fmax fmin abs sign copysign select convert isnan isinf isfinite floor ceil "  # noqa: SIM905
    "round trunc shift_left shift_right".split()
)
_CALL = re.compile(r"(\w+)\(")


def elements_per_chunk(values: Iterable[Value]) -> int:
    """Elements of a kernel that computes these values worth a chunk of their own.

    >>> from tracejit.ir import parse
    >>> text = "graph f(x: f32[8]) { %0: f32[8] = exp(x) %1: f32[8] = log(%0) return %1 }"
    >>> elements_per_chunk([]), elements_per_chunk(parse(text).values)
    (16384, 4778)
    """
    cost = sum(map(_cost, values))
    return max(_LEAST, config.grain_elements * _FREE // max(_FREE, cost))


def evaluates_functions(values: Iterable[Value]) -> bool:
    """Is a function evaluated that takes as long as many operations?

    >>> from tracejit.ir import parse
    >>> text = "graph f(x: f32[8]) { %0: f32[8] = exp(x) return %0 }"
    >>> evaluates_functions([]), evaluates_functions(parse(text).values)
    (False, True)
    """
    return any(_cost(value) >= _FUNCTION for value in values)


def _cost(value: Value) -> int:
    if not isinstance(value.op, Elementwise) or value.op.scalar is None:
        return _OTHER
    size = value.spec.dtype.itemsize
    return _cost_of(value.op.scalar) * max(1, size // 4)


@cache
def _cost_of(scalar: str) -> int:
    calls = _CALL.findall(scalar)
    if "/" in scalar or "sqrt" in calls:
        return _QUOTIENT
    return _FUNCTION if any(name not in _CHEAP for name in calls) else _OTHER
