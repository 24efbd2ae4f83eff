"""Draws inside attention: the random numbers of its dropout are computed by its kernel, not stored.

Before::

    graph f(q: f32[5, 4], k: f32[6, 4], v: f32[6, 4], key: i64[2]) {
        %0: f32[5, 6] = random_uniform(key, index=3, shape=(5, 6), dtype=f32)
        %1: f32[5, 4] = attention(q, k, v, q, %0, scale=0.5, causal=False, masked=False, dropout=0.1, index=-1)
        return %1
    }

After::

    graph f(q: f32[5, 4], k: f32[6, 4], v: f32[6, 4], key: i64[2]) {
        %0: f32[5, 4] = attention(q, k, v, q, key, scale=0.5, causal=False, masked=False, dropout=0.1, index=3)
        return %0
    }

An element of a draw depends on the key, the call and its position alone, so forward and backward compute the same
numbers, and memory grows with the length of a sequence and not with its square. For devices; hosts have no such kernel.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..extents import is_symbolic
from ..ir.graph import Graph, Value
from ..ops.random import random_uniform
from .rewrite import Rewriter, Rules
from .simplify.dead_code import dead_code

__all__ = ["drawn_inside", "draws_inside"]

#: The ops, and which operand is the draw.
_OPS = {"attention": 4, "attention_dq": 5, "attention_dkv": 5}


def draws_inside(graph: Graph) -> Graph:
    """``graph`` with the draws of dropout inside attention.

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f(q: f32[5, 4], key: i64[2]) {
    ...     %0: f32[5, 5] = random_uniform(key, index=3, shape=(5, 5), dtype=f32)
    ...     %1: f32[5, 4] = attention(
    ...         q, q, q, q, %0, scale=0.5, causal=False, masked=False, dropout=0.1, index=-1)
    ...     return %1
    ... }''')
    >>> [v.op.name for v in draws_inside(graph).values if v.op]
    ['attention']
    """
    if not any(v.op is not None and v.op.name in _OPS for v in graph.values):
        return graph
    return dead_code(Rewriter(graph.name, RULES).run(graph))


def drawn_inside(values: Iterable[Value]) -> set[Value]:
    """The draws among what ``values`` read that take no memory: whatever reads one computes it itself.

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f(q: f32[5, 4], key: i64[2]) {
    ...     %0: f32[5, 5] = random_uniform(key, index=3, shape=(5, 5), dtype=f32)
    ...     %1: f32[5, 4] = attention(
    ...         q, q, q, q, %0, scale=0.5, causal=False, masked=False, dropout=0.1, index=-1)
    ...     return %1
    ... }''')
    >>> drawn_inside(graph.values) == {graph.outputs[0].value_operands[4]}
    True
    """
    inside: set[Value] = set()
    stored: set[Value] = set()
    for value in values:
        for x in value.value_operands:
            (inside if _is_inside(value, x) else stored).add(x)
    return inside - stored


def _is_inside(value: Value, operand: Value) -> bool:
    """Does ``value`` compute this operand, a draw, itself?"""
    if value.op is None or value.op.name not in _OPS or operand.op is not random_uniform:
        return False
    index = operand.attributes["index"]
    given = value.value_operands[_OPS[value.op.name]] is operand and value.attributes["dropout"]
    return bool(given and not is_symbolic(index) and index >= 0)


def _inside(rewriter: Rewriter, value: Value) -> Value | None:
    assert value.op is not None
    operands, place = list(value.value_operands), _OPS[value.op.name]
    drawn = operands[place]
    if not _is_inside(value, drawn):
        return None
    operands[place] = drawn.value_operands[0]
    attributes = {**value.attributes, "index": drawn.attributes["index"]}
    return rewriter.write(value.op.name, operands, value.line, **attributes)


RULES: Rules = dict.fromkeys(_OPS, (_inside,))
