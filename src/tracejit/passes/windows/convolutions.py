"""Convolutions as products: windows are laid side by side by kernels, and one product multiplies all of them.

Before::

    graph f(x: f32[2, 3, 8], w: f32[4, 3, 2]) {
        %0: f32[2, 4, 7] = convolution(x, w, stride=(1,), padding=((0, 0),), dilation=(1,), groups=1)
        return %0
    }

After::

    graph f(x: f32[2, 3, 8], w: f32[4, 3, 2]) {
        %0: f32[3, 2, 8] = permute(x, dims=(1, 0, 2))
        %1: f32[3, 2, 7] = slice(%0, starts=(0, 0, 0), counts=(3, 2, 7), steps=(1, 1, 1))
        %2: f32[3, 1, 2, 7] = unsqueeze(%1, dims=(1,))
        %3: f32[3, 2, 7] = slice(%0, starts=(0, 0, 1), counts=(3, 2, 7), steps=(1, 1, 1))
        %4: f32[3, 1, 2, 7] = unsqueeze(%3, dims=(1,))
        %5: f32[3, 2, 2, 7] = cat(%2, %4, dim=1)
        %6: f32[6, 14] = reshape(%5, shape=(6, 14))
        %7: f32[4, 6] = reshape(w, shape=(4, 6))
        %8: f32[4, 14] = matmul(%7, %6)
        %9: f32[4, 2, 7] = reshape(%8, shape=(4, 2, 7))
        %10: f32[2, 4, 7] = permute(%9, dims=(1, 0, 2))
        return %10
    }

Both gradients have the same form: that of the weight is a product with the same windows, that of the input adds up
windows where they came from. Groups of one channel need no product: see :mod:`.depthwise`. Runs on
graphs that are not differentiated any more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ...extents import is_symbolic
from ...ir.graph import Graph, Value
from ...ops.shapes import numel
from ...types import Shape
from ..rewrite import Rewriter, Rules
from ..simplify.moves import together
from . import depthwise
from .strips import at_most

#: Larger kernels, and windows of more bytes, stay library calls, which work on a part at a time.
MOST_TAPS = 64
MOST_BYTES = 1 << 26

Pairs = tuple[tuple[int, int], ...]


def convolutions(graph: Graph) -> Graph:
    """``graph`` with convolutions written as products of windows.

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f(x: f32[2, 3, 8], w: f32[4, 3, 2]) {
    ...     %0: f32[2, 4, 7] = convolution(x, w, stride=(1,), padding=((0, 0),), dilation=(1,), groups=1)
    ...     return %0
    ... }''')
    >>> [v.op.name for v in convolutions(graph).values if v.op.name in ("cat", "matmul")]
    ['cat', 'matmul']
    """
    if not any(v.op is not None and v.op.name in ALL_RULES for v in graph.values):
        return graph
    return Rewriter(graph.name, ALL_RULES).run(graph)


class _Form:
    """The attributes of a convolution of (samples, channels, *size) with a kernel, if it can be written out."""

    def __init__(self, value: Value, kernel: Shape, counts: Shape) -> None:
        self.value = value
        self.line = value.line
        self.kernel = tuple(map(int, kernel))
        self.counts = counts
        self.stride: Shape = value.attributes["stride"]
        self.padding: Pairs = value.attributes["padding"]
        self.dilation: Shape = value.attributes["dilation"]

    def fits(self, samples: int, channels: int) -> bool:
        """Is this of a dtype that is computed in, in one group, with not too many windows and nothing cut off?"""
        if self.value.attributes["groups"] != 1 or self.value.spec.dtype.short not in (
            "f32",
            "f64",
        ):
            return False
        if any(a < 0 or b < 0 for a, b in self.padding) or not 0 < numel(self.kernel) <= MOST_TAPS:
            return False
        size = samples * channels * numel(self.kernel) * numel(self.counts)
        return at_most(1, size) and at_most(size * self.value.spec.dtype.itemsize, MOST_BYTES)

    def taps(self) -> Iterator[tuple[int, ...]]:
        """The elements of the kernel."""
        return itertools.product(*(range(int(k)) for k in self.kernel))

    def starts(self, tap: Shape) -> Shape:
        """Where the first window has an element of the kernel."""
        return tuple(t * d for t, d in zip(tap, self.dilation, strict=True))


def _channels_first(rewriter: Rewriter, x: Value) -> Value:
    """Channels and samples exchanged."""
    return rewriter.write("permute", (x,), x.line, dims=(1, 0, *range(2, x.spec.ndim)))


def _windows(rewriter: Rewriter, x: Value, form: _Form) -> Value:
    """(channels and kernel, samples and windows)."""
    if any(a != 0 or b != 0 for a, b in form.padding):
        widths = ((0, 0), (0, 0), *form.padding)
        x = rewriter.write("pad", (x,), form.line, widths=widths, value=0)
    x = _channels_first(rewriter, x)
    channels, samples = x.spec.shape[:2]
    counts, steps = (channels, samples, *form.counts), (1, 1, *form.stride)
    parts = []
    for tap in form.taps():
        starts = (0, 0, *form.starts(tap))
        seen = rewriter.write("slice", (x,), form.line, starts=starts, counts=counts, steps=steps)
        parts.append(rewriter.write("unsqueeze", (seen,), form.line, dims=(1,)))
    both = rewriter.write("cat", parts, form.line, dim=1)
    rows = (channels * numel(form.kernel), samples * numel(form.counts))
    return rewriter.write("reshape", (both,), form.line, shape=rows)


def _as_matrix(rewriter: Rewriter, x: Value) -> Value:
    """(samples, channels, *size) as (channels, samples and size)."""
    x = _channels_first(rewriter, x)
    return rewriter.write("reshape", (x,), x.line, shape=(x.spec.shape[0], numel(x.spec.shape[1:])))


def _multiplied(rewriter: Rewriter, x: Value, weight: Value, form: _Form) -> Value:
    """The products of a weight (out channels, ...) with windows of x."""
    count = weight.spec.shape[0]
    matrix = rewriter.write(
        "reshape", (weight,), form.line, shape=(count, numel(weight.spec.shape[1:]))
    )
    found = rewriter.write("matmul", (matrix, _windows(rewriter, x, form)), form.line)
    shape = (count, x.spec.shape[0], *form.counts)
    return _channels_first(rewriter, rewriter.write("reshape", (found,), form.line, shape=shape))


def _forward(rewriter: Rewriter, value: Value) -> Value | None:
    x, weight = value.value_operands
    form = _Form(value, weight.spec.shape[2:], value.spec.shape[2:])
    if not form.fits(x.spec.shape[0], x.spec.shape[1]):
        return None
    return _multiplied(rewriter, x, weight, form)


def _weight(rewriter: Rewriter, value: Value) -> Value | None:
    x, y = value.value_operands
    form = _Form(value, value.attributes["kernel"], y.spec.shape[2:])
    if not form.fits(x.spec.shape[0], x.spec.shape[1]):
        return None
    matrix = rewriter.write("permute", (_as_matrix(rewriter, y),), form.line, dims=(1, 0))
    # BLAS is up to 1.5 times as fast with the longer side of the result first, and windows have more rows than y
    found = rewriter.write("matmul", (_windows(rewriter, x, form), matrix), form.line)
    found = rewriter.write("permute", (found,), form.line, dims=(1, 0))
    return rewriter.write("reshape", (found,), form.line, shape=value.spec.shape)


def _input(rewriter: Rewriter, value: Value) -> Value | None:
    """The cheaper of two forms where windows are one apart, the same that eager execution takes."""
    y, weight = value.value_operands
    form = _Form(value, weight.spec.shape[2:], y.spec.shape[2:])
    if not form.fits(y.spec.shape[0], value.spec.shape[1]):
        return None
    if any(s != 1 for s in form.stride):
        return _far_apart(rewriter, value, form)
    here, there = y.spec.shape[1] * numel(value.spec.shape[2:]), numel(form.counts)
    if at_most(here, value.spec.shape[1] * there):
        return _mirrored(rewriter, value, form)
    return _folded(rewriter, value, form)


def _mirrored(rewriter: Rewriter, value: Value, form: _Form) -> Value | None:
    """The convolution of what came out with the kernel reversed."""
    y, weight = value.value_operands
    spans = form.starts(tuple(k - 1 for k in form.kernel))
    pairs = zip(spans, form.padding, strict=True)
    form.padding = tuple((span - a, span - b) for span, (a, b) in pairs)
    form.counts = value.spec.shape[2:]
    if not form.fits(y.spec.shape[0], y.spec.shape[1]):
        return None
    last = (0, 0, *(k - 1 for k in form.kernel))
    turned = rewriter.write(
        "slice",
        (weight,),
        form.line,
        starts=last,
        counts=weight.spec.shape,
        steps=(1, 1, *(-1 for _ in form.kernel)),
    )
    return _multiplied(rewriter, y, _channels_first(rewriter, turned), form)


def _folded(rewriter: Rewriter, value: Value, form: _Form) -> Value | None:
    """Windows added up where they came from."""
    last = form.starts(tuple(k - 1 for k in form.kernel))
    if any(is_symbolic(x) for x in (*last, *(x for pair in form.padding for x in pair))):
        return None
    laid = _laid(rewriter, value, form)
    total: Value | None = None
    for number, at in enumerate(map(form.starts, form.taps())):
        before = [s - a for s, (a, _) in zip(at, form.padding, strict=True)]
        after = [e - s - b for e, s, (_, b) in zip(last, at, form.padding, strict=True)]
        part = _placed(rewriter, laid, number, before, after, form)
        other = 0.0 if total is None else total  # eager execution adds to zeros
        total = rewriter.write("add", (part, other), form.line)
    assert total is not None
    return _channels_first(rewriter, total)


def _laid(rewriter: Rewriter, value: Value, form: _Form) -> Value:
    """What every window leaves: (channels, kernel, samples, windows)."""
    y, weight = value.value_operands
    matrix = rewriter.write(
        "reshape", (weight,), form.line, shape=(y.spec.shape[1], numel(weight.spec.shape[1:]))
    )
    matrix = rewriter.write("permute", (matrix,), form.line, dims=(1, 0))
    laid = rewriter.write("matmul", (matrix, _as_matrix(rewriter, y)), form.line)
    shape = (value.spec.shape[1], numel(form.kernel), y.spec.shape[0], *form.counts)
    return rewriter.write("reshape", (laid,), form.line, shape=shape)


def _far_apart(rewriter: Rewriter, value: Value, form: _Form) -> Value:
    """Windows added up where they came from, at any distance."""
    laid = _laid(rewriter, value, form)
    laid = rewriter.write("permute", (laid,), form.line, dims=(0, 2, 1, *range(3, laid.spec.ndim)))
    shape = (*laid.spec.shape[:2], *form.kernel, *form.counts)
    found = rewriter.write(
        "fold_windows",
        (rewriter.write("reshape", (laid,), form.line, shape=shape),),
        form.line,
        size=value.spec.shape[2:],
        kernel=form.kernel,
        stride=form.stride,
        padding=form.padding,
        dilation=form.dilation,
    )
    return _channels_first(rewriter, found)


def _placed(
    rewriter: Rewriter, laid: Value, number: int, before: list[int], after: list[int], form: _Form
) -> Value:
    """One element of every window where it came from, with so many zeros around it; negative numbers cut some off."""
    channels, _, samples = laid.spec.shape[:3]
    cut = [(max(-a, 0), max(-b, 0)) for a, b in zip(before, after, strict=True)]
    starts = (0, number, 0, *(a for a, _ in cut))
    left = (n - a - b for n, (a, b) in zip(form.counts, cut, strict=True))
    counts = (channels, 1, samples, *left)
    steps = (1,) * len(counts)
    part = rewriter.write("slice", (laid,), form.line, starts=starts, counts=counts, steps=steps)
    part = rewriter.write("squeeze", (part,), form.line, dims=(1,))
    around = ((max(a, 0), max(b, 0)) for a, b in zip(before, after, strict=True))
    widths = ((0, 0), (0, 0), *around)
    if not any(a or b for a, b in widths):
        return part
    return rewriter.write("pad", (part,), form.line, widths=widths, value=0)


RULES: Rules = {
    "convolution": (_forward,),
    "convolution_input": (_input,),
    "convolution_weight": (_weight,),
}
ALL_RULES: Rules = together(depthwise.RULES, RULES)
