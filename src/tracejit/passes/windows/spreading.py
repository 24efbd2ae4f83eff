"""Transposed windows as operations on elements: each element of the result gathers what windows leave there.

Before::

    graph f(x: f32[4, 3], n: u8[4, 3]) {
        %0: f32[4, 6] = put_windows(x, n, size=(6,), kernel=(2,), stride=(2,), padding=((0, 0),), dilation=(1,))
        return %0
    }

After::

    graph f(x: f32[4, 3], n: u8[4, 3]) {
        %0: bool[4, 3] = eq(n, 0)
        %1: f32[4, 3] = where(%0, x, 0.0)
        %2: f32[4, 3] = add(%1, 0.0)
        %3: f32[4, 3, 1] = unsqueeze(%2, dims=(2,))
        %4: bool[4, 3] = eq(n, 1)
        %5: f32[4, 3] = where(%4, x, 0.0)
        %6: f32[4, 3] = add(%5, 0.0)
        %7: f32[4, 3, 1] = unsqueeze(%6, dims=(2,))
        %8: f32[4, 3, 2] = cat(%3, %7, dim=2)
        %9: f32[4, 6] = reshape(%8, shape=(4, 6))
        return %9
    }

Windows ``stride`` apart leave at every ``stride``-th position what the same elements of the kernel see: such positions
are one slice of the result. Where windows overlap, their elements are added in the order of eager execution, so results
are the same bits. Part of :mod:`.pooling`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...dtypes import DType
from ...extents import is_symbolic
from ...ir.graph import Value
from ...ops.shapes import numel
from ...ops.windows import MOST_TAPS, Windows
from ...types import Shape
from ..rewrite import Rewriter, Rules
from .sights import Sights, sights_of
from .strips import at_most, equal

#: What windows leave, by element of the kernel and by how far the windows are from the quotients of positions.
Term = Callable[[Shape, Shape], Value]


class _Axis(NamedTuple):
    """How positions along a dimension see windows.

    ``classes`` has for each remainder of a position by the stride the elements of the kernel that lie there, with the
    distance from their window to the quotient of the position; ``count`` quotients are made, and windows are needed
    up to ``before`` in front of the first one and ``after`` behind the last one.
    """

    classes: tuple[tuple[tuple[int, int], ...], ...]
    count: Any
    before: int
    after: Any


def _axis(kernel: int, stride: int, dilation: int, pad: int, size: Any, windows: Any) -> _Axis:
    """The dimension of extent ``size`` over which so many windows lie."""
    classes: list[list[tuple[int, int]]] = [[] for _ in range(stride)]
    for tap in range(kernel):
        quotient, rest = divmod(tap * dilation - pad, stride)
        classes[rest].append((tap, quotient))
    shifts = [shift for some in classes for _, shift in some]
    before, low = max(0, *shifts), min(0, *shifts)
    count = -(-size // stride)
    if at_most(windows + before, count):
        count = windows + before
    after = count - low - windows
    return _Axis(tuple(map(tuple, classes)), count, before, 0 if at_most(after, 0) else after)


class _Spreading:
    """Windows of ``counts`` that leave something over extents ``size``, of a dtype."""

    def __init__(self, sights: Sights, size: Shape, counts: Shape, dtype: DType) -> None:
        self.sights = sights
        self.dtype = dtype
        self.size = size
        w = sights.windows
        parts = zip(w.kernel, w.stride, w.dilation, w.padding, size, counts, strict=True)
        self.axes = [_axis(k, s, d, a, n, c) for k, s, d, (a, _), n, c in parts]

    @property
    def overlaps(self) -> bool:
        """Can two windows leave something at one position?"""
        return any(len(some) > 1 for axis in self.axes for some in axis.classes)

    def padded(self, x: Value) -> Value:
        """``x`` with zeros where there is no window."""
        widths = tuple((axis.before, axis.after) for axis in self.axes)
        if all(a == 0 and b == 0 for a, b in widths):
            return x
        lead = ((0, 0),) * (x.spec.ndim - len(widths))
        return self.sights.write("pad", x, widths=(*lead, *widths), value=0)

    def read(self, x: Value, shifts: Shape, lead: Shape, first: int = 0) -> Value:
        """The windows of a padded value that are so far from the quotients of positions.

        Where it has one more dimension than ``lead`` and the windows, that is read at ``first``.
        """
        starts = tuple(axis.before - c for axis, c in zip(self.axes, shifts, strict=True))
        extra = x.spec.ndim - len(lead) - len(starts)
        at, one = (first,) * extra, (1,) * extra
        seen = self.sights.write(
            "slice",
            x,
            starts=((0,) * len(lead)) + at + starts,
            counts=(*lead, *one, *(axis.count for axis in self.axes)),
            steps=(1,) * x.spec.ndim,
        )
        return self.sights.write("squeeze", seen, dims=(len(lead),)) if extra else seen

    def gathered(self, lead: Shape, term: Term) -> Value:
        """The sums of what windows leave, as one value of (\\*lead, \\*size)."""
        found = self._stacked(lead, term, ())
        extents = tuple(axis.count * len(axis.classes) for axis in self.axes)
        found = self.sights.write("reshape", found, shape=(*lead, *extents))
        return _placed(self.sights, found, self.size, (0,) * len(self.axes))

    def _stacked(self, lead: Shape, term: Term, rests: tuple[int, ...]) -> Value:
        """(\\*lead, quotients, remainders, ...) for the first remainders given."""
        depth = len(rests)
        if depth == len(self.axes):
            dims = tuple(len(lead) + 2 * axis + 1 for axis in range(depth))
            return self.sights.write("unsqueeze", self._sum(lead, term, rests), dims=dims)
        stride = len(self.axes[depth].classes)
        parts = [self._stacked(lead, term, (*rests, rest)) for rest in range(stride)]
        if stride == 1:
            return parts[0]
        return self.sights.write("cat", *parts, dim=len(lead) + 2 * depth + 1)

    def _sum(self, lead: Shape, term: Term, rests: tuple[int, ...]) -> Value:
        """What all windows leave at positions with these remainders."""
        total: Value | None = None
        options = (axis.classes[rest] for axis, rest in zip(self.axes, rests, strict=True))
        for some in itertools.product(*options):
            part = term(tuple(tap for tap, _ in some), tuple(shift for _, shift in some))
            zero = 0.0 if part.spec.dtype.is_floating_point else 0
            total = self.sights.write("add", part, zero if total is None else total)
        if total is not None:
            return self.sights.narrow(total, self.dtype)
        shape = (*lead, *(axis.count for axis in self.axes))
        attributes = {"shape": shape, "value": 0, "dtype": self.dtype}
        return self.sights.write("full", **attributes)


def _spreading(rewriter: Rewriter, value: Value) -> _Spreading | None:
    """The windows that a value gathers from, if they can be written out."""
    sights = sights_of(rewriter, value)
    if sights is None:
        return None
    shape = value.value_operands[0].spec.shape
    counts = shape[len(shape) - sights.rank :]
    return _Spreading(sights, value.attributes["size"], counts, value.spec.dtype)


def _lead(value: Value) -> Shape:
    """The dimensions before those of the windows."""
    return value.spec.shape[: value.spec.ndim - len(value.attributes["kernel"])]


def _put(rewriter: Rewriter, value: Value) -> Value | None:
    spreading = _spreading(rewriter, value)
    if spreading is None:
        return None
    sights, lead = spreading.sights, _lead(value)
    x, numbers = value.value_operands
    given, told = spreading.padded(sights.wide(x)), spreading.padded(numbers)
    order = {tap: number for number, tap in enumerate(sights.taps())}
    zero = 0.0 if x.spec.dtype.is_floating_point else 0

    def term(tap: Shape, shifts: Shape) -> Value:
        here = sights.write("eq", spreading.read(told, shifts, lead), order[tap])
        return sights.write("where", here, spreading.read(given, shifts, lead), zero)

    return spreading.gathered(lead, term)


def _spread(rewriter: Rewriter, value: Value) -> Value | None:
    """Windows that do not overlap at once, others one dimension after the other."""
    whole = _spreading(rewriter, value)
    if whole is None:
        return None
    sights, lead, size = whole.sights, _lead(value), whole.size
    found = sights.wide(value.value_operands[0])
    every = tuple(range(sights.rank))
    for axes in [(axis,) for axis in every] if whole.overlaps else [every]:
        counts = found.spec.shape[len(lead) :]
        extents = tuple(size[a] if a in axes else n for a, n in enumerate(counts))
        part = _Spreading(sights.only(axes), extents, counts, found.spec.dtype)
        found = part.gathered(lead, _reading(part, part.padded(found), lead))
    return sights.narrow(found, value.spec.dtype)


def _reading(spreading: _Spreading, given: Value, lead: Shape) -> Term:
    """Windows leave the same at every element of the kernel."""
    return lambda _, shifts: spreading.read(given, shifts, lead)


def _fold_blocks(rewriter: Rewriter, value: Value) -> Value | None:
    """Windows without gaps, added up a stride at once: all elements so many strides from their window's first."""
    windows = Windows(*(value.attributes[name] for name in Windows._fields))
    numbers = (
        *windows.kernel,
        *windows.stride,
        *windows.dilation,
        *itertools.chain(*windows.padding),
    )
    x = value.value_operands[0]
    if any(map(is_symbolic, numbers)) or any(v.spec.numel == 0 for v in (value, x)):
        return None
    if not windows.is_blockwise() or math.prod(windows.overlaps()) > MOST_TAPS:
        return None
    sights, lead, rank = Sights(rewriter, value, windows), len(_lead(value)), len(windows.kernel)
    axes = itertools.chain(*((lead + rank + d, lead + d) for d in range(rank)))
    turned = sights.write("permute", x, dims=(*range(lead), *axes))
    total: Value | None = None
    for strides, taps in windows.blocks():
        part = _block(sights, turned, strides, taps)
        zero = 0.0 if part.spec.dtype.is_floating_point else 0
        total = sights.write("add", part, zero if total is None else total)
    assert total is not None
    extents = total.spec.shape[lead:]
    reached = (a * b for a, b in zip(extents[::2], extents[1::2], strict=True))
    shape = (*total.spec.shape[:lead], *reached)
    laid = sights.write("reshape", sights.narrow(total, value.spec.dtype), shape=shape)
    return _placed(sights, laid, value.attributes["size"], tuple(a for a, _ in windows.padding))


