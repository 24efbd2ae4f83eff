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
        n, rank = xp(windows), len(self.kernel)
        lead, counts = windows.shape[: windows.ndim - 2 * rank], windows.shape[-rank:]
        buffer = n.zeros((*lead, *self.buffer(size)), windows.dtype)
        if windows.size:
            by_tap = windows.reshape(*lead, -1, *counts)
            for tap, index in self.taps(counts):
                place = buffer[index]
                place += by_tap[(..., tap, *(np.s_[:],) * rank)]
        return n.ascontiguousarray(buffer[self.inside(size)])


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
