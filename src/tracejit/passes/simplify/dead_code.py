"""Dead code: drop the statements that no output and no guard depends on.

Before::

    graph f(x: f32[2]) {
        %0: f32[2] = exp(x)
        %1: f32[2] = mul(x, 2.0)
        return %1
    }

After::

    graph f(x: f32[2]) {
        %0: f32[2] = mul(x, 2.0)
        return %0
    }

Inputs stay, used or not: they are the signature of the graph. Loops lose what no part that is read depends on (see
:mod:`..loops.prune`).
"""

from __future__ import annotations

from ...ir.graph import Graph, Value
from .liveness import has_loops


def dead_code(graph: Graph) -> Graph:
    """``graph`` without statements that nothing depends on; the graph itself when there are none.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[2]) { %0: f32[2] = exp(x)  return x }")
    >>> len(dead_code(graph).body)
    0
    """
    if has_loops(graph):
        from ..loops.prune import prune  # which looks for dead code in bodies
        from ..loops.rewrite import rewrite_loops

        graph = rewrite_loops(graph, prune)
    live = live_values(graph)
    body = tuple(s for s in graph.body if not isinstance(s, Value) or s in live)
    if len(body) == len(graph.body):
        return graph
    return Graph(graph.name, graph.inputs, body, graph.outputs)


def live_values(graph: Graph) -> set[Value]:
    """The values that outputs and guards depend on, inputs among them."""
    live = {*graph.outputs, *(guard.value for guard in graph.guards)}
    for statement in reversed(graph.body):
        if isinstance(statement, Value) and statement in live:
            live.update(statement.value_operands)
    return live
