"""Copies and marks: after differentiation, ``clone`` and ``detach_copy`` inside a graph mean nothing.

Before::

    graph f(x: f32[2]) {
        %0: f32[2] = clone(x)
        %1: f32[2] = detach_copy(%0)
        %2: f32[2] = exp(%1)
        return %2
    }

After::

    graph f(x: f32[2]) {
        %0: f32[2] = exp(x)
        return %0
    }

Values never change, so a copy is its source; ``detach_copy`` only tells differentiation where to stop. An output that
was a copy of an input or of another output stays one: it has memory of its own.
"""

from __future__ import annotations

from ...ir.graph import Graph, Value
from ...ops.elementwise import overwritten
from ..rewrite import Rewriter, Rules


def drop_copies(graph: Graph) -> Graph:
    """``graph`` without inner copies and marks.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[2]) { %0: f32[2] = clone(x) %1: f32[2] = exp(%0) return %1 }")
    >>> len(drop_copies(graph).body)
    1
    """
    return Rewriter(graph.name, RULES).run(graph)


def is_mark(value: Value) -> bool:
    """Is a value its first operand, with something besides for differentiation?

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[2], y: f32[2]) { %0: f32[2] = overwritten(x, y) return %0 }")
    >>> is_mark(graph.body[0])
    True
    """
    operands = value.operands  # the first may be a number
    written = operands[0] if value.op is overwritten else None
    return isinstance(written, Value) and written.spec == value.spec


def _source(_: Rewriter, value: Value) -> Value | None:
    x = value.operands[0]
    return x if isinstance(x, Value) and x.spec == value.spec else None


def _selection(rewriter: Rewriter, value: Value) -> Value | None:
    """What only differs from ``where`` when it is differentiated."""
    found = rewriter.write("where", value.operands, value.line)
    return found if found.spec == value.spec else None


#: Rules of functions have been followed by now: what they rule is what forward computed.
_MARKS = (
    "clone",
    "leaning",
    "detach_copy",
    "overwritten",
    "continued",
    "ruled",
    "present",
    "sealed",
)
RULES: Rules = {**dict.fromkeys(_MARKS, (_source,)), "chosen": (_selection,)}
