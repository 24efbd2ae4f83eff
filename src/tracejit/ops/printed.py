"""Which elementwise ops of large eager arrays are kernels of their scalar expressions, with NumPy's bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from .. import dtypes
from .op import Array

__all__ = ["ANY_FLOAT", "HALVES", "PRINTED", "divided", "is_divided", "printed", "set_printed"]

#: Ops of any float type that take NumPy's loops long, and those of half precision alone, whose conversions do.
ANY_FLOAT = frozenset(
    [
        *("floor_divide", "remainder", "fmod", "sign", "leaky", "relu"),
        *("clamp_min", "clamp_max", "clamp_between", "clamp_inside"),
    ]
)
HALVES = frozenset(
    [
        *("add", "sub", "mul", "div", "neg", "abs", "square", "sqrt", "maximum", "minimum"),
        *("cast", "eq", "ne", "lt", "le", "gt", "ge"),
    ]
)
PRINTED = ANY_FLOAT | HALVES
_FLOATS = {dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64}
#: Makes a result of an op by a kernel of its expression: of the op, its operands, attributes and the dtype; or None.
Printed = Callable[[Any, Sequence[Array], Mapping[str, Any], Any], Array | None]
_printed: list[Printed] = []


def set_printed(function: Printed) -> None:
    """Install what computes elementwise results by kernels.

    >>> before = list(_printed)
    >>> set_printed(lambda op, arrays, attributes, dtype: None)
    >>> _printed[:] = before
    """
    _printed[:] = [function]


def printed(
    op: Any, arrays: Sequence[Array], attributes: Mapping[str, Any], dtype: Any
) -> Array | None:
    """What a kernel makes of operands of one of `PRINTED`; None where it is left to NumPy.

    >>> from tracejit.ops.elementwise import sign
    >>> printed(sign, [np.zeros(3)], {}, np.dtype("float64")) is None  # too few
    True
    """
    if not (_printed and _serves(op.name, dtype, *[x.dtype for x in arrays])):
        return None
    return _printed[0](op, arrays, attributes, dtype)


@cache
def _serves(name: str, dtype: Any, *operands: Any) -> bool:
    """Is a kernel what computes an op of `PRINTED` on operands of these dtypes?"""
    found = set(map(dtypes.from_numpy, operands))
    if dtype.kind != "b":
        found.add(dtypes.from_numpy(dtype))
    return found <= _FLOATS and (name in ANY_FLOAT or any(x.is_half for x in found))


def is_divided(dtype: Any) -> bool:
    """May whole numbers of this dtype be divided by a kernel? Longer unsigned ones are not computed with.

    >>> import numpy as np
    >>> is_divided(np.dtype("int64")), is_divided(np.dtype("uint64")), is_divided(np.dtype("float64"))
    (True, False, False)
    """
    return bool((dtype.kind == "i" or dtype.char == "B") and dtype.isnative)


def divided(op: Any, x: Array, y: Array) -> Array | None:
    """What a kernel makes of a division of whole numbers, none of them by zero; None where it is left to NumPy.

    >>> from tracejit.ops.elementwise import remainder
    >>> divided(remainder, np.arange(3), np.array(2)) is None  # too few
    True
    """
    if not (_printed and x.dtype == y.dtype and is_divided(x.dtype)):
        return None
    return _printed[0](op, (x, y), {}, x.dtype)
