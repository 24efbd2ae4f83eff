"""Pooling over windows that are everything there is: a maximum over the last dimensions.

Before::

    graph f(x: f32[4, 100]) {
        %0: f32[4, 1] = max_windows(x, kernel=(100,), stride=(100,), padding=((0, 0),), dilation=(1,))
        return %0
    }

After::

    graph f(x: f32[4, 100]) {
        %0: f32[4, 1] = amax(x, dims=(1,), keepdim=True)
        return %0
    }

For windows that are too large to be written out one element after the other, of any size: see
:mod:`.pooling`, of which this is a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import dtypes
from ...ir.graph import Value
from ...ops.shapes import numel
from ...types import Shape
from ..rewrite import Rewriter, Rules
from .sights import is_small
from .strips import equal


class _Whole:
    """Windows of one value that see all of ``size``, and a writer of operations."""

    def __init__(self, rewriter: Rewriter, value: Value, lead: Shape, size: Shape) -> None:
        self.rewriter = rewriter
        self.value = value
        self.lead = lead
        self.count = numel(size)

    def write(self, name: str, /, *operands: Any, **attributes: Any) -> Value:
        """An operation that belongs to the user's line."""
        return self.rewriter.write(name, operands, self.value.line, **attributes)

    def rows(self, x: Value) -> Value:
        """The elements of every window as a last dimension."""
        return self.write("reshape", x, shape=(*self.lead, self.count))

    def column(self, x: Value) -> Value:
        """What there is one of for every window."""
        return self.write("reshape", x, shape=(*self.lead, 1))

    def places(self) -> Value:
        """The number of each element."""
        return self.write("arange", start=0, step=1, count=self.count, dtype=dtypes.int32)

    def over(self, name: str, x: Value) -> Value:
        """A reduction of rows."""
        return self.write(name, x, dims=(len(self.lead),), keepdim=True)


def _whole(rewriter: Rewriter, value: Value, shape: Shape, counts: Sequence[Any]) -> _Whole | None:
    """The windows of a pooling op over a value of ``shape``, if each of them sees everything."""
    attributes = value.attributes
    kernel = attributes["kernel"]
    lead, size = shape[: len(shape) - len(kernel)], shape[len(shape) - len(kernel) :]
    if is_small(value) or not equal(kernel, size) or not all(equal(n, 1) for n in counts):
        return None
    if any(a != 0 or b != 0 for a, b in attributes["padding"]):
        return None
    if any(d != 1 for d in attributes["dilation"]):
        return None
    if any(x.spec.numel == 0 for x in (value, *value.value_operands)):
        return None
    return _Whole(rewriter, value, lead, size)


def _pooled(rewriter: Rewriter, value: Value) -> _Whole | None:
    shape, rank = value.value_operands[0].spec.shape, len(value.attributes["kernel"])
    return _whole(rewriter, value, shape, value.spec.shape[value.spec.ndim - rank :])


def _max(rewriter: Rewriter, value: Value) -> Value | None:
    whole = _pooled(rewriter, value)
    if whole is None:
        return None
    found = whole.over("amax", whole.rows(value.value_operands[0]))
    return whole.write("reshape", found, shape=value.spec.shape)


def _argmax(rewriter: Rewriter, value: Value) -> Value | None:
    """The first of the largest elements, or the last NaN."""
    whole = _pooled(rewriter, value)
    if whole is None:
        return None
    x, places = whole.rows(value.value_operands[0]), whole.places()
    best = whole.over("amax", x)
    found = whole.over("amin", whole.write("where", whole.write("eq", x, best), places, 2**31 - 1))
    if x.spec.dtype.is_floating_point:
        nan = whole.write("where", whole.write("isnan", x), places, -1)
        last = whole.over("amax", nan)
        found = whole.write("where", whole.write("ge", last, 0), last, found)
    found = whole.write("cast", found, dtype=value.spec.dtype)
    return whole.write("reshape", found, shape=value.spec.shape)


def _put(rewriter: Rewriter, value: Value) -> Value | None:
    x, numbers = value.value_operands
    rank = len(value.attributes["kernel"])
    whole = _whole(rewriter, value, value.spec.shape, x.spec.shape[x.spec.ndim - rank :])
    if whole is None:
        return None
    zero = 0.0 if x.spec.dtype.is_floating_point else 0
    number = whole.write("cast", whole.column(numbers), dtype=dtypes.int32)
    here = whole.write("eq", number, whole.places())
    found = whole.write("where", here, whole.column(x), zero)
    found = whole.write("add", found, zero)
    return whole.write("reshape", found, shape=value.spec.shape)


RULES: Rules = {"max_windows": (_max,), "argmax_windows": (_argmax,), "put_windows": (_put,)}
