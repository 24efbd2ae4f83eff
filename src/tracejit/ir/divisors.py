"""Divisors that make a difference to code: large powers of two."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from .graph import Value

__all__ = ["is_power_divisor"]

#: Sizes are rarely as large.
LEAST = 1 << 16
_DIVISIONS = frozenset({"floor_divide", "remainder"})


def is_power_divisor(value: Value, operand: Any) -> bool:
    """Is ``operand`` of ``value`` a power of two by which whole numbers are divided, and has their type that number?

    Then the quotient and the rest are parts of the bits. Numbers are sizes to most of the compiler, which makes one
    program for all; these are not (`passes.simplify.powers_of_two`). Smaller ones are, for they may well be: then
    each power would have kernels of its own.

    >>> from tracejit.ir import parse
    >>> text = "graph f(x: i32[3]) { %0: i32[3] = remainder(x, 65536) %1: i32[3] = remainder(%0, 8) return %1 }"
    >>> [is_power_divisor(value, value.operands[1]) for value in parse(text).values]
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
    return LEAST <= y < end and y & (y - 1) == 0
