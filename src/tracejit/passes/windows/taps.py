"""Convolutions as sums over taps, for which there is native code: nothing is laid out in matrices.

Before::

    graph f(x: f32[2, 3, 8], w: f32[4, 3, 2]) {
        %0: f32[2, 4, 7] = convolution(x, w, stride=(1,), padding=((0, 0),), dilation=(1,), groups=1)
        return %0
    }

After::

    graph f(x: f32[2, 3, 8], w: f32[4, 3, 2]) {
        %0: f32[2, 4, 7] = tap_products(x, w, distances=((0, 1),), low=(0,), stride=(1,), spread=(1,), ...)
        return %0
    }

Padding and strides are the step's own work. So is the gradient of the input of windows some elements apart where groups
have few rows; elsewhere it is one product for every *phase* of the result, s of them where windows are s apart. Where
eager execution adds up windows for the gradient of the input, around them is no zero but a gap, so that nan and
infinities of a weight stay where windows are.
Runs on graphs that are not differentiated any more, on machines for which
:mod:`tracejit.codegen.products.vector_machine` knows a vector.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import gcd
from typing import Any

from ...codegen.products.tap_few_blocks import FEW_ROWS
from ...codegen.products.vector_machine import vector_machine
from ...dtypes import float32
from ...extents import is_symbolic
from ...ir.graph import Graph, Value
from ...ops.shapes import numel
from ...ops.taps import UNBOUNDED, tap_products, tap_weights
from ...types import Shape
from ..rewrite import Rewriter, Rules
from ..simplify.moves import together
from .outputs import has_outputs
from .strips import at_most

#: Kernels with more elements, and in more dimensions, stay library calls.
MOST_TAPS, MOST_DIMENSIONS = 1024, 3


def taps(graph: Graph) -> Graph:
    """``graph`` with convolutions as sums over taps, where there is native code for them.

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f(x: f32[2, 3, 8], w: f32[4, 3, 2]) {
    ...     %0: f32[2, 4, 7] = convolution(x, w, stride=(1,), padding=((0, 0),), dilation=(1,), groups=1)
    ...     return %0
    ... }''')
    >>> [v.op.name for v in taps(graph).values if v.op][-1] in ("tap_products", "convolution")
    True
    """
    if vector_machine() is None:
        return graph
    if not any(v.op is not None and v.op.name in ALL_RULES for v in graph.values):
        return graph
    return Rewriter(graph.name, ALL_RULES).run(graph)


class _Form:
    """The attributes of a convolution of (samples, channels, *size), and the extents of its windows."""

    def __init__(self, value: Value, kernel: Shape, counts: Shape) -> None:
        self.value, self.line = value, value.line
        self.counts = counts
        self.kernel = tuple(map(int, kernel))
        self.stride: Shape = value.attributes["stride"]
        self.padding: tuple[tuple[int, int], ...] = value.attributes["padding"]
        self.dilation: Shape = value.attributes["dilation"]
        self.groups: int = value.attributes["groups"]

    def fits(self, *operands: Value) -> bool:
        """Is this of a dtype that is computed in, not empty, and with nothing cut off?"""
        numbers = (*self.stride, *self.dilation, self.groups)
        if self.value.spec.dtype.short not in ("f32", "f64") or any(map(is_symbolic, numbers)):
            return False
        if len(self.kernel) > MOST_DIMENSIONS or not 0 < numel(self.kernel) <= MOST_TAPS:
            return False
        if any(a < 0 or b < 0 for a, b in self.padding):
            return False
        return all(at_most(1, x.spec.numel) for x in (self.value, *operands))

    def reach(self, tap: int, dim: int) -> int:
        """How far from a window's start a tap is."""
        return tap * self.dilation[dim]


def _flat(rewriter: Rewriter, x: Value, line: Any) -> Value:
    shape = (*x.spec.shape[:2], numel(x.spec.shape[2:]))
    return rewriter.write("reshape", (x,), line, shape=shape)


def _walk(form: _Form) -> dict[str, Any]:
    """How the windows of a convolution walk what they lie over."""
    return {
        "distances": tuple(
            tuple(form.reach(t, dim) for t in range(k)) for dim, k in enumerate(form.kernel)
        ),
        "low": tuple(-before for before, _ in form.padding),
        "stride": form.stride,
        "counts": form.counts,
        "groups": form.groups,
        "around": any(a != 0 or b != 0 for a, b in form.padding),
    }


def _forward(rewriter: Rewriter, value: Value) -> Value | None:
    x, weight = value.value_operands
    form = _Form(value, weight.spec.shape[2:], value.spec.shape[2:])
    if not form.fits(x, weight):
        return None
    ones = (1,) * len(form.kernel)
    return rewriter.write(
        tap_products, (x, weight), form.line, **_walk(form), spread=ones, gaps=0, **UNBOUNDED
    )


def _weight(rewriter: Rewriter, value: Value) -> Value | None:
    x, y = value.value_operands
    form = _Form(value, value.attributes["kernel"], y.spec.shape[2:])
    if not form.fits(x, y):
        return None
    y = _flat(rewriter, y, form.line)
    found = rewriter.write(tap_weights, (x, y), form.line, **_walk(form))
    out, each = value.spec.shape[0] // form.groups, numel(value.spec.shape[1:])
    found = rewriter.write("reshape", (found,), form.line, shape=(form.groups, each, out))
    found = rewriter.write("permute", (found,), form.line, dims=(0, 2, 1))
    return rewriter.write("reshape", (found,), form.line, shape=value.spec.shape)


def _input(rewriter: Rewriter, value: Value) -> Value | None:
    """Position p got what taps at distance r left of window (p + before - r) / s: nothing where there is a rest."""
    y, weight = value.value_operands
    form = _Form(value, weight.spec.shape[2:], y.spec.shape[2:])
    if not form.fits(y, weight):
        return None
    sides = zip(form.padding, value.spec.shape[2:], form.counts, strict=True)
    reaches = [form.reach(k - 1, dim) for dim, k in enumerate(form.kernel)]
    strided = any(s != 1 for s in form.stride)
    around = strided or any(
        a != reach or n + a != count
        for reach, ((a, _), n, count) in zip(reaches, sides, strict=True)
    )
    gaps = _gaps(value, form) if around else 0
    turned = _turned(rewriter, weight, form)
    walk = {
        "distances": tuple(
            tuple(reach - form.reach(t, dim) for t in range(form.kernel[dim]))
            for dim, reach in enumerate(reaches)
        ),
        "low": tuple(a - reach for (a, _), reach in zip(form.padding, reaches, strict=True)),
        "stride": (1,) * len(form.kernel),
        "spread": form.stride,
        "counts": value.spec.shape[2:],
        "groups": form.groups,
        "around": around,
        "gaps": gaps,
    }
    rows, channels = weight.spec.shape[1], turned.spec.shape[1]
    few = at_most(rows, FEW_ROWS)
    if not strided or few or has_outputs(vector_machine(), rows, channels, walk):
        return rewriter.write(tap_products, (y, turned), form.line, **walk, **UNBOUNDED)
    starts = [before // s for (before, _), s in zip(form.padding, form.stride, strict=True)]
    ends = [
        -(-(before + n) // s)
        for (before, _), n, s in zip(form.padding, value.spec.shape[2:], form.stride, strict=True)
    ]
    counts = tuple(end - start for start, end in zip(starts, ends, strict=True))
    found = [
        _phase(rewriter, form, (y, turned), phase, starts, counts, gaps)
        for phase in itertools.product(*map(range, form.stride))
    ]
    first = [before % s for (before, _), s in zip(form.padding, form.stride, strict=True)]
    return _interleaved(rewriter, form, found, counts, first)


def _gaps(value: Value, form: _Form) -> Any:
    """Positive where eager execution adds up windows, instead of reversing the kernel: see `ops.convolve`."""
    return 1 if any(s != 1 for s in form.stride) else added_windows(value)


def added_windows(value: Value) -> Any:
    """Of a gradient of an input, with strides of one: positive where eager execution adds up windows.

    >>> from tracejit.ir import parse
    >>> rest = "size=(5,), stride=(1,), padding=((0, 0),), dilation=(1,), groups=1"
    >>> text = f"graph f(y: f32[1, 2, 3], w: f32[2, 1, 3]) {{ %0: f32[1, 1, 5] = convolution_input(y, w, {rest})"
    >>> added_windows(parse(text + "  return %0 }").outputs[0])
    7
    """
    y, weight = value.value_operands
    if value.attributes["groups"] > 1 and weight.spec.shape[1] == 1:
        return 0
    here, there = numel(value.spec.shape[2:]), numel(y.spec.shape[2:])
    return y.spec.shape[1] * here - value.spec.shape[1] * there


def _turned(rewriter: Rewriter, weight: Value, form: _Form) -> Value:
    """The weight with the channels of its two sides exchanged."""
    if form.groups == 1:
        dims = (1, 0, *range(2, weight.spec.ndim))
        return rewriter.write("permute", (weight,), form.line, dims=dims)
    out, channels = weight.spec.shape[0] // form.groups, weight.spec.shape[1]
    shape = (form.groups, out, channels, *form.kernel)
    grouped = rewriter.write("reshape", (weight,), form.line, shape=shape)
    dims = (0, 2, 1, *range(3, grouped.spec.ndim))
    grouped = rewriter.write("permute", (grouped,), form.line, dims=dims)
    shape = (form.groups * channels, out, *form.kernel)
    return rewriter.write("reshape", (grouped,), form.line, shape=shape)


def _phase(
    rewriter: Rewriter,
    form: _Form,
    operands: tuple[Value, Value],
    phase: Shape,
    starts: Sequence[int],
    counts: Shape,
    gaps: Any,
) -> Value:
    """One phase of the gradient of the input: position s a + r, in phase r, of the padded input."""
    y, weight = operands
    at, every, distances, low = [], [], [], []
    around = False
    for dim, (r, k) in enumerate(zip(phase, form.kernel, strict=True)):
        s = form.stride[dim]
        chosen = [t for t in range(k) if form.reach(t, dim) % s == r]
        at.append(chosen[0] if chosen else 0)
        every.append(s // gcd(s, form.dilation[dim]))
        back = [form.reach(t, dim) // s for t in chosen] or [0]
        distances.append(tuple(back[-1] - n for n in back))
        low.append(starts[dim] - back[-1])
        last = starts[dim] + counts[dim] - 1 - back[0]
        around = around or low[-1] != 0 or last != y.spec.shape[2 + dim] - 1
        if not chosen:
            shape = (y.spec.shape[0], weight.spec.shape[0], *counts)
            dtype = y.spec.dtype
            return rewriter.write("full", (), form.line, shape=shape, value=0.0, dtype=dtype)
    number = tuple(map(len, distances))
    if number != form.kernel:
        weight = rewriter.write(
            "slice",
            (weight,),
            form.line,
            starts=(0, 0, *at),
            counts=(*weight.spec.shape[:2], *number),
            steps=(1, 1, *every),
        )
    ones = (1,) * len(number)
    return rewriter.write(
        tap_products,
        (y, weight),
        form.line,
        distances=tuple(distances),
        low=tuple(low),
        stride=ones,
        spread=ones,
        counts=counts,
        groups=form.groups,
        around=around,
        gaps=gaps if around else 0,
        **UNBOUNDED,
    )


def _interleaved(
    rewriter: Rewriter, form: _Form, phases: list[Value], counts: Shape, first: list[int]
) -> Value:
    """All phases, side by side as they belong; the first of them may have begun in the padding."""
    rank = len(counts)
    layers = [rewriter.write("unsqueeze", (x,), form.line, dims=(0,)) for x in phases]
    stack = rewriter.write("cat", layers, form.line, dim=0)
    samples, channels = phases[0].spec.shape[:2]
    shape = (*form.stride, samples, channels, *counts)
    stack = rewriter.write("reshape", (stack,), form.line, shape=shape)
    order = [rank, rank + 1]
    for dim in range(rank):
        order += [rank + 2 + dim, dim]
    stack = rewriter.write("permute", (stack,), form.line, dims=tuple(order))
    whole = tuple(n * s for n, s in zip(counts, form.stride, strict=True))
    found = rewriter.write("reshape", (stack,), form.line, shape=(samples, channels, *whole))
    if found.spec == form.value.spec and not any(first):
        return found
    return rewriter.write(
        "slice",
        (found,),
        form.line,
        starts=(0, 0, *first),
        counts=form.value.spec.shape,
        steps=(1,) * (rank + 2),
    )


def _wide(rewriter: Rewriter, value: Value) -> Value | None:
    """Half precision is computed in float32 and rounded once, as in eager execution."""
    assert value.op is not None
    dtype = value.spec.dtype
    if not dtype.is_half:
        return None
    operands = [
        rewriter.write("cast", (x,), value.line, dtype=float32) for x in value.value_operands
    ]
    found = rewriter.write(value.op, operands, value.line, **value.attributes)
    return rewriter.write("cast", (found,), value.line, dtype=dtype)


RULES: Rules = {
    "convolution": (_forward,),
    "convolution_input": (_input,),
    "convolution_weight": (_weight,),
}
ALL_RULES: Rules = together(dict.fromkeys(RULES, (_wide,)), RULES)
