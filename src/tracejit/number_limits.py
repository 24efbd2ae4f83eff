"""What the numbers of an element type can hold: ``finfo`` and ``iinfo``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from .dtypes import DType, as_dtype, get_default_dtype
from .errors import ConversionError, NumberError

__all__ = ["finfo", "iinfo"]


class _Limits:
    """Facts every number type has."""

    dtype: str
    bits: int
    _shown: tuple[str, ...] = ()

    def __init__(self, dtype: DType, facts: dict[str, Any]) -> None:
        self.__dict__.update(facts, dtype=dtype.name, bits=dtype.itemsize * 8)

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={getattr(self, name):.6g}" for name in self._shown)
        return f"{type(self).__name__}({facts}, dtype={self.dtype})"


class finfo(_Limits):  # noqa: N801  (PyTorch's spelling)
    """Limits of a floating point type: ``min``, ``max``, ``eps``, ``tiny`` (least normal number), ``resolution``.

    Without a dtype, those of the default dtype; of a complex one, those of its parts. Raises ``TypeError`` for other
    types.

    >>> import tracejit as tj
    >>> tj.finfo(tj.float32).eps, tj.finfo(tj.float16).max
    (1.1920928955078125e-07, 65504.0)
    """

    _shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")

    min: float
    max: float
    eps: float
    tiny: float
    smallest_normal: float
    resolution: float

    def __init__(self, type: DType | None = None) -> None:
        dtype = get_default_dtype() if type is None else as_dtype(type)
        dtype = dtype.to_real() if dtype.is_complex else dtype
        if not dtype.is_floating_point:
            raise TypeError(
                f"finfo() requires a floating point input type. Use iinfo to handle '{dtype!r}'"
            )
        found: Any = ml_dtypes.finfo(dtype.np)  # type: ignore[no-untyped-call]
        names = ("min", "max", "eps", "tiny", "smallest_normal")
        facts = {name: float(getattr(found, name)) for name in names}
        resolution = 1.0 if dtype.is_eight_bit_float else 10.0**-found.precision
        super().__init__(dtype, {**facts, "resolution": resolution})


class iinfo(_Limits):  # noqa: N801  (PyTorch's spelling)
    """Limits of an integer type: ``min`` and ``max``.

    Raises ``TypeError`` for a type that is not an integer type.

    >>> import tracejit as tj
    >>> tj.iinfo(tj.int8).min, tj.iinfo(tj.uint8).max
    (-128, 255)
    """

    _shown = ("min", "max")

    min: int
    max: int

    def __init__(self, type: DType) -> None:
        dtype = as_dtype(type)
        if dtype.category != "int":
            raise TypeError(
                f"iinfo() requires an integer input type. Use finfo to handle '{dtype!r}'"
                if dtype.is_floating_point
                else f"iinfo() requires an integer input type, not {dtype!r}"
            )
        found = np.iinfo(dtype.np)
        super().__init__(dtype, {"min": int(found.min), "max": int(found.max)})


def refuse_vast(value: int, most: int = (1 << 64) - 1) -> None:
    """Raise ``OverflowError`` for a whole number that 64 bits do not hold, ``RuntimeError`` for another over ``most``.

    >>> refuse_vast(2**64)
    Traceback (most recent call last):
    OverflowError: int too big to convert: 18446744073709551616 needs more than 64 bits
    """
    if not -(1 << 63) <= value < 1 << 64:
        raise OverflowError(f"int too big to convert: {value} needs more than 64 bits")
    if value > most:
        raise RuntimeError("value cannot be converted to type int64 without overflow")


def holds(dtype: DType, value: bool | int | float) -> bool:
    """Can ``dtype`` hold a number, rounded towards what it holds? Negative integers wrap in types without a sign.

    >>> from tracejit.dtypes import float16, int8, uint8
    >>> holds(int8, 200), holds(int8, 1.5), holds(uint8, -1), holds(uint8, -1.0)
    (False, True, True, False)
    >>> holds(float16, 1e6), holds(float16, float("inf"))
    (False, True)
    """
    if 0 <= value <= 127 or dtype.category == "bool":
        return True
    low, high = _range_of(dtype)
    if dtype.is_differentiable:
        return bool(value != value or abs(value) <= high or abs(value) == float("inf"))
    least = -high if low == 0 and isinstance(value, int) else low
    return bool(least <= value <= high)


@lru_cache
def _range_of(dtype: DType) -> tuple[Any, Any]:
    limits = finfo(dtype) if dtype.is_differentiable else iinfo(dtype)
    return limits.min, limits.max


def check_held(values: Iterable[Any], dtype: DType) -> None:
    """Raise ``RuntimeError`` where a type of whole numbers does not hold one of them."""
    for value in values:
        if not holds(dtype, value):
            if isinstance(value, float) or -(2**63) <= value < 2**63:
                raise ConversionError(
                    f"value cannot be converted to type {dtype.name} without overflow: {value}"
                )
            raise NumberError(f"Overflow when unpacking long long: {value}")
