"""Convolutions whose windows lie side by side as plain products: patches are rows of a matrix.

Before::

    graph f(x: f32[2, 4, 24], w: f32[5, 4, 8]) {
        %0: f32[2, 5, 3] = convolution(x, w, stride=(8,), padding=((0, 0),), dilation=(1,), groups=1)
        return %0
    }

After::

    graph f(x: f32[2, 4, 24], w: f32[5, 4, 8]) {
        %0: f32[2, 4, 3, 8] = reshape(x, shape=(2, 4, 3, 8))
        %1: f32[2, 3, 4, 8] = permute(%0, dims=(0, 2, 1, 3))
        %2: f32[6, 32] = reshape(%1, shape=(6, 32))
        %3: f32[5, 32] = reshape(w, shape=(5, 32))
        %4: f32[32, 5] = permute(%3, dims=(1, 0))
        %5: f32[6, 5] = matmul(%2, %4)
        %6: f32[2, 3, 5] = reshape(%5, shape=(2, 3, 5))
        %7: f32[2, 5, 3] = permute(%6, dims=(0, 2, 1))
        return %7
    }

So are the first layers of models that look at patches, layers that halve what they see, and transposed ones that double
it; and where there is one window alone, the last layer of a discriminator and the first one of a generator. One kernel
lays out the patches, and what follows reads the product where it lies. The gradients are products of the same matrices.
"""

from __future__ import annotations

from ...ir.graph import Graph, Value
from ...ops.shapes import numel
from ...types import Shape
from ..rewrite import Rewriter, Rules
from .strips import equal

#: Shorter sums are a few steps of a kernel for each window.
LEAST_TERMS = 16


def patches(graph: Graph) -> Graph:
    """``graph`` with convolutions over patches as products.

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f(x: f32[2, 4, 24], w: f32[5, 4, 8]) {
    ...     %0: f32[2, 5, 3] = convolution(x, w, stride=(8,), padding=((0, 0),), dilation=(1,), groups=1)
    ...     return %0
    ... }''')
    >>> [v.op.name for v in patches(graph).values if v.op.name in ("convolution", "matmul")]
    ['matmul']
    """
    if not any(v.op is not None and v.op.name in _RULES for v in graph.values):
        return graph
    return Rewriter(graph.name, _RULES).run(graph)


class _Patches:
    """A convolution of (samples, channels, *size) whose windows are as far from each other as they are wide."""

    def __init__(self, rewriter: Rewriter, value: Value, weight: Shape, counts: Shape) -> None:
        self.rewriter, self.line = rewriter, value.line
        self.attributes, self.dtype = value.attributes, value.spec.dtype.short
        self.out, self.channels, self.kernel = weight[0], weight[1], weight[2:]
        self.counts = counts
        self.rank = len(counts)

    def fits(self) -> bool:
        """Do the windows lie side by side, of a dtype that libraries multiply?"""
        given = self.attributes
        if self.dtype not in ("f32", "f64") or given["groups"] != 1:
            return False
        if any(map(any, given["padding"])) or any(step != 1 for step in given["dilation"]):
            return False
        sides = zip(self.kernel, given["stride"], self.counts, strict=True)
        if any(k != step and not equal(count, 1) for k, step, count in sides):
            return False
        terms = numel(self.kernel)
        return bool(terms > 1) and bool(terms * self.channels >= LEAST_TERMS)

    def write(self, name: str, x: Value, **attributes: object) -> Value:
        """A value of the new graph."""
        return self.rewriter.write(name, (x,), self.line, **attributes)

    def matrix(self, x: Value) -> Value:
        """(samples, channels, *size) as (samples and windows, channels and kernel)."""
        rank, (samples, channels) = self.rank, x.spec.shape[:2]
        used = tuple(n * k for n, k in zip(self.counts, self.kernel, strict=True))
        if used != x.spec.shape[2:]:
            zeros, ones = (0,) * (rank + 2), (1,) * (rank + 2)
            x = self.write("slice", x, starts=zeros, counts=(samples, channels, *used), steps=ones)
        parts = [size for pair in zip(self.counts, self.kernel, strict=True) for size in pair]
        x = self.write("reshape", x, shape=(samples, channels, *parts))
        x = self.write("permute", x, dims=(0, *range(2, 2 + 2 * rank, 2), 1, *self._inner()))
        shape = (samples * numel(self.counts), channels * numel(self.kernel))
        return self.write("reshape", x, shape=shape)

    def _inner(self) -> range:
        return range(3, 3 + 2 * self.rank, 2)

    def laid_back(self, matrix: Value, size: Shape) -> Value:
        """The opposite of `matrix`, with zeros where no window was."""
        rank = self.rank
        samples = matrix.spec.shape[0] // numel(self.counts)
        shape = (samples, *self.counts, self.channels, *self.kernel)
        x = self.write("reshape", matrix, shape=shape)
        turns = [axis for n in range(rank) for axis in (1 + n, 2 + rank + n)]
        x = self.write("permute", x, dims=(0, 1 + rank, *turns))
        used = tuple(n * k for n, k in zip(self.counts, self.kernel, strict=True))
        x = self.write("reshape", x, shape=(samples, self.channels, *used))
        if used == size:
            return x
        ends = tuple((0, whole - part) for whole, part in zip(size, used, strict=True))
        return self.write("pad", x, widths=((0, 0), (0, 0), *ends), value=0)

    def rows(self, y: Value) -> Value:
        """(samples, out, *windows) as (samples and windows, out)."""
        y = self.write("permute", y, dims=(0, *range(2, 2 + self.rank), 1))
        return self.write("reshape", y, shape=(numel(y.spec.shape[:-1]), self.out))

    def product(self, x: Value, y: Value) -> Value:
        """A product of matrices."""
        return self.rewriter.write("matmul", (x, y), self.line)

    def weights(self, weight: Value) -> Value:
        """(out, channels and kernel)."""
        return self.write("reshape", weight, shape=(self.out, numel(weight.spec.shape[1:])))


def _forward(rewriter: Rewriter, value: Value) -> Value | None:
    x, weight = value.value_operands
    form = _Patches(rewriter, value, weight.spec.shape, value.spec.shape[2:])
    if not form.fits():
        return None
    matrix = form.matrix(x)
    found = form.product(matrix, form.write("permute", form.weights(weight), dims=(1, 0)))
    found = form.write("reshape", found, shape=(x.spec.shape[0], *form.counts, form.out))
    return form.write("permute", found, dims=(0, 1 + form.rank, *range(1, 1 + form.rank)))


def _input(rewriter: Rewriter, value: Value) -> Value | None:
    y, weight = value.value_operands
    form = _Patches(rewriter, value, weight.spec.shape, y.spec.shape[2:])
    if not form.fits():
        return None
    found = form.product(form.rows(y), form.weights(weight))
    return form.laid_back(found, value.attributes["size"])


def _weight(rewriter: Rewriter, value: Value) -> Value | None:
    x, y = value.value_operands
    form = _Patches(rewriter, value, value.spec.shape, y.spec.shape[2:])
    if not form.fits():
        return None
    turned = form.write("permute", form.rows(y), dims=(1, 0))
    return form.write("reshape", form.product(turned, form.matrix(x)), shape=value.spec.shape)


_RULES: Rules = {
    "convolution": (_forward,),
    "convolution_input": (_input,),
    "convolution_weight": (_weight,),
}
