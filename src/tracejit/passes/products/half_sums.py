"""Sums of half precision at positions: add in float32 and round once, as eager execution does.

Kernels that add at positions do so one by one in the memory of the result, which would round every step.

Before::

    graph f(x: f16[9], i: i64[4], y: f16[4]) {
        %0: f16[9] = put(x, i, y, dim=0, accumulate=True)
        return %0
    }

After::

    graph f(x: f16[9], i: i64[4], y: f16[4]) {
        %0: f32[9] = cast(x, dtype=f32)
        %1: f32[4] = cast(y, dtype=f32)
        %2: f32[9] = put(%0, i, %1, dim=0, accumulate=True)
        %3: f16[9] = cast(%2, dtype=f16)
        return %3
    }
"""

from __future__ import annotations

from ... import dtypes
from ...ir.graph import Graph, Value
from ..rewrite import Rewriter

_OPS = ("put", "scatter_add")


def half_sums(graph: Graph) -> Graph:
    """``graph`` with sums of half precision at positions computed in float32.

    >>> from tracejit.ir import parse
    >>> graph = parse(
    ...     "graph f(x: f16[9], i: i64[4], y: f16[4]) { "
    ...     "%0: f16[9] = put(x, i, y, dim=0, accumulate=True) return %0 }"
    ... )
    >>> [v.op.name for v in half_sums(graph).values]
    ['cast', 'cast', 'put', 'cast']
    """
    if not any(map(_adds_halves, graph.values)):
        return graph
    return Rewriter(graph.name, dict.fromkeys(_OPS, (_wide,))).run(graph)


def _adds_halves(value: Value) -> bool:
    adds = (
        value.op is not None and value.op.name in _OPS and value.attributes.get("accumulate", True)
    )
    dtype = value.spec.dtype
    return bool(adds) and dtype.is_half and value.spec.ndim > 0


def _wide(rewriter: Rewriter, value: Value) -> Value | None:
    if not _adds_halves(value):
        return None
    assert value.op is not None

    def cast(x: Value, dtype: dtypes.DType) -> Value:
        return rewriter.write("cast", (x,), value.line, dtype=dtype)

    x, index, new = value.value_operands
    operands = (cast(x, dtypes.float32), index, cast(new, dtypes.float32))
    total = rewriter.write(value.op, operands, value.line, **value.attributes)
    return cast(total, value.spec.dtype)
