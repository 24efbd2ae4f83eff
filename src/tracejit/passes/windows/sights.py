"""Sights: what all windows see at one element of their kernel, as slices of what they lie over.

Shared by the passes that write windows out as operations on elements.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from typing import Any

from ... import dtypes
from ...dtypes import DType
from ...extents import is_symbolic
from ...ir.graph import Value
from ...ops.shapes import numel
from ...ops.source import full
from ...ops.windows import MOST_TAPS, Windows
from ...types import Scalar, Shape
from ..rewrite import Rewriter


class Sights:
    """Windows over the last dimensions of values, and a writer of operations on them."""

    def __init__(self, rewriter: Rewriter, value: Value, windows: Windows) -> None:
        self.rewriter = rewriter
        self.value = value
        self.windows = windows
        self.rank = len(windows.kernel)

    def write(self, name: str, /, *operands: Any, **attributes: Any) -> Value:
        """An operation that belongs to the user's line."""
        return self.rewriter.write(name, operands, self.value.line, **attributes)

    def only(self, axes: Collection[int]) -> Sights:
        """Windows along some of the dimensions, of one element along the others."""
        return Sights(self.rewriter, self.value, self.windows.only(axes))

    def taps(self) -> Iterator[tuple[int, ...]]:
        """The elements of the kernel, in order."""
        return itertools.product(*map(range, self.windows.kernel))

    def padded(self, x: Value, number: Scalar) -> Value:
        """``x`` with ``number`` around it, as far as windows reach."""
        widths = tuple((_positive(a), _positive(b)) for a, b in self.windows.padding)
        if all(a == 0 and b == 0 for a, b in widths):
            return x
        lead = ((0, 0),) * (x.spec.ndim - self.rank)
        return self.write("pad", x, widths=(*lead, *widths), value=number)

    def seen(self, x: Value, tap: Shape) -> Value:
        """What all windows over a padded value see at one element of the kernel."""
        lead = x.spec.ndim - self.rank
        w = self.windows
        starts = (o + t * d for o, t, d in zip(w.origin(), tap, w.dilation, strict=True))
        padding = tuple((min(a, 0), min(b, 0)) for a, b in w.padding)
        counts = w._replace(padding=padding).counts(x.spec.shape[lead:])
        return self.write(
            "slice",
            x,
            starts=((0,) * lead) + tuple(starts),
            counts=(*x.spec.shape[:lead], *counts),
            steps=((1,) * lead) + w.stride,
        )

    def wide(self, x: Value) -> Value:
        """Half precision is added up in float32."""
        return self.write("cast", x, dtype=dtypes.float32) if x.spec.dtype.is_half else x

    def narrow(self, x: Value, dtype: DType) -> Value:
        """Back in the dtype of the result."""
        return x if x.spec.dtype is dtype else self.write("cast", x, dtype=dtype)


def _positive(width: Any) -> Any:
    return max(width, 0)


def is_small(value: Value) -> bool:
    """Have the windows of a pooling op few elements each, and steps that are plain numbers?"""
    windows = Windows(*(value.attributes[name] for name in Windows._fields))
    before = [a for a, _ in windows.padding]
    steps = (*windows.kernel, *windows.stride, *windows.dilation, *before)
    return not any(map(is_symbolic, steps)) and 0 < numel(windows.kernel) <= MOST_TAPS


def sights_of(rewriter: Rewriter, value: Value) -> Sights | None:
    """The windows of a pooling op, if they can be written out."""
    if not is_small(value) or any(x.spec.numel == 0 for x in (value, *value.value_operands)):
        return None
    windows = Windows(*(value.attributes[name] for name in Windows._fields))
    return Sights(rewriter, value, windows)


def number_of(rewriter: Rewriter, like: Value, number: Scalar) -> Value:
    """A constant of the type of ``like``."""
    attributes = {"shape": like.spec.shape, "value": number, "dtype": like.spec.dtype}
    return rewriter.builder.emit(full, (), attributes, like.line)
