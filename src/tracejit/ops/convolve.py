"""Convolution on arrays: the windows of a few samples at a time are laid out as a matrix that BLAS multiplies.

All arrays are (samples, channels, *extents); the weight is (out channels, channels of one group, *kernel). Channels
are cut into groups: below, an array of samples is (samples, groups, channels of one group, ...). The piece of the
window matrix in use fits the second-level cache, and its memory is reused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..types import Shape
from .depthwise import depthwise_forward, depthwise_weight
from .library_threads import multiplied
from .namespace import xp
from .op import Array
from .windows import PIECE, Windows, padded_samples, piece_of, volume

#: From this many channels on they may be the fastest dimension of the matrix: whole runs of them are copied.
_CHANNELS_LAST = 32
#: Up to this many positions a sample's own product is small for BLAS, so those of a piece are multiplied as one.
_MERGED = 256


class _Piece(NamedTuple):
    """Some samples, some of the first dimension's positions, and their windows: (samples, groups, K, positions).

    Merged pieces have one sample whose positions are those of all samples, one after the other.
    """

    samples: slice
    rows: slice
    matrix: Array
    merged: bool


def forward(x: Array, weight: Array, windows: Windows, groups: int, counts: Shape) -> Array:
    """The sum over channels and kernel of x's windows times the weight."""
    n = xp(x)
    shape = (x.shape[0], weight.shape[0], *counts)
    if not x.size or not weight.size or not volume(shape):
        return n.zeros(shape, x.dtype)
    if _is_depthwise(weight.shape, groups):
        return depthwise_forward(x, weight, windows, counts)
    out = n.empty(shape, x.dtype)
    merged = _is_merged(weight.shape, counts)
    matrix = _weight_matrix(weight, groups, merged)
    target = _grouped(out, groups)
    for piece in _pieces(x, windows, groups, counts, merged):
        part = target[piece.samples, :, :, piece.rows]
        product = multiplied(matrix, piece.matrix)
        if merged:
            part[...] = n.moveaxis(product[0].reshape(*part.shape[1:3], -1, *part.shape[3:]), 2, 0)
        else:
            part[...] = product.reshape(part.shape)
    return out


