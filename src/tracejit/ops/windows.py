"""Windows that slide over the last dimensions of an array: what convolution, pooling and unfolding share.

A window takes ``kernel`` elements, ``dilation`` apart; windows start ``stride`` apart, the first one ``padding`` before
the array's first element. Arithmetic on extents here uses operators only, so symbolic sizes go through it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..types import Shape
from .namespace import xp
from .op import Array

Pairs = tuple[tuple[int, int], ...]  # (before, after) along each dimension
Index = tuple[Any, ...]

#: Windows of more elements are not written out one element after the other.
MOST_TAPS = 64
#: Windows are added up a stride at once where that takes so much fewer steps.
_BLOCKWISE = 4
#: Bytes of temporary memory that are filled and used at a time: a piece stays in the second-level cache.
PIECE = 1 << 20
#: The same for a device, where every piece is some launches.
DEVICE_PIECE = 1 << 28


class Windows(NamedTuple):
    """How windows lie over the last ``len(kernel)`` dimensions; negative padding leaves elements out."""

    kernel: Shape
    stride: Shape
    padding: Pairs
    dilation: Shape

    def along(self, axis: int) -> Windows:
        """How they lie along one of their dimensions.

        >>> Windows((3, 2), (1, 2), ((0, 0), (1, 1)), (1, 1)).along(1)
        Windows(kernel=(2,), stride=(2,), padding=((1, 1),), dilation=(1,))
        """
        return Windows(*(attribute[axis : axis + 1] for attribute in self))  # type: ignore[arg-type]

    def only(self, axes: Collection[int]) -> Windows:
        """Windows of as many dimensions that take one element along all but these.

        >>> Windows((3, 2), (1, 2), ((0, 0), (1, 1)), (1, 1)).only([1])
        Windows(kernel=(1, 2), stride=(1, 2), padding=((0, 0), (1, 1)), dilation=(1, 1))
        """
        single = Windows((1,), (1,), ((0, 0),), (1,))
        each = [self.along(d) if d in axes else single for d in range(len(self.kernel))]
        return Windows(*(tuple(itertools.chain(*parts)) for parts in zip(*each, strict=True)))

    def reach(self) -> Shape:
        """The extents one window spans.

        >>> Windows((3, 2), (1, 1), ((0, 0), (0, 0)), (2, 1)).reach()
        (5, 2)
        """
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    def counts(self, size: Shape) -> Shape:
        """How many windows fit along each dimension of extents ``size`` (not positive: none).

        >>> Windows((3,), (2,), ((1, 1),), (1,)).counts((6,))
        (3,)
        """
        spans = zip(size, self.padding, self.reach(), self.stride, strict=True)
        return tuple((n + a + b - span) // s + 1 for n, (a, b), span, s in spans)

    def sees_all(self, size: Shape) -> bool:
        """Is there one window, and does it take every element of extents ``size``?

        >>> Windows((6,), (6,), ((0, 0),), (1,)).sees_all((6,)), Windows((3,), (3,), ((0, 0),), (1,)).sees_all((6,))
        (True, False)
        """
        dense = all(d == 1 for d in self.dilation) and not any(map(any, self.padding))
        return dense and self.kernel == tuple(size)

    def sizes(self, counts: Shape) -> Shape:
        """The extents over which ``counts`` windows fit exactly.

        >>> Windows((3,), (2,), ((1, 1),), (1,)).sizes((3,))
        (5,)
        """
        spans = zip(counts, self.padding, self.reach(), self.stride, strict=True)
        return tuple((n - 1) * s + span - a - b for n, (a, b), span, s in spans)

    def buffer(self, size: Shape) -> Shape:
        """Extents with the padding; where it is negative, windows start (or end) inside instead."""
        return tuple(
            n + max(a, 0) + max(b, 0) for n, (a, b) in zip(size, self.padding, strict=True)
        )

    def inside(self, size: Shape) -> Index:
        """The array's own place in the buffer."""
        spans = zip(size, self.padding, strict=True)
        return (..., *(slice(max(a, 0), max(a, 0) + n) for n, (a, _) in spans))

    def origin(self) -> Shape:
        """Where in the buffer the first window starts."""
        return tuple(max(-a, 0) for a, _ in self.padding)

    def taps(self, counts: Shape) -> Iterator[tuple[int, Index]]:
        """Each element of the kernel: its number, and what all windows read there, as an index of the buffer."""
        along = [
            [slice(o + i * d, o + i * d + s * (n - 1) + 1, s) for i in range(k)]
            for o, k, d, s, n in zip(
                self.origin(), self.kernel, self.dilation, self.stride, counts, strict=True
            )
        ]
        for number, index in enumerate(itertools.product(*along)):
            yield number, (..., *index)

    def view(self, buffer: Array, counts: Shape) -> Array:
        """All windows of a buffer without copying: (*leading, *kernel, *counts)."""
        start = buffer[(..., *(slice(o, None) for o in self.origin()))]
        lead = buffer.ndim - len(self.kernel)
        steps = start.strides[lead:]
        strides = (
            *start.strides[:lead],
            *(step * d for step, d in zip(steps, self.dilation, strict=True)),
            *(step * s for step, s in zip(steps, self.stride, strict=True)),
        )
        shape = (*start.shape[:lead], *self.kernel, *counts)
        return xp(buffer).lib.stride_tricks.as_strided(start, shape, strides)

    def pad(self, x: Array, value: Any = 0) -> Array:
        """The buffer that holds x, ``value`` around it; x itself without padding."""
        size = x.shape[x.ndim - len(self.kernel) :]
        extents = self.buffer(size)
        if extents == size:
            return x
        buffer = xp(x).full((*x.shape[: x.ndim - len(size)], *extents), value, x.dtype)
        buffer[self.inside(size)] = x
        return buffer

    def fold(self, windows: Array, size: Shape) -> Array:
        """The sum of (*leading, *kernel, *counts) into the places that :meth:`view` shows."""
        if windows.size and self.is_blockwise():
            return self._fold_blocks(windows, size)
        n, rank = xp(windows), len(self.kernel)
        lead, counts = windows.shape[: windows.ndim - 2 * rank], windows.shape[-rank:]
        buffer = n.zeros((*lead, *self.buffer(size)), windows.dtype)
        if windows.size:
            by_tap = windows.reshape(*lead, -1, *counts)
            for tap, index in self.taps(counts):
                place = buffer[index]
                place += by_tap[(..., tap, *(np.s_[:],) * rank)]
        return n.ascontiguousarray(buffer[self.inside(size)])

    def overlaps(self) -> Shape:
        """How many windows without gaps reach a position at most, along each dimension.

        >>> Windows((5, 4), (2, 4), ((0, 0), (0, 0)), (1, 1)).overlaps()
        (3, 1)
        """
        return tuple(-(-k // s) for k, s in zip(self.kernel, self.stride, strict=True))

    def is_blockwise(self) -> bool:
        """Are windows added up in far fewer steps if all elements of a stride are taken at once?

        >>> [Windows((k,), (4,), ((0, 0),), (1,)).is_blockwise() for k in (3, 4, 400)]
        [False, True, True]
        """
        taps, steps = math.prod(self.kernel), math.prod(self.overlaps())
        return all(d == 1 for d in self.dilation) and _BLOCKWISE * steps <= taps

    def blocks(self) -> Iterator[tuple[Shape, Shape]]:
        """The elements of the kernel by strides: how many strides from the first, and how many along each dimension.

        Elements that meet at a position come in the order of :meth:`taps`.

        >>> list(Windows((5,), (2,), ((0, 0),), (1,)).blocks())
        [((0,), (2,)), ((1,), (2,)), ((2,), (1,))]
        """
        for strides in itertools.product(*map(range, self.overlaps())):
            spans = zip(strides, self.stride, self.kernel, strict=True)
            yield strides, tuple(min(s, k - q * s) for q, s, k in spans)

    def _fold_blocks(self, windows: Array, size: Shape) -> Array:
        """:meth:`fold`, for all elements of a stride at once; the terms of each sum come in the same order."""
        n, rank = xp(windows), len(self.kernel)
        lead, counts = windows.shape[: windows.ndim - 2 * rank], windows.shape[-rank:]
        quotients = [c + o - 1 for c, o in zip(counts, self.overlaps(), strict=True)]
        pairs = itertools.chain(*zip(quotients, self.stride, strict=True))
        total = n.zeros((*lead, *pairs), windows.dtype)
        axes = itertools.chain(*((d + rank, d) for d in range(len(lead), len(lead) + rank)))
        turned = windows.transpose(*range(len(lead)), *axes)
        for strides, taps in self.blocks():
            spans = list(zip(strides, taps, counts, self.stride, strict=True))
            to = itertools.chain(*((slice(q, q + c), slice(t)) for q, t, c, _ in spans))
            of = itertools.chain(*((slice(c), slice(q * s, q * s + t)) for q, t, c, s in spans))
            total[(..., *to)] += turned[(..., *of)]
        reached = tuple(q * s for q, s in zip(quotients, self.stride, strict=True))
        laid = total.reshape(*lead, *reached)
        found = n.zeros((*lead, *size), windows.dtype)
        ends = list(zip(self.padding, size, reached, strict=True))
        ranges = [
            (max(-a, 0), max(a, 0), min(m + min(a, 0), r - max(a, 0))) for (a, _), m, r in ends
        ]
        own = tuple(slice(first, first + max(count, 0)) for first, _, count in ranges)
        there = tuple(slice(first, first + max(count, 0)) for _, first, count in ranges)
        found[(..., *own)] = laid[(..., *there)]
        return found


def piece_of(x: Array, host: int) -> int:
    """Bytes of temporary memory that work on ``x`` takes at a time: ``host`` there, more on a device."""
    return host if xp(x) is np else DEVICE_PIECE


def volume(extents: Shape) -> int:
    """The product of concrete extents."""
    return math.prod(extents)


def padded_samples(
    x: Array, windows: Windows, step: int, channels_last: bool
) -> Iterator[tuple[slice, Array]]:
    """``step`` samples of (samples, channels, *extents) at a time with their padding, in memory that is used again.

    With ``channels_last`` channels are the fastest dimension in memory; the shape is the same.
    """
    n, size = xp(x), x.shape[2:]
    extents = windows.buffer(size)
    buffer = None
    if channels_last:
        buffer = n.moveaxis(n.zeros((step, *extents, x.shape[1]), x.dtype), -1, 1)
    elif extents != size:
        buffer = n.zeros((step, x.shape[1], *extents), x.dtype)
    for first in range(0, x.shape[0], step):
        samples = slice(first, min(first + step, x.shape[0]))
        part = x[samples]
        if buffer is None:
            yield samples, part
            continue
        own = buffer[: part.shape[0]]
        own[windows.inside(size)] = part
        yield samples, own
