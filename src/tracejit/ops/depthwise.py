"""Convolution with one input channel per group: scaled copies of the input are added, there is no matrix to multiply.

Where windows lie one after the other, whole padded planes are taken as vectors: the elements between the rows of the
result are computed too and left out at the end, which costs less than many short rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..types import Shape
from .namespace import xp
from .op import Array
from .windows import PIECE, Index, Windows, padded_samples, piece_of, volume


def depthwise_forward(x: Array, weight: Array, windows: Windows, counts: Shape) -> Array:
    """The sum over the kernel of x's windows times the weight, group by group."""
    n, groups = xp(x), x.shape[1]
    out = n.empty((x.shape[0], weight.shape[0], *counts), x.dtype)
    target = out.reshape(out.shape[0], groups, weight.shape[0] // groups, *counts)
    plane = _Plane(windows, counts, x.shape[2:])
    ones = (1,) * len(plane.shape)
    factors = weight.reshape(groups, target.shape[2], volume(windows.kernel), *ones)
    for samples, source in _sources(x, windows, plane):
        shape = (*target[samples].shape[:3], *plane.shape)
        total, scratch = n.empty(shape, x.dtype), n.empty(shape, x.dtype)
        for tap, index in plane.taps():
            if tap == 0:
                n.multiply(source[index], factors[:, :, 0], out=total)
            else:
                n.multiply(source[index], factors[:, :, tap], out=scratch)
                total += scratch
        target[samples] = plane.visible(total)
    return out


def depthwise_weight(x: Array, y: Array, windows: Windows, shape: Shape) -> Array:
    """The weight-shaped sum over samples and positions of x's windows times y."""
    n, groups, counts = xp(x), x.shape[1], y.shape[2:]
    per_group = shape[0] // groups
    by_group = y.reshape(y.shape[0], groups, per_group, *counts)
    plane = _Plane(windows, counts, x.shape[2:])
    total = _tap_totals(x, by_group, windows, plane)
    if plane.flat and n.isnan(total).any():  # of elements between the rows of the result too
        plane = _Plane(windows, counts, x.shape[2:], flat=False)
        total = _tap_totals(x, by_group, windows, plane)
    return n.ascontiguousarray(n.moveaxis(total, 0, -1)).reshape(shape)


def _tap_totals(x: Array, by_group: Array, windows: Windows, plane: _Plane) -> Array:
    """The sums of what each tap sees times y, tap by tap: (taps, groups, outputs of a group)."""
    n = xp(x)
    total = n.zeros((volume(windows.kernel), *by_group.shape[1:3]), x.dtype)
    for samples, source in _sources(x, windows, plane):
        part = by_group[samples]
        spread = n.zeros((*part.shape[:3], *plane.shape), x.dtype)
        plane.visible(spread)[...] = part
        axes = "abcdef"[: len(plane.shape)]
        for tap, index in plane.taps():
            total[tap] += n.einsum(f"sg{axes},sgo{axes}->go", source[index][:, :, 0], spread)
    return total


class _Plane:
    """How the windows of one channel are walked: as a vector when they lie side by side, else along each dimension."""

    def __init__(self, windows: Windows, counts: Shape, size: Shape, flat: bool = True) -> None:
        self.windows = windows
        self.counts = counts
        self.flat = flat and all(s == 1 for s in windows.stride)
        extents = windows.buffer(size)
        self.steps = tuple(volume(extents[d + 1 :]) for d in range(len(extents)))
        last = sum((n - 1) * step for n, step in zip(counts, self.steps, strict=True))
        self.shape = (last + 1,) if self.flat else counts

    def taps(self) -> Iterator[tuple[int, Index]]:
        """Each element of the kernel, and what all windows read there."""
        for tap, index in self.windows.taps(self.counts):
            if not self.flat:
                yield tap, index
                continue
            pairs = zip(index[1:], self.steps, strict=True)
            start = sum(piece.start * step for piece, step in pairs)
            yield tap, (..., slice(start, start + self.shape[0]))

    def visible(self, walked: Array) -> Array:
        """The elements of the result among those walked over, as a view."""
        if not self.flat:
            return walked
        strides = tuple(step * walked.itemsize for step in self.steps)
        shape = (*walked.shape[:-1], *self.counts)
        return xp(walked).lib.stride_tricks.as_strided(
            walked, shape, (*walked.strides[:-1], *strides)
        )


def _sources(x: Array, windows: Windows, plane: _Plane) -> Iterator[tuple[slice, Array]]:
    """A few samples at a time with their padding: (samples, groups, 1, ...), planes as vectors if so walked."""
    bytes_each = x.shape[1] * volume(windows.buffer(x.shape[2:])) * x.itemsize
    step = min(max(piece_of(x, PIECE) // bytes_each, 1), x.shape[0])
    for samples, source in padded_samples(x, windows, step, False):
        if plane.flat:
            source = xp(x).ascontiguousarray(source).reshape(*source.shape[:2], -1)
        yield samples, source[:, :, None]