def weight_gradient(x: Array, y: Array, windows: Windows, groups: int, shape: Shape) -> Array:
    """The weight-shaped sum over samples and positions of x's windows times y."""
    n, counts = xp(x), y.shape[2:]
    if not y.size or not x.size or not volume(shape):
        return n.zeros(shape, x.dtype)
    if _is_depthwise(shape, groups):
        return depthwise_weight(x, y, windows, shape)
    merged = _is_merged(shape, counts)
    source = _grouped(y, groups)
    total = n.zeros((groups, shape[0] // groups, volume(shape[1:])), x.dtype)
    for piece in _pieces(x, windows, groups, counts, merged):
        part = source[piece.samples, :, :, piece.rows]
        if merged:
            part = n.moveaxis(part, 0, 2)[None]
        part = part.reshape(*part.shape[:3], -1)
        total += multiplied(part, piece.matrix.swapaxes(-1, -2)).sum(0)
    if merged:
        by_channel = total.reshape(*shape[:1], *shape[2:], shape[1])
        return n.ascontiguousarray(n.moveaxis(by_channel, -1, 1))
    return total.reshape(shape)


def input_gradient(y: Array, weight: Array, windows: Windows, groups: int, size: Shape) -> Array:
    """What the windows' sums leave at each position of an input of extents ``size``: convolution transposed."""
    n = xp(y)
    shape = (y.shape[0], weight.shape[1] * groups, *size)
    if not y.size or not weight.size or not volume(shape):
        return n.zeros(shape, y.dtype)
    # The cheaper of two matrices: windows of y at every position of x, or of x at every position of y.
    mirrored = y.shape[1] * volume(size) <= shape[1] * volume(y.shape[2:])
    if all(s == 1 for s in windows.stride) and (mirrored or _is_depthwise(weight.shape, groups)):
        return forward(y, _turned(weight, groups), _mirrored(windows), groups, size)
    out = n.empty(shape, y.dtype)
    matrix = n.ascontiguousarray(_weight_matrix(weight, groups, False).swapaxes(-1, -2))
    source = y.reshape(y.shape[0], groups, y.shape[1] // groups, volume(y.shape[2:]))
    step = max(1, piece_of(y, PIECE) // (groups * matrix.shape[1] * source.shape[-1] * y.itemsize))
    for first in range(0, y.shape[0], step):
        part = multiplied(matrix, source[first : first + step])
        laid = part.reshape(part.shape[0], shape[1], *windows.kernel, *y.shape[2:])
        out[first : first + step] = windows.fold(laid, size)
    return out


def _is_merged(weight: Shape, counts: Shape) -> bool:
    return weight[1] >= _CHANNELS_LAST and volume(weight[2:]) > 1 and 0 < volume(counts) <= _MERGED


def _is_depthwise(weight: Shape, groups: int) -> bool:
    """One input channel per group: there is no matrix to multiply."""
    return groups > 1 and weight[1] == 1


def _mirrored(windows: Windows) -> Windows:
    """The windows through which each input position sees the results it went into (all strides are 1)."""
    padding = tuple(
        (span - 1 - a, span - 1 - b)
        for span, (a, b) in zip(windows.reach(), windows.padding, strict=True)
    )
    return windows._replace(padding=padding)


def _turned(weight: Array, groups: int) -> Array:
    """The weight with channels exchanged and the kernel reversed."""
    n = xp(weight)
    grouped = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:]).swapaxes(1, 2)
    reversed_ = n.flip(grouped, tuple(range(3, grouped.ndim)))
    return reversed_.reshape(groups * grouped.shape[1], *reversed_.shape[2:])


def _grouped(x: Array, groups: int) -> Array:
    """(samples, groups, channels, first extent, product of the others)."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, x.shape[2], volume(x.shape[3:]))


def _weight_matrix(weight: Array, groups: int, channels_last: bool) -> Array:
    """(groups, out channels, K) with K in the order of the windows."""
    if channels_last:
        weight = xp(weight).moveaxis(weight, 1, -1)
    return weight.reshape(groups, weight.shape[0] // groups, volume(weight.shape[1:]))


def _pieces(
    x: Array, windows: Windows, groups: int, counts: Shape, merged: bool
) -> Iterator[_Piece]:
    """The window matrix, a cache-sized piece after the other; K is (channels, kernel), merged (kernel, channels)."""
    row = x.shape[1] * volume(windows.kernel) * volume(counts[1:]) * x.itemsize
    piece = piece_of(x, PIECE)
    rows = counts[0] if merged else min(max(piece // row, 1), counts[0])
    step = min(max(piece // (row * counts[0]), 1), x.shape[0])
    memory = xp(x).empty(step * rows * (row // x.itemsize), x.dtype)
    for samples, source in padded_samples(x, windows, step, merged):
        view = windows.view(source, counts)
        view = view.reshape(view.shape[0], groups, x.shape[1] // groups, *view.shape[2:])
        for first in range(0, counts[0], rows):
            some = slice(first, min(first + rows, counts[0]))
            part = view[(..., some, *(np.s_[:],) * (len(counts) - 1))]
            laid_out = _merged_matrix if merged else _matrix
            yield _Piece(samples, some, laid_out(part, memory), merged)


def _matrix(view: Array, memory: Array) -> Array:
    """(samples, groups, channels, *kernel, *positions) in ``memory`` as (samples, groups, K, positions)."""
    rank = (view.ndim - 3) // 2
    shape = (*view.shape[:2], volume(view.shape[2 : 3 + rank]), volume(view.shape[3 + rank :]))
    if view.flags.c_contiguous:  # windows of one element
        return view.reshape(shape)
    target = memory[: view.size].reshape(view.shape)
    xp(view).copyto(target, view)
    return target.reshape(shape)


def _merged_matrix(view: Array, memory: Array) -> Array:
    """The same as (1, groups, K, samples and positions), in memory with K last and channels last in K."""
    rank = (view.ndim - 3) // 2
    part = view.transpose(1, 0, *range(3 + rank, view.ndim), *range(3, 3 + rank), 2)
    target = memory[: view.size].reshape(part.shape)
    xp(view).copyto(target, part)
    rows = volume(part.shape[1 : 2 + rank])
    flat: Any = target.reshape(part.shape[0], rows, volume(part.shape[2 + rank :]))
    return flat.swapaxes(-1, -2)[None]
