"""Divisors that make a difference to code: powers of two."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from .graph import Value

__all__ = ["is_power_divisor"]

_DIVISIONS = frozenset({"floor_divide", "remainder"})


def is_power_divisor(value: Value, operand: Any) -> bool:
    """Is ``operand`` of ``value`` a power of two by which whole numbers are divided, and has their type that number?

    Then the quotient and the rest are parts of the bits. Numbers are sizes to most of the compiler, which makes one
    program for all; these are not (`passes.simplify.powers_of_two`).

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: i8[3]) { %0: i8[3] = remainder(x, 64) %1: i8[3] = mul(%0, 8) return %1 }")
    >>> [is_power_divisor(value, value.operands[1]) for value in graph.values]
    [True, False]
    """
    if value.op is None or value.op.name not in _DIVISIONS:
        return False
    x, y = value.operands
    dtype = value.spec.dtype
    if not isinstance(x, Value) or y is not operand or type(y) is not int:
        return False
    if x.spec.dtype is not dtype or dtype is dtypes.bool_:
        return False
    if dtype.is_floating_point or dtype.is_complex:
        return False
    end = 1 << (8 * dtype.itemsize - int(dtype.is_signed))
    return 0 < y < end and y & (y - 1) == 0
