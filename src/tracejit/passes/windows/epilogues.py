"""What follows a convolution joins its step: a number added for each channel, and bounds of the results.

Before::

    graph f(x: f32[2, 3, 8], w: f32[4, 3, 1], b: f32[4]) {
        %0: f32[2, 4, 8] = tap_products(x, w, ...)
        %1: f32[1, 4, 1] = reshape(b, shape=(1, 4, 1))
        %2: f32[2, 4, 8] = add(%0, %1)
        %3: f32[2, 4, 8] = relu(%2)
        return %3
    }

After::

    graph f(x: f32[2, 3, 8], w: f32[4, 3, 1], b: f32[4]) {
        %1: f32[1, 4, 1] = reshape(b, shape=(1, 4, 1))
        %2: f32[4] = reshape(%1, shape=(4,))
        %3: f32[2, 4, 8] = tap_products(x, w, %2, ..., floor=0.0)
        return %3
    }

The step has its results in registers, where a kernel would read and write all of them again. Only where nothing else
reads what is joined.
"""

from __future__ import annotations

from math import inf, isnan
from typing import Any

from ...ir.builder import mapped
from ...ir.graph import Graph, Value
from ...ops.taps import tap_products
from ..rewrite import Rewriter

__all__ = ["epilogues"]


def epilogues(graph: Graph) -> Graph:
    """``graph`` with convolutions that add biases and keep results inside bounds.

    >>> from tracejit.ir import parse
    >>> from tracejit.passes.windows.taps import taps
    >>> graph = parse('''graph f(x: f32[2, 3, 8], w: f32[4, 3, 2]) {
    ...     %0: f32[2, 4, 7] = convolution(x, w, stride=(1,), padding=((0, 0),), dilation=(1,), groups=1)
    ...     %1: f32[2, 4, 7] = relu(%0)
    ...     return %1
    ... }''')
    >>> epilogues(taps(graph)).outputs[0].op.name in ("tap_products", "relu")
    True
    """
    if not any(value.op is tap_products for value in graph.values):
        return graph
    return _Joining(graph).run(graph)


class _Joining(Rewriter):
    """Writes a graph again, and what follows convolutions into them."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.name, {})
        users, shown = graph.users(), set(graph.outputs)
        self.alone = {
            value for value in graph.values if len(users.get(value, ())) == 1 and value not in shown
        }

    def statement(self, statement: Value, mapping: Any) -> Value:
        """What a statement of the old graph becomes."""
        new = mapped(statement, mapping)
        for number, (old, x) in enumerate(zip(statement.operands, new.operands, strict=True)):
            if isinstance(x, Value) and x.op is tap_products and old in self.alone:
                joined = self._joined(new, number, x)
                if joined is not None:
                    return joined
        return self.builder.insert(new)

    def _joined(self, value: Value, number: int, product: Value) -> Value | None:
        """The product with what ``value`` does to it, its operand ``number``."""
        assert value.op is not None
        if value.spec != product.spec:
            return None
        if value.op.name == "add":
            return self._biased(value, value.operands[1 - number], product)
        bounds = _bounds(value) if number == 0 else None
        if bounds is None or _is_bounded(product):
            return None
        floor, ceiling = bounds
        made = {**product.attributes, "floor": floor, "ceiling": ceiling}
        return self.write(tap_products, product.operands, value.line, **made)

    def _biased(self, value: Value, other: Any, product: Value) -> Value | None:
        if len(product.operands) > 2 or _is_bounded(product) or not isinstance(other, Value):
            return None
        spec = other.spec
        channels = product.spec.shape[1]
        lie = (1, channels, *(1 for _ in product.spec.shape[2:]))
        if spec.dtype is not product.spec.dtype or spec.shape != lie:
            return None
        bias = self.write("reshape", (other,), value.line, shape=(channels,))
        operands = (*product.operands, bias)
        return self.write(tap_products, operands, value.line, **product.attributes)


def _is_bounded(product: Value) -> bool:
    return (product.attributes["floor"], product.attributes["ceiling"]) != (-inf, inf)


def _bounds(value: Value) -> tuple[float, float] | None:
    """Between which numbers an operation keeps its first operand, if that is all it does."""
    assert value.op is not None
    numbers = value.operands[1:]
    if any(isinstance(n, Value) or isnan(n) for n in numbers):
        return None
    match value.op.name, numbers:
        case "relu", ():
            return 0.0, inf
        case "clamp_min", (low,):
            return float(low), inf
        case "clamp_max", (high,):
            return -inf, float(high)
        case "clamp_inside" | "clamp_between", (low, high):
            return float(low), float(high)
    return None
