"""Scans of windows: which element of each is the largest one, as PyTorch finds it.

A larger element or a NaN takes the place of what was found before: the first of equal elements wins, and the last NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..types import Shape
from .namespace import xp
from .op import Array
from .windows import Windows


def lowest(x: Array) -> Any:
    """A number no element of x is below: what padding holds.

    >>> lowest(np.zeros(1, np.int8))
    -128
    """
    return np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf


def numbers_of_largest(x: Array, windows: Windows, dtype: Any) -> Array:
    """The number of each window's largest element among those of the kernel.

    >>> windows = Windows((3,), (3,), ((0, 0),), (1,))
    >>> numbers_of_largest(np.array([[1.0, 2.0, 2.0, np.nan, 0.0, np.nan]]), windows, np.dtype("u1"))
    array([[1, 2]], dtype=uint8)
    """
    n = xp(x)
    size = x.shape[x.ndim - len(windows.kernel) :]
    if windows.sees_all(size) and x.size:
        found = _first_of_rows(rows_of(x, size)).astype(dtype)
        return found.reshape(*lead_of(x, size), *(1,) * len(size))
    numbers, best = _scan(x, windows, dtype, False)
    if x.dtype.kind not in "iu" and n.isnan(best).any():
        numbers, best = _scan(x, windows, dtype, True)
    if windows.buffer(size) != size and (best == lowest(x)).any():
        _leave_padding(numbers, best, windows, lowest(x))
    return numbers


def lead_of(x: Array, size: Shape) -> Shape:
    """The extents before those of the windows.

    >>> lead_of(np.zeros((5, 2, 3)), (2, 3))
    (5,)
    """
    lead: Shape = x.shape[: x.ndim - len(size)]
    return lead


def rows_of(x: Array, size: Shape) -> Array:
    """The last extents, those of windows, as one.

    >>> rows_of(np.zeros((5, 2, 3)), (2, 3)).shape
    (5, 6)
    """
    return x.reshape(*lead_of(x, size), -1)


def _first_of_rows(x: Array) -> Array:
    """The position of each row's first largest element, or last NaN."""
    n = xp(x)
    found = x.argmax(-1)
    if x.dtype.kind not in "iu":
        nan = n.isnan(x)
        if nan.any():
            last = x.shape[-1] - 1 - nan[..., ::-1].argmax(-1)
            found = n.where(nan.any(-1), last, found)
    return found


def _scan(x: Array, windows: Windows, dtype: Any, nans: bool) -> tuple[Array, Array]:
    """The number and the value of each window's largest element; with ``nans`` each NaN counts as larger."""
    n = xp(x)
    source = windows.pad(x, lowest(x))
    counts = windows.counts(x.shape[x.ndim - len(windows.kernel) :])
    best = numbers = None
    for tap, index in windows.taps(counts):
        part = source[index]
        if best is None:
            best, numbers = part.copy(), n.zeros(part.shape, dtype)
            continue
        larger = part > best
        if nans:
            larger |= part != part
        n.maximum(best, part, out=best)
        n.maximum(numbers, larger * dtype.type(tap), out=numbers)  # the last one to be larger
    return numbers, best


def _leave_padding(numbers: Array, best: Array, windows: Windows, value: Any) -> None:
    """Windows of lowest values only: the first element that is not padding, as a scan of the window finds it."""
    n = xp(numbers)
    first: Any = n.zeros((), numbers.dtype)
    counts = best.shape[best.ndim - len(windows.kernel) :]
    for axis, count in enumerate(counts):
        one = windows.along(axis)
        before = n.maximum(one.padding[0][0] - n.arange(count) * one.stride[0], 0)
        along = n.minimum(-(-before // one.dilation[0]), one.kernel[0] - 1)
        first = first[..., None] * one.kernel[0] + along
    n.copyto(numbers, first.astype(numbers.dtype), where=best == value)
