"""Positions along a dimension: checked, and counted from its start.

Those out of range raise ``OutOfRangeError``, an ``IndexError`` and a ``RuntimeError``, because PyTorch raises either,
depending on the function.
"""

from __future__ import annotations

import numpy as np

from ..errors import DimensionError, DtypeError
from ..types import TensorType
from .namespace import xp
from .table import Array


class OutOfRangeError(DimensionError, RuntimeError):
    """An index that is not within its dimension."""


def check_index(name: str, index: TensorType) -> None:
    """``DtypeError`` unless positions are integers."""
    if index.dtype.category != "int":
        raise DtypeError(f"{name}(): Expected dtype int32/int64 for index, got {index.dtype.name}")


def wrapped(index: Array, size: int, dim: int, negative: bool = True) -> Array:
    """Non-negative indices; raises for those out of range."""
    low = -size if negative else 0
    if index.size:
        n = xp(index)
        if n is np:
            smallest, largest = int(n.min(index)), int(n.max(index))
        else:  # one wait for both
            smallest, largest = n.stack((n.min(index), n.max(index))).tolist()
        if smallest < low or largest >= size:
            bad = smallest if smallest < low else largest
            raise OutOfRangeError(
                f"index {bad} is out of bounds for dimension {dim} with size {size}"
            )
        if smallest < 0:
            return n.where(index < 0, index + size, index)
    return index
