"""Products and convolutions of half precision: computed in float32 and rounded once, as eager execution does.

No library on the host multiplies half precision. Written down, the conversions are kernels that fuse with what makes
the operands and with what reads the result, and the products have all that products of float32 have.

Before::

    graph f(x: bf16[2, 3], y: bf16[3, 4]) {
        %0: bf16[2, 4] = matmul(x, y)
        return %0
    }

After::

    graph f(x: bf16[2, 3], y: bf16[3, 4]) {
        %0: f32[2, 3] = cast(x, dtype=f32)
        %1: f32[3, 4] = cast(y, dtype=f32)
        %2: f32[2, 4] = matmul(%0, %1)
        %3: bf16[2, 4] = cast(%2, dtype=bf16)
        return %3
    }
"""

from __future__ import annotations

from ... import dtypes
from ...ir.graph import Graph, Value
from ...ops.contraction import matmul
from ...ops.convolution import convolution, convolution_input, convolution_weight
from ..rewrite import Rewriter, is_view

_OPS = (matmul, convolution, convolution_input, convolution_weight)


def half_products(graph: Graph) -> Graph:
    """``graph`` with products of half precision computed in float32.

    >>> from tracejit.ir import parse
    >>> graph = parse(
    ...     "graph f(x: f16[2, 3]) { %0: f16[3, 2] = permute(x, dims=(1, 0)) "
    ...     "%1: f16[2, 2] = matmul(x, %0) return %1 }"
    ... )
    >>> [v.op.name for v in half_products(graph).values]
    ['permute', 'cast', 'permute', 'matmul', 'cast']
    """
    if not any(map(_multiplies_halves, graph.values)):
        return graph
    return _Widener(graph.name, {op.name: (_wide,) for op in _OPS}).run(graph)


def _multiplies_halves(value: Value) -> bool:
    return value.op in _OPS and value.value_operands[0].spec.dtype.is_half


class _Widener(Rewriter):
    """Converts every value once, below its views: a transposed operand is a view of what was converted."""

    def run(self, graph: Graph) -> Graph:
        self.wide: dict[Value, Value] = {}
        return super().run(graph)

    def widened(self, value: Value) -> Value:
        """``value`` in float32."""
        if value not in self.wide:
            if is_view(value) and value.spec.numel == value.value_operands[0].spec.numel:
                assert value.op is not None
                source = self.widened(value.value_operands[0])
                wide = self.write(value.op, (source,), value.line, **value.attributes)
            else:
                wide = self.write("cast", (value,), value.line, dtype=dtypes.float32)
            self.wide[value] = wide
        return self.wide[value]


def _wide(rewriter: Rewriter, value: Value) -> Value | None:
    if not _multiplies_halves(value):
        return None
    assert value.op is not None
    assert isinstance(rewriter, _Widener)
    operands = [rewriter.widened(x) for x in value.value_operands]
    attributes = {k: v for k, v in value.attributes.items() if k != "dtype"}
    found = rewriter.write(value.op, operands, value.line, **attributes)
    if value.spec.dtype is dtypes.float32:  # asked for without rounding
        return found
    return rewriter.write("cast", (found,), value.line, dtype=value.spec.dtype)
