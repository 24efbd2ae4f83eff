"""The passes over loops, in order: unneeded parts go, bodies are optimized, what need not run in rounds leaves."""

from __future__ import annotations

from functools import partial

from ...ir.builder import Builder
from ...ir.graph import Graph, Value
from ...ir.loops import body_of
from ...ops.elementwise import clone
from ..products.split_products import split_products
from ..simplify.dead_code import dead_code
from ..simplify.fold import fold
from ..simplify.liveness import has_loops
from ..simplify.simplify import simplify
from .draft import Draft
from .hoist import hoist
from .rewrite import Parts, parts_of, rewrite_loops, unless_same
from .sink import sink
from .sums import sums


def optimize_loops(graph: Graph, device: int = -1) -> Graph:
    """``graph`` with optimized loops; the graph itself when there are none.

    Bodies go through all passes for the host, or for the GPU of number ``device``. Sums are taken out before
    :func:`~.hoist.hoist` sees what they add.

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f(h: f32[4, 8]) {
    ...     %0: loop(f32[4, 8]) = loop(h, count=5, carried=1, items=0)
    ...         graph round(h: f32[4, 8]) {
    ...             %0: f32[4, 8] = mul(h, 1.0)
    ...             %1: f32[4, 8] = sin(%0)
    ...             return %1
    ...         }
    ...     %1: f32[4, 8] = part(%0, index=0)
    ...     return %1
    ... }''')
    >>> print(optimize_loops(graph).body[0].attributes["body"].graph)
    graph round(h: f32[4, 8]) {
        %0: f32[4, 8] = sin(h)
        return %0
    }
    """
    if not has_loops(graph):
        return graph
    graph = rewrite_loops(dead_code(graph), partial(_with_optimized_body, device))
    graph = sink(hoist(sums(graph)))
    graph = rewrite_loops(
        graph, _with_split_products
    )  # what only products in the rounds still read
    graph = sink(graph)
    return dead_code(simplify(fold(graph)))  # views of views and of constants, written by these


def restructure_loops(graph: Graph) -> Graph:
    """``graph`` with nothing in its loops that need not run in rounds: for graphs that will be differentiated.

    The gradients of what left a loop are then computed outside too, and what remains needs less to be kept. No
    statement outside is rewritten. What was collected stays a copy of what was computed, as in eager execution, where
    the stack may be changed before backward.

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f(h: f32[8, 8], w: f32[3, 8], xs: f32[5, 8, 3]) {
    ...     %0: loop(f32[8, 8]) = loop(h, w, xs, count=5, carried=1, items=1)
    ...         graph round(h: f32[8, 8], w: f32[3, 8], x: f32[8, 3]) {
    ...             %0: f32[8, 8] = matmul(x, w)
    ...             %1: f32[8, 8] = mul(h, %0)
    ...             return %1
    ...         }
    ...     %1: f32[8, 8] = part(%0, index=0)
    ...     return %1
    ... }''')
    >>> [v.op.name for v in restructure_loops(graph).values]
    ['reshape', 'matmul', 'reshape', 'loop', 'part']
    """
    if not has_loops(graph):
        return graph
    graph = rewrite_loops(dead_code(graph), _with_split_products)
    return sink(hoist(graph, copied=True), copied=True)


def _with_optimized_body(
    device: int, builder: Builder, loop: Value, used: set[int]
) -> Parts | None:
    """The rule: a loop whose body went through the passes."""
    from ..pipeline import run_passes  # which calls this

    graph = _without_copies(run_passes(body_of(loop), device=device, inside=True))
    return with_body(builder, loop, split_products(graph, returned=True))


def _with_split_products(builder: Builder, loop: Value, used: set[int]) -> Parts | None:
    """The rule: a loop that joins no matrices only to multiply them."""
    return with_body(builder, loop, dead_code(split_products(body_of(loop), returned=True)))


def with_body(builder: Builder, loop: Value, graph: Graph) -> Parts | None:
    """What a rule makes of a loop that gets ``graph`` as its body; None where that is the body it has."""
    if unless_same(body_of(loop), graph) is body_of(loop):
        return None
    return parts_of(builder, Draft.of(loop).finish(graph.values, graph.outputs))


def _without_copies(body: Graph) -> Graph:
    """What a round returns has memory of its own in any case."""
    outputs = tuple(
        v.value_operands[0] if v.op is clone and v.value_operands[0].spec == v.spec else v
        for v in body.outputs
    )
    return dead_code(Graph(body.name, body.inputs, body.body, outputs))
