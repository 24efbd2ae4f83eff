"""The engine of rewrites of loops: a rule writes a loop anew and tells what takes the place of each part."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.builder import Builder, mapped
from ...ir.graph import Graph, Guard, Value
from ...ir.loops import is_loop, part, part_value
from ...ops.elementwise import clone
from ..rewrite import own_outputs
from ..simplify.liveness import has_loops, live

#: What takes the place of a part, by index.
Parts = Callable[[int], Value]
#: Writes a loop, whose operands are written already and of which these parts are read, in another way.
LoopRule = Callable[[Builder, Value, set[int]], Parts | None]


def rewrite_loops(graph: Graph, rule: LoopRule, copied: bool = False) -> Graph:
    """``graph`` with every loop written by ``rule``, or as it was where that returns None; without dead code.

    Equal statements become one, as in any pass that writes through a builder. With ``copied``, what takes the place of
    a part and is none is a copy: a graph that will be differentiated shall not show memory that its gradient reads.
    """
    if not has_loops(graph):
        return graph
    found = live(graph)
    builder = Builder(graph.name)
    builder.inputs.extend(graph.inputs)
    mapping: dict[Value, Value] = {v: v for v in graph.inputs}
    parts: dict[Value, Parts] = {}
    for statement in graph.body:
        if isinstance(statement, Guard):
            builder.guard(mapping[statement.value], statement.expected, statement.line)
        elif statement not in found.values:
            continue
        elif is_loop(statement):
            loop = _on_what_is_live(statement, mapping)
            builder.line = statement.line
            written = rule(builder, loop, found.parts[statement])
            if written is None:
                mapping[statement] = builder.insert(loop)
            else:
                parts[statement] = written
            builder.line = None
        elif statement.op is part and statement.value_operands[0] in parts:
            new = parts[statement.value_operands[0]](statement.attributes["index"])
            if copied and new.op is not part:
                new = builder.emit(clone, (new,), {}, statement.line)
            mapping[statement] = new
        else:
            mapping[statement] = builder.copy(statement, mapping)
    return unless_same(graph, builder.finish(own_outputs(graph, mapping, builder)))


def unless_same(old: Graph, new: Graph) -> Graph:
    """``old`` itself if ``new`` consists of the same statements.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[2]) { %0: f32[2] = exp(x) return %0 }")
    >>> unless_same(graph, Graph("f", graph.inputs, graph.body, graph.outputs)) is graph
    True
    """
    pieces = zip(
        (old.inputs, old.body, old.outputs), (new.inputs, new.body, new.outputs), strict=True
    )
    return old if all([*map(id, a)] == [*map(id, b)] for a, b in pieces) else new


def parts_of(builder: Builder, loop: Value) -> Parts:
    """The parts of a new loop, which is written when the first of them is."""
    return lambda index: builder.insert(part_value(builder.insert(loop), index))


def _on_what_is_live(loop: Value, mapping: dict[Value, Value]) -> Value:
    """``loop`` on new operands; those that no round reads stay, for the rule to drop."""
    return mapped(loop, {x: mapping.get(x, x) for x in loop.value_operands})
