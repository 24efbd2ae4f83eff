"""Products of bfloat16 where the machine multiplies pairs of them: the operands stay as they are, the sums are float32.

Before::

    graph f(x: bf16[2, 3], y: bf16[4, 3]) {
        %0: f32[2, 3] = cast(x, dtype=f32)
        %1: f32[4, 3] = cast(y, dtype=f32)
        %2: f32[3, 4] = permute(%1, dims=(1, 0))
        %3: f32[2, 4] = matmul(%0, %2)
        return %3
    }

After::

    graph f(x: bf16[2, 3], y: bf16[4, 3]) {
        %0: bf16[3, 4] = permute(y, dims=(1, 0))
        %1: f32[2, 4] = matmul(x, %0, dtype=f32)
        return %1
    }

This comes after the passes that know products (:mod:`.half_products` made them): these see none with
operands and a result of different dtypes. In loops operands are converted once, before the rounds.
"""

from __future__ import annotations

from ... import dtypes
from ...codegen.products.vector_machine import multiplies_pairs
from ...ir.graph import Graph, Value
from ...ops.contraction import matmul
from ...ops.elementwise import cast
from ..rewrite import Rewriter, is_view, root
from ..simplify.dead_code import dead_code


def pair_products(graph: Graph) -> Graph:
    """``graph`` with products of converted bfloat16 as products of bfloat16, where the machine has them.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[2, 2]) { %0: f32[2, 2] = matmul(x, x) return %0 }")
    >>> pair_products(graph) is graph
    True
    """
    if not any(map(_multiplies_converted, graph.values)) or not multiplies_pairs():
        return graph
    return dead_code(Rewriter(graph.name, {"matmul": (_unconverted,)}).run(graph))


def _multiplies_converted(value: Value) -> bool:
    return value.op is matmul and all(_is_converted(root(x)) for x in value.value_operands)


def _is_converted(value: Value) -> bool:
    """Is this bfloat16 in float32?"""
    if value.op is not cast or value.spec.dtype is not dtypes.float32:
        return False
    return value.value_operands[0].spec.dtype is dtypes.bfloat16


def _unconverted(rewriter: Rewriter, value: Value) -> Value | None:
    if not _multiplies_converted(value):
        return None
    operands = [_source(rewriter, x) for x in value.value_operands]
    return rewriter.write(matmul, operands, value.line, dtype=dtypes.float32)


def _source(rewriter: Rewriter, value: Value) -> Value:
    """What was converted, seen as ``value`` sees it."""
    if not is_view(value):
        return value.value_operands[0]
    assert value.op is not None
    source = _source(rewriter, value.value_operands[0])
    return rewriter.write(value.op, (source,), value.line, **value.attributes)
