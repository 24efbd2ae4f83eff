"""Which values gradients flow through, loops included.

Forward, a value is *tracked* when it depends on a wanted input by differentiable ops: eager execution would mark it
``requires_grad``. Backward, a tracked value is *reached* when some output that is given a gradient depends on it so.
What a loop carries goes around, so both are fixed points there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...ir.graph import Graph, Value
from ...ir.loops import body_of, is_loop, part
from ...ir.rules import present, rule, ruled, sealed


def wanted_operands(value: Value, tracked: set[Value]) -> list[bool]:
    """For each operand of a statement: does a gradient flow to it?"""
    op = value.op
    assert op is not None
    if op is rule:
        first, count = 2 * value.attributes["outputs"], value.attributes["inputs"]
        place = range(first, first + count)
        return [i in place and x in tracked for i, x in enumerate(value.operands)]
    if op is ruled:
        return [False, value.operands[1] in tracked]
    if op is present or op is sealed:
        return [i == 0 and x in tracked for i, x in enumerate(value.operands)]
    return [
        isinstance(x, Value) and x in tracked and op.gradient_rule(position) is not None
        for position, x in enumerate(value.operands)
    ]


def tracked_values(graph: Graph, wrt: Sequence[bool]) -> set[Value]:
    """The values that depend on the inputs marked in ``wrt``.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[2], y: f32[2]) { %0: f32[2] = exp(x) %1: f32[2] = exp(y) return %0, %1 }")
    >>> found = tracked_values(graph, [True, False])
    >>> [v in found for v in graph.outputs]
    [True, False]
    """
    found = {
        v for v, want in zip(graph.inputs, wrt, strict=True) if want and v.dtype.is_differentiable
    }
    parts: dict[Value, set[int]] = {}
    for value in graph.values:
        if is_loop(value):
            parts[value] = tracked_parts(value, found)
        elif value.op is part:
            if value.attributes["index"] in parts[value.value_operands[0]]:
                found.add(value)
        elif value.dtype.is_differentiable and any(wanted_operands(value, found)):
            found.add(value)
    return found


def body_wants(loop: Value, tracked: set[Value]) -> list[bool]:
    """Which inputs of a loop's body are tracked, in some round, when these values are outside."""
    graph, carried = body_of(loop), loop.attributes["carried"]
    wants = [x in tracked for x in loop.value_operands]
    while True:
        found = tracked_values(graph, wants)
        now = [want or (i < carried and graph.outputs[i] in found) for i, want in enumerate(wants)]
        if now == wants:
            return wants
        wants = now


def tracked_parts(loop: Value, tracked: set[Value]) -> set[int]:
    """The parts of a loop that are tracked; what is carried to the end of no round is what it started from."""
    found = tracked_values(body_of(loop), body_wants(loop, tracked))
    return {i for i, v in enumerate(body_of(loop).outputs) if v in found}


@dataclass(frozen=True)
class Reached:
    """The values that receive gradients and, for loops, the parts that do (from outside or from a later round)."""

    values: set[Value]
    parts: dict[Value, set[int]]


def reached_values(graph: Graph, tracked: set[Value], outputs: Iterable[Value]) -> Reached:
    """What receives a gradient when ``outputs`` do."""
    found = Reached({v for v in outputs if v in tracked}, {})
    for value in reversed(list(graph.values)):
        if is_loop(value):
            if value in found.parts:
                _through_loop(value, tracked, found)
        elif value not in found.values:
            continue
        elif value.op is part:
            parts = found.parts.setdefault(value.value_operands[0], set())
            parts.add(value.attributes["index"])
        else:
            wanted = zip(value.operands, wanted_operands(value, tracked), strict=True)
            found.values.update(x for x, want in wanted if want and isinstance(x, Value))
    return found


def _through_loop(loop: Value, tracked: set[Value], found: Reached) -> None:
    """Add what the gradients of a loop's parts reach: more parts by way of what is carried, then operands."""
    graph, carried = body_of(loop), loop.attributes["carried"]
    inside = tracked_values(graph, body_wants(loop, tracked))
    parts = found.parts[loop]
    while True:
        reached = reached_values(graph, inside, [graph.outputs[i] for i in sorted(parts)]).values
        more = {
            i
            for i, v in enumerate(graph.inputs[:carried])
            if v in reached and graph.outputs[i] in inside
        }
        if more <= parts:
            break
        parts |= more
    for operand, value in zip(loop.value_operands, graph.inputs, strict=True):
        if value in reached and operand in tracked:
            found.values.add(operand)
