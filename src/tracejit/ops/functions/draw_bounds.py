"""Between which integers numbers are drawn: what the dtype they are drawn in holds."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...dtypes import DType
from ...number_limits import finfo


def exact_limit(dtype: DType) -> int:
    """The integer from which on ``dtype`` does not hold every one.

    >>> exact_limit(dtypes.uint8), exact_limit(dtypes.float16)
    (256, 2048)
    """
    if dtype.is_floating_point:
        return 1 << {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}[dtype.short]
    if dtype is dtypes.bool_:
        return 2
    return 1 << (dtype.itemsize * 8 - dtype.is_signed)


def refuse_bounds(low: Any, high: Any, dtype: DType) -> None:
    """``RuntimeError`` where there is no integer in [low, high), or one that ``dtype`` does not reach.

    >>> refuse_bounds(0, 300, dtypes.uint8)
    Traceback (most recent call last):
    RuntimeError: to - 1 is out of bounds for uint8
    """
    if low >= high:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    if dtype is dtypes.int64 or (dtype.is_floating_point and dtype is not dtypes.float16):
        return  # which hold, or round, whatever is an integer here
    limit = int(finfo(dtype).max) + 1 if dtype.is_floating_point else exact_limit(dtype)
    least = -limit if dtype.is_signed else 0
    for name, value in (("from", low), ("to - 1", high - 1)):
        if not least <= value < limit:
            raise RuntimeError(f"{name} is out of bounds for {dtype.name}")