def _block(sights: Sights, turned: Value, strides: Shape, taps: Shape) -> Value:
    """The elements so many strides from the first of their windows, at their positions: (*lead, quotient, rest, ...).

    ``turned`` are the windows as (*lead, windows, kernel, ...).
    """
    w, lead = sights.windows, turned.spec.ndim - 2 * sights.rank
    counts = turned.spec.shape[lead::2]
    starts = itertools.chain(*((0, q * s) for q, s in zip(strides, w.stride, strict=True)))
    extents = itertools.chain(*zip(counts, taps, strict=True))
    part = sights.write(
        "slice",
        turned,
        starts=((0,) * lead) + tuple(starts),
        counts=(*turned.spec.shape[:lead], *extents),
        steps=(1,) * turned.spec.ndim,
    )
    spans = zip(strides, w.overlaps(), taps, w.stride, strict=True)
    around = itertools.chain(*(((q, o - 1 - q), (0, s - t)) for q, o, t, s in spans))
    widths = (((0, 0),) * lead) + tuple(around)
    part = sights.wide(part)
    return sights.write("pad", part, widths=widths, value=0) if any(map(any, widths)) else part


def _placed(sights: Sights, laid: Value, size: Shape, first: Shape) -> Value:
    """What windows leave, over extents ``size`` that begin at ``first``; zeros where nothing reaches."""
    ndim, lead = laid.spec.ndim, laid.spec.ndim - len(size)
    reached = laid.spec.shape[lead:]
    ends = zip(first, size, reached, strict=True)
    own = [n + min(a, 0) if at_most(n + a, r) else r - max(a, 0) for a, n, r in ends]
    if any(a > 0 for a in first) or not all(map(equal, own, reached)):
        starts = ((0,) * lead) + tuple(max(a, 0) for a in first)
        counts = (*laid.spec.shape[:lead], *own)
        laid = sights.write("slice", laid, starts=starts, counts=counts, steps=(1,) * ndim)
    before = [max(-a, 0) for a in first]
    if all(a == 0 and equal(o, n) for a, o, n in zip(before, own, size, strict=True)):
        return laid
    missing = ((a, n - a - o) for a, o, n in zip(before, own, size, strict=True))
    return sights.write("pad", laid, widths=(*((0, 0),) * lead, *missing), value=0)


def _fold(rewriter: Rewriter, value: Value) -> Value | None:
    found = _fold_blocks(rewriter, value)
    if found is not None:
        return found
    spreading = _spreading(rewriter, value)
    if spreading is None:
        return None
    sights, lead = spreading.sights, _lead(value)
    x = value.value_operands[0]
    counts = x.spec.shape[x.spec.ndim - sights.rank :]
    laid = sights.write("reshape", x, shape=(*lead, numel(sights.windows.kernel), *counts))
    given = spreading.padded(sights.wide(laid))
    order = {tap: number for number, tap in enumerate(sights.taps())}

    def term(tap: Shape, shifts: Shape) -> Value:
        return spreading.read(given, shifts, lead, order[tap])

    return spreading.gathered(lead, term)


RULES: Rules = {
    "put_windows": (_put,),
    "spread_windows": (_spread,),
    "fold_windows": (_fold,),
}
