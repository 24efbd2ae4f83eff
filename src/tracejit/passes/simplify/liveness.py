"""What a result depends on, loops looked into: which parts are read, and what of a loop these ask for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ...ir.graph import Graph, Value
from ...ir.loops import body_of, is_loop, is_open, part


def has_loops(graph: Graph) -> bool:
    """Is there a loop among the statements?"""
    return any(map(is_loop, graph.values))


@dataclass
class Live:
    """The values that something depends on, inputs among them, and which parts of loops."""

    values: set[Value]
    parts: dict[Value, set[int]] = field(default_factory=dict)


def live(graph: Graph, outputs: Iterable[Value] | None = None) -> Live:
    """What ``outputs`` (by default those of the graph) and guards depend on.

    An operand of a loop is live only if a round reads it for a part that is read.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[2]) { %0: f32[2] = exp(x) %1: f32[2] = exp(%0) return %0 }")
    >>> len(live(graph).values)
    2
    """
    shown = graph.outputs if outputs is None else outputs
    found = Live({*shown, *(guard.value for guard in graph.guards)})
    for statement in reversed(graph.body):
        if not isinstance(statement, Value) or statement not in found.values:
            continue
        if is_loop(statement):
            inputs = needs(statement, found.parts[statement])[1]
            operands = statement.value_operands
            found.values.update(x for i, x in enumerate(operands) if i in inputs)
        else:
            found.values.update(statement.value_operands)
            if statement.op is part:
                parts = found.parts.setdefault(statement.value_operands[0], set())
                parts.add(statement.attributes["index"])
    return found


def live_part(graph: Graph) -> Graph:
    """``graph`` without statements that no output depends on, and without guards.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[2]) { %0: f32[2] = exp(x)  return x }")
    >>> len(live_part(graph).body)
    0
    """
    seen: set[Value] = set()
    stack = list(graph.outputs)
    while stack:
        value = stack.pop()
        if value not in seen:
            seen.add(value)
            stack.extend(value.value_operands)
    body = tuple(v for v in graph.values if v in seen)
    return Graph(graph.name, graph.inputs, body, graph.outputs)


def needs(loop: Value, parts: Iterable[int]) -> tuple[set[int], set[int]]:
    """The outputs that the body must have for these parts, and the inputs these depend on.

    What a round carries on is needed when a later round reads it, and what decides about the end in any case.
    """
    graph, carried = body_of(loop), loop.attributes["carried"]
    outputs = {*parts, carried - 1} if is_open(loop) else set(parts)
    while True:
        values = live(graph, [graph.outputs[i] for i in sorted(outputs)]).values
        inputs = {i for i, v in enumerate(graph.inputs) if v in values}
        more = {i for i in inputs if i < carried}
        if more <= outputs:
            return outputs, inputs | {i for i in outputs if i < carried}
        outputs |= more
