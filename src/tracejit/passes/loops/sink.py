"""Sinking: products (and joined pieces) that no later round reads are computed for all rounds after the loop.

Before (of the body, and around it)::

    %0: loop(f32[4, 8], f32[5, 4, 3]) = loop(h, u, v, count=5, carried=1, items=0)
        graph round(h: f32[4, 8], u: f32[8, 8], v: f32[8, 3]) {
            %0: f32[4, 8] = matmul(h, u)
            %1: f32[4, 8] = tanh(%0)
            %2: f32[4, 3] = matmul(%0, v)
            return %1, %2
        }

After, what they multiply is collected instead::

    %0: loop(f32[4, 8], f32[5, 4, 8]) = loop(h, u, count=5, carried=1, items=0)
        graph round(h: f32[4, 8], u: f32[8, 8]) {
            %0: f32[4, 8] = matmul(h, u)
            %1: f32[4, 8] = tanh(%0)
            return %1, %0
        }
    %1: f32[5, 4, 8] = part(%0, index=1)
    %2: f32[20, 8] = reshape(%1, shape=(20, 8))
    %3: f32[20, 3] = matmul(%2, v)
    %4: f32[5, 4, 3] = reshape(%3, shape=(5, 4, 3))

Output projections have this form, and gradients of input projections. Here only if ``v`` is not much narrower than
``h``: see :class:`~.afterwards.Afterwards`.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Graph, Value
from ...ir.loops import is_open
from ...ops.contraction import matmul
from ...ops.movement import cat
from ..simplify.dead_code import dead_code
from ..simplify.liveness import live
from .afterwards import Afterwards
from .draft import Draft
from .rewrite import Parts, rewrite_loops


def sink(graph: Graph, copied: bool = False) -> Graph:
    """``graph`` with products that rounds only collect moved after its loops.

    With ``copied``, what the loops collected of them is a copy.

    >>> from tracejit.ir import parse
    >>> graph = parse(\'\'\'graph f(h: f32[4, 8], v: f32[8, 8]) {
    ...     %0: loop(f32[4, 8], f32[5, 4, 8]) = loop(h, v, count=5, carried=1, items=0)
    ...         graph round(h: f32[4, 8], v: f32[8, 8]) {
    ...             %0: f32[4, 8] = sin(h)
    ...             %1: f32[4, 8] = matmul(h, v)
    ...             return %0, %1
    ...         }
    ...     %1: f32[4, 8] = part(%0, index=0)
    ...     %2: f32[5, 4, 8] = part(%0, index=1)
    ...     return %1, %2
    ... }\'\'\')
    >>> [v.op.name for v in sink(graph).values]
    ['loop', 'part', 'part', 'reshape', 'matmul', 'reshape']
    """
    return dead_code(rewrite_loops(dead_code(graph), _sunk, copied))


def _sunk(builder: Builder, loop: Value, used: set[int]) -> Parts | None:
    """The rule: a loop without the products that are computed after it."""
    if is_open(loop):  # nobody knows for how many rounds
        return None
    after = Afterwards(loop)
    graph, carried = after.graph, after.carried
    chosen = _choose(after)
    if not chosen:
        return None
    for value in chosen:
        after.collected.pop(value, None)
    after.collect(x for v in chosen for x in v.value_operands if x not in chosen)
    written = after.write(builder, Draft.of(loop), graph.values, graph.outputs[:carried])

    def part(index: int) -> Value:
        return written.part(index) if index < carried else written.stack(graph.outputs[index])

    return part


def _choose(after: Afterwards) -> dict[Value, None]:
    """The products that no later round depends on, and what follows from them."""
    graph = after.graph
    carried_on = live(graph, graph.outputs[: after.carried]).values
    chosen: dict[Value, None] = {}
    for value in graph.values:
        known = value in after.stacks and value not in after.collected
        if known or value in carried_on:
            continue
        if _is_worth_it(value) or any(x in chosen for x in value.value_operands):
            others = [x for x in value.value_operands if x not in chosen]
            if after.can_batch(value) and after.feasible(others):
                chosen[value] = None
    return _closed(graph, chosen)


def _is_worth_it(value: Value) -> bool:
    """Is this a library call that is faster once than round by round?"""
    return value.op is matmul or value.op is cat


def _closed(graph: Graph, chosen: dict[Value, None]) -> dict[Value, None]:
    """``chosen`` without what a statement that stays reads, and without what is no longer worth it."""
    while True:
        read = {x for v in graph.values if v not in chosen for x in v.value_operands}
        kept = {v: None for v in chosen if v not in read}
        follows: dict[Value, None] = {}
        for value in kept:
            if _is_worth_it(value) or any(x in follows for x in value.value_operands):
                follows[value] = None
        if len(follows) == len(chosen):
            return chosen
        chosen = follows
