"""Depthwise convolutions as sums of products: one input channel per group has no matrix to multiply.

Before::

    graph f(x: f32[2, 3, 8], w: f32[3, 1, 2]) {
        %0: f32[2, 3, 7] = convolution(x, w, stride=(1,), padding=((0, 0),), dilation=(1,), groups=3)
        return %0
    }

After (slices of ``w`` and their views left out)::

    graph f(x: f32[2, 3, 8], w: f32[3, 1, 2]) {
        %0: f32[2, 3, 7] = slice(x, starts=(0, 0, 0), counts=(2, 3, 7), steps=(1, 1, 1))
        %1: f32[2, 3, 7] = mul(%0, w0)
        %2: f32[2, 3, 7] = slice(x, starts=(0, 0, 1), counts=(2, 3, 7), steps=(1, 1, 1))
        %3: f32[2, 3, 7] = mul(%2, w1)
        %4: f32[2, 3, 7] = add(%1, %3)
        return %4
    }

One kernel computes that, and what comes before and after joins it. The gradient of the weight is a sum of such products
per element of the kernel. Products are added in the order of eager execution. Runs on graphs that are not
differentiated any more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ...ir.graph import Graph, Value
from ...ops.shapes import numel
from ...types import Shape
from ..rewrite import Rewriter, Rules

#: Larger kernels stay library calls.
MOST_TAPS = 64
_OPS = ("convolution", "convolution_input", "convolution_weight")


def depthwise(graph: Graph) -> Graph:
    """``graph`` with depthwise convolutions written out.

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f(x: f32[2, 3, 8], w: f32[3, 1, 2]) {
    ...     %0: f32[2, 3, 7] = convolution(x, w, stride=(1,), padding=((0, 0),), dilation=(1,), groups=3)
    ...     return %0
    ... }''')
    >>> [v.op.name for v in depthwise(graph).values if v.op.name in ("mul", "add")]
    ['mul', 'mul', 'add']
    """
    if not any(v.op is not None and v.op.name in _OPS for v in graph.values):
        return graph
    return Rewriter(graph.name, RULES).run(graph)


def _is_plain(value: Value, kernel: Shape) -> bool:
    """Is this of a dtype that is computed in, with a small kernel and nothing cut off?"""
    padding = value.attributes["padding"]
    fits = 0 < numel(kernel) <= MOST_TAPS and all(a >= 0 and b >= 0 for a, b in padding)
    return fits and value.spec.dtype.short in ("f32", "f64") and value.attributes["groups"] > 1


def _forward(rewriter: Rewriter, value: Value) -> Value | None:
    x, weight = value.value_operands
    kernel = weight.spec.shape[2:]
    if weight.spec.shape[1] != 1 or not _is_plain(value, kernel):
        return None
    if weight.spec.shape[0] != x.spec.shape[1]:
        return None
    padded = _padded(rewriter, x, value.attributes["padding"])
    return _products(rewriter, value, padded, weight, kernel, False)


def _input(rewriter: Rewriter, value: Value) -> Value | None:
    """Where windows are one apart: the convolution with the kernel reversed."""
    y, weight = value.value_operands
    kernel, padding = weight.spec.shape[2:], value.attributes["padding"]
    if weight.spec.shape[1] != 1 or not _is_plain(value, kernel):
        return None
    if value.spec.shape[1] != y.spec.shape[1] or any(s != 1 for s in value.attributes["stride"]):
        return None
    spans = [d * (k - 1) for k, d in zip(kernel, value.attributes["dilation"], strict=True)]
    around = tuple((span - a, span - b) for span, (a, b) in zip(spans, padding, strict=True))
    if any(a < 0 or b < 0 for a, b in around):
        return None
    return _products(rewriter, value, _padded(rewriter, y, around), weight, kernel, True)


def _weight(rewriter: Rewriter, value: Value) -> Value | None:
    x, y = value.value_operands
    kernel = value.attributes["kernel"]
    if value.spec.shape[1] != 1 or not _is_plain(value, kernel) or x.spec.numel == 0:
        return None
    if value.spec.shape[0] != x.spec.shape[1]:
        return None
    padded = _padded(rewriter, x, value.attributes["padding"])
    dims = (0, *range(2, x.spec.ndim))
    parts = []
    for tap in _taps(kernel):
        seen = _seen(rewriter, value, padded, tap, y.spec.shape)
        product = rewriter.write("mul", (seen, y), value.line)
        total = rewriter.write("sum", (product,), value.line, dims=dims, keepdim=False)
        parts.append(rewriter.write("unsqueeze", (total,), value.line, dims=(1,)))
    both = rewriter.write("cat", parts, value.line, dim=1)
    return rewriter.write("reshape", (both,), value.line, shape=value.spec.shape)


def _products(
    rewriter: Rewriter, value: Value, x: Value, weight: Value, kernel: Shape, mirrored: bool
) -> Value:
    """The sum over the kernel of what windows see there times the weight."""
    total: Value | None = None
    for tap in _taps(kernel):
        at = tuple(k - 1 - t for k, t in zip(kernel, tap, strict=True)) if mirrored else tap
        seen = _seen(rewriter, value, x, tap, value.spec.shape)
        product = rewriter.write("mul", (seen, _factor(rewriter, weight, at)), value.line)
        total = product if total is None else rewriter.write("add", (total, product), value.line)
    assert total is not None
    return total


def _taps(kernel: Shape) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(int(k)) for k in kernel))


def _padded(rewriter: Rewriter, x: Value, padding: tuple[tuple[int, int], ...]) -> Value:
    if all(a == 0 and b == 0 for a, b in padding):
        return x
    return rewriter.write("pad", (x,), x.line, widths=((0, 0), (0, 0), *padding), value=0)


def _seen(rewriter: Rewriter, value: Value, x: Value, tap: Shape, shape: Shape) -> Value:
    """What all windows see at one element of the kernel."""
    starts = tuple(t * d for t, d in zip(tap, value.attributes["dilation"], strict=True))
    return rewriter.write(
        "slice",
        (x,),
        value.line,
        starts=(0, 0, *starts),
        counts=(x.spec.shape[0], x.spec.shape[1], *shape[2:]),
        steps=(1, 1, *value.attributes["stride"]),
    )


def _factor(rewriter: Rewriter, weight: Value, tap: Shape) -> Value:
    """The weight of every channel at one element of the kernel."""
    ones = (1,) * len(tap)
    one = rewriter.write(
        "slice",
        (weight,),
        weight.line,
        starts=(0, 0, *tap),
        counts=(weight.spec.shape[0], 1, *ones),
        steps=(1, 1, *ones),
    )
    return rewriter.write("squeeze", (one,), weight.line, dims=(1,))


RULES: Rules = {
    "convolution": (_forward,),
    "convolution_input": (_input,),
    "convolution_weight": (_weight,),
}
