"""Common subexpressions: equal statements become one.

Before::

    graph f(x: f32[2]) {
        %0: f32[2] = exp(x)
        %1: f32[2] = exp(x)
        %2: f32[2] = add(%0, %1)
        return %2
    }

After::

    graph f(x: f32[2]) {
        %0: f32[2] = exp(x)
        %1: f32[2] = add(%0, %0)
        return %1
    }

The builder's value numbering does the work; this pass writes the graph through a new builder. Ops are pure (random
draws are functions of their key), so equal statements have equal values.
"""

from __future__ import annotations

from ...ir.graph import Graph
from ..rewrite import Rewriter


def cse(graph: Graph) -> Graph:
    """``graph`` with equal statements merged.

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f(x: f32[2]) {
    ...     %0: f32[2] = exp(x)
    ...     %1: f32[2] = exp(x)
    ...     %2: f32[2] = add(%0, %1)
    ...     return %2
    ... }''')
    >>> len(cse(graph).body)
    2
    """
    return Rewriter(graph.name, {}).run(graph)
