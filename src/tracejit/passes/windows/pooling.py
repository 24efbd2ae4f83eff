"""Pooling as operations on elements: what all windows see at one element of the kernel is a slice.

Before::

    graph f(x: f32[4, 6]) {
        %0: f32[4, 3] = max_windows(x, kernel=(2,), stride=(2,), padding=((0, 0),), dilation=(1,))
        return %0
    }

After::

    graph f(x: f32[4, 6]) {
        %0: f32[4, 3] = slice(x, starts=(0, 0), counts=(4, 3), steps=(1, 2))
        %1: f32[4, 3] = slice(x, starts=(0, 1), counts=(4, 3), steps=(1, 2))
        %2: f32[4, 3] = maximum(%1, %0)
        return %2
    }

One kernel computes that, and what comes before and after joins it. Elements are taken in the order of eager execution,
so results are the same bits. The transposes are written by :mod:`.spreading`, sums at fixed
places by :mod:`.resampling`. Runs on graphs that are
not differentiated any more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ...ir.graph import Graph, Value
from ...ops.overlapping import windows
from ...ops.shapes import numel
from ..rewrite import Rewriter, Rules
from ..simplify.moves import together
from . import resampling, spreading, whole_windows
from .sights import Sights, number_of, sights_of

#: Up to so many elements of a kernel are combined in one expression, more of them one dimension at a time.
MOST_AT_ONCE = 16

Combine = Callable[[Value, Value], Value]


def pooling(graph: Graph) -> Graph:
    """``graph`` with pooling over small windows written out.

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f(x: f32[4, 6]) {
    ...     %0: f32[4, 3] = max_windows(x, kernel=(2,), stride=(2,), padding=((0, 0),), dilation=(1,))
    ...     return %0
    ... }''')
    >>> [v.op.name for v in pooling(graph).values]
    ['slice', 'slice', 'maximum']
    """
    if not any(v.op is not None and v.op.name in _WRITTEN_OUT for v in graph.values):
        return graph
    return Rewriter(graph.name, _WRITTEN_OUT).run(graph)


# --- the largest element ---------------------------------------------------------------------------


def _max(rewriter: Rewriter, value: Value) -> Value | None:
    sights = sights_of(rewriter, value)
    if sights is None:
        return None
    x = value.value_operands[0]
    axes = tuple(reversed(range(sights.rank)))  # as eager execution takes them
    number = _lowest(x)

    def combine(part: Value, total: Value) -> Value:
        return sights.write("maximum", part, total)  # of equal elements the earlier one stays

    return _combined(sights, x, axes, combine, number)


def _argmax(rewriter: Rewriter, value: Value) -> Value | None:
    """A scan of the window: a larger element, or a NaN, takes the place of what was found before."""
    sights = sights_of(rewriter, value)
    if sights is None:
        return None
    x = value.value_operands[0]
    source = sights.padded(x, _lowest(x))
    best: Value | None = None
    numbers = _first_inside(sights, value)
    for number, tap in enumerate(sights.taps()):
        part = sights.seen(source, tap)
        if best is None:
            best = part
            continue
        larger = sights.write("gt", part, best)
        if x.spec.dtype.is_floating_point:
            larger = sights.write("logical_or", larger, sights.write("isnan", part))
        numbers = sights.write("where", larger, number, numbers)
        best = sights.write("where", larger, part, best)
    if numbers.spec != value.spec:
        numbers = sights.write("expand", numbers, shape=value.spec.shape)
    return numbers


def _lowest(x: Value) -> Any:
    """What padding holds."""
    dtype = x.spec.dtype
    return -math.inf if dtype.is_floating_point else int(np.iinfo(dtype.np).min)


def _first_inside(sights: Sights, value: Value) -> Value:
    """The number of each window's first element that is no padding."""
    windows, rank = sights.windows, sights.rank
    counts = value.spec.shape[value.spec.ndim - rank :]
    ones = (1,) * rank
    first: Value | None = None
    for axis, (k, s, d, (before, _)) in enumerate(
        zip(windows.kernel, windows.stride, windows.dilation, windows.padding, strict=True)
    ):
        if first is not None:
            first = sights.write("mul", first, k)
        if before <= 0 or k == 1:
            continue
        attributes = {"start": before, "step": -s, "count": counts[axis], "dtype": dtypes.int32}
        along = _skipped(sights, sights.write("arange", **attributes), k, d)
        shape = (*ones[:axis], counts[axis], *ones[axis + 1 :])
        along = sights.write("reshape", along, shape=shape)
        first = along if first is None else sights.write("add", first, along)
    if first is None:
        return number_of(sights.rewriter, value, 0)
    return sights.write("cast", first, dtype=value.spec.dtype)


def _skipped(sights: Sights, left: Value, kernel: int, dilation: int) -> Value:
    """How many elements of a kernel lie in so much padding; not all of them."""
    if dilation == 1:
        return sights.write("minimum", sights.write("maximum", left, 0), kernel - 1)
    total: Value | None = None
    for tap in range(kernel - 1):
        one = sights.write("cast", sights.write("gt", left, tap * dilation), dtype=left.spec.dtype)
        total = one if total is None else sights.write("add", total, one)
    assert total is not None
    return total


def _pick(rewriter: Rewriter, value: Value) -> Value | None:
    sights = sights_of(rewriter, value)
    if sights is None:
        return None
    x, numbers = value.value_operands
    source = sights.padded(x, 0)
    found = number_of(rewriter, value, 0)
    for number, tap in enumerate(sights.taps()):
        here = sights.write("eq", numbers, number)
        found = sights.write("where", here, sights.seen(source, tap), found)
    return found


# --- sums ------------------------------------------------------------------------------------------


def _sum(rewriter: Rewriter, value: Value) -> Value | None:
    sights = sights_of(rewriter, value)
    if sights is None:
        return None
    x = sights.wide(value.value_operands[0])

    def combine(part: Value, total: Value) -> Value:
        return sights.write("add", part, total)

    found = _combined(sights, x, tuple(range(sights.rank)), combine, 0)
    return sights.narrow(found, value.spec.dtype)


def _combined(
    sights: Sights, x: Value, axes: Sequence[int], combine: Combine, number: Any
) -> Value:
    """Windows combined along their dimensions, one after the other, in this order."""
    at_once = numel(sights.windows.kernel) <= MOST_AT_ONCE
    for some in [tuple(axes)] if at_once else [(axis,) for axis in axes]:
        part = sights.only(some)
        x = _nested(part, part.padded(x, number), some, {}, combine)
    return x


def _nested(
    sights: Sights, x: Value, axes: Sequence[int], tap: dict[int, int], combine: Combine
) -> Value:
    """What is combined along the last of ``axes`` is combined along those before it."""
    if not axes:
        return sights.seen(x, tuple(tap.get(axis, 0) for axis in range(sights.rank)))
    total: Value | None = None
    for number in range(sights.windows.kernel[axes[-1]]):
        part = _nested(sights, x, axes[:-1], {**tap, axes[-1]: number}, combine)
        total = part if total is None else combine(part, total)
    assert total is not None
    return total


def _unfold(rewriter: Rewriter, value: Value) -> Value:
    """Windows are read where they lie, by kernels at least; less than no padding cuts off."""
    (x,), attributes = value.value_operands, dict(value.attributes)
    padding = attributes.pop("padding")
    padding = ((0, 0),) * (x.spec.ndim - len(padding)) + tuple(padding)
    cut = [(max(-a, 0), max(-b, 0)) for a, b in padding]
    if any(map(any, cut)):
        counts = tuple(n - a - b for n, (a, b) in zip(x.spec.shape, cut, strict=True))
        starts, steps = tuple(a for a, _ in cut), (1,) * x.spec.ndim
        x = rewriter.write("slice", (x,), value.line, starts=starts, counts=counts, steps=steps)
    around = tuple((max(a, 0), max(b, 0)) for a, b in padding)
    if any(map(any, around)):
        x = rewriter.write("pad", (x,), value.line, widths=around, value=0)
    return rewriter.write(windows, (x,), value.line, **attributes)


RULES: Rules = {
    "max_windows": (_max,),
    "argmax_windows": (_argmax,),
    "pick_windows": (_pick,),
    "sum_windows": (_sum,),
    "unfold_windows": (_unfold,),
}
ALL_RULES: Rules = together(RULES, spreading.RULES, whole_windows.RULES)
_WRITTEN_OUT: Rules = together(ALL_RULES, resampling.RULES)
