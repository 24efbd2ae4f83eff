"""Whole numbers divided by a large power of two: the rest is their last bits, the quotient what is before them.

Before::

    graph f(x: i64[3]) {
        %0: i64[3] = floor_divide(x, 65536)
        %1: i64[3] = remainder(x, 65536)
        return %0, %1
    }

After::

    graph f(x: i64[3]) {
        %0: i64[3] = bitwise_right_shift(x, 16)
        %1: i64[3] = bitwise_and(x, 65535)
        return %0, %1
    }

Both round down, negative numbers included, as ``//`` and ``%`` do. No vector unit divides whole numbers.
"""

from __future__ import annotations

from ...ir.divisors import is_power_divisor
from ...ir.graph import Value
from ..rewrite import Rewriter, Rules

__all__ = ["POWER_RULES"]


def _quotient(rewriter: Rewriter, value: Value) -> Value | None:
    x, y = value.operands
    if isinstance(y, Value) or not is_power_divisor(value, y):
        return None
    return rewriter.write("bitwise_right_shift", (x, int(y).bit_length() - 1), value.line)


def _rest(rewriter: Rewriter, value: Value) -> Value | None:
    x, y = value.operands
    if isinstance(y, Value) or not is_power_divisor(value, y):
        return None
    return rewriter.write("bitwise_and", (x, int(y) - 1), value.line)


POWER_RULES: Rules = {"floor_divide": (_quotient,), "remainder": (_rest,)}
