"""Products of one row and one column as sums: a library of matrix products packs both before it multiplies.

Before::

    graph f(x: f32[4, 1, 9], y: f32[4, 9, 1]) {
        %0: f32[4, 1, 1] = matmul(x, y)
        return %0
    }

After::

    graph f(x: f32[4, 1, 9], y: f32[4, 9, 1]) {
        %0: f32[4, 1, 9] = permute(y, dims=(0, 2, 1))
        %1: f32[4, 1, 9] = mul(x, %0)
        %2: f32[4, 1, 1] = sum(%1, dims=(2,), keepdim=True)
        return %2
    }

One kernel computes that, with what comes before and after it. Roundings are those of a sum.
"""

from __future__ import annotations

from ..extents import is_symbolic
from ..ir.graph import Graph, Value
from .rewrite import Rewriter


def dots(graph: Graph) -> Graph:
    """``graph`` with products of one row and one column, of single or double precision, as sums.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[1, 9], y: f32[9, 1]) { %0: f32[1, 1] = matmul(x, y) return %0 }")
    >>> [v.op.name for v in dots(graph).values]
    ['permute', 'mul', 'sum']
    """
    if not any(map(_is_dot, graph.values)):
        return graph
    return Rewriter(graph.name, {"matmul": (_sum,)}).run(graph)


def _is_dot(value: Value) -> bool:
    if (
        value.op is None
        or value.op.name != "matmul"
        or value.spec.dtype.short not in ("f32", "f64")
    ):
        return False
    return all(not is_symbolic(n) and n == 1 for n in value.spec.shape[-2:])


def _sum(rewriter: Rewriter, value: Value) -> Value | None:
    if not _is_dot(value):
        return None
    x, y = value.value_operands
    last = y.spec.ndim - 1
    order = (*range(last - 1), last, last - 1)
    row = rewriter.write("permute", (y,), value.line, dims=order)
    terms = rewriter.write("mul", (x, row), value.line)
    dims = (value.spec.ndim - 1,)
    return rewriter.write("sum", (terms,), value.line, dims=dims, keepdim=True)
