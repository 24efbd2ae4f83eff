"""Hoisting: what a round computes from items and fixed values alone is computed for all rounds before the loop.

Before (of the body, and around it)::

    %0: loop(f32[4, 8]) = loop(h, u, w, xs, count=5, carried=1, items=1)
        graph round(h: f32[4, 8], u: f32[8, 8], w: f32[3, 8], x: f32[4, 3]) {
            %0: f32[4, 8] = matmul(x, w)
            %1: f32[4, 8] = matmul(h, u)
            %2: f32[4, 8] = add(%0, %1)
            return %2
        }

After::

    %0: f32[20, 3] = reshape(xs, shape=(20, 3))
    %1: f32[20, 8] = matmul(%0, w)
    %2: f32[5, 4, 8] = reshape(%1, shape=(5, 4, 8))
    %3: loop(f32[4, 8]) = loop(h, u, %2, count=5, carried=1, items=1)
        graph round(h: f32[4, 8], u: f32[8, 8], s0: f32[4, 8]) {
            %0: f32[4, 8] = matmul(h, u)
            %1: f32[4, 8] = add(s0, %0)
            return %1
        }

Views, constants and cheap elementwise ops on items stay where they are read: there they cost nothing, outside a stack.
What is only collected leaves the loop altogether.
"""

from __future__ import annotations

from ...ir.builder import Builder, mapped
from ...ir.graph import Graph, Value
from ...ir.loops import body_of, is_open, part_value
from ...ops.table import Elementwise
from ..fusion.groups import is_constant
from ..rewrite import is_view
from ..simplify.dead_code import dead_code
from .batch import Batch, outside_values
from .draft import Draft
from .rewrite import Parts, rewrite_loops


def hoist(graph: Graph, copied: bool = False) -> Graph:
    """``graph`` with what rounds compute independently of each other moved before its loops.

    With ``copied``, what the loops collected of it is a copy.

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f(h: f32[2], xs: f32[5, 3, 2]) {
    ...     %0: loop(f32[2]) = loop(h, xs, count=5, carried=1, items=1)
    ...         graph round(h: f32[2], x: f32[3, 2]) {
    ...             %0: f32[2] = sum(x, dims=(0,), keepdim=False)
    ...             %1: f32[2] = add(h, %0)
    ...             return %1
    ...         }
    ...     %1: f32[2] = part(%0, index=0)
    ...     return %1
    ... }''')
    >>> print(hoist(graph).body[0].attributes)
    {'dims': (1,), 'keepdim': False}
    """
    return dead_code(rewrite_loops(dead_code(graph), _hoisted, copied))


def _hoisted(builder: Builder, loop: Value, used: set[int]) -> Parts | None:
    """The rule: a loop without what can be computed before it."""
    if is_open(loop):  # nobody knows for how many rounds
        return None
    graph, carried = body_of(loop), loop.attributes["carried"]
    outside = outside_values(loop)
    stay = [v for i, v in enumerate(graph.outputs) if i < carried or v not in outside]
    inside, frontier = _split(graph, stay, outside)
    gone = [v for v in graph.outputs[carried:] if v in outside]
    if not frontier and not gone:
        return None
    batch = Batch(builder, loop)
    before = _ancestors(graph, [*frontier, *gone], outside)
    for value in before:
        batch.write(value)
    new = _without(loop, batch, inside, frontier, stay)
    positions = {v: i for i, v in reversed(list(enumerate(stay))) if i >= carried}

    def part(index: int) -> Value:
        value = graph.outputs[index]
        if index >= carried and value in outside:
            return batch.stack(value)
        position = index if index < carried else positions[value]
        return builder.insert(part_value(builder.insert(new), position))

    return part


def _split(
    graph: Graph, outputs: list[Value], outside: dict[Value, bool]
) -> tuple[list[Value], list[Value]]:
    """The statements that stay in the body, and the values that come from outside."""
    needed = set(outputs)
    inside, frontier = [], []
    for value in reversed(list(graph.values)):
        if value not in needed:
            continue
        if value in outside and not _stays(value, outside[value]):
            frontier.append(value)
        else:
            inside.append(value)
            needed.update(value.value_operands)
    return inside[::-1], frontier[::-1]


def _stays(value: Value, stack: bool) -> bool:
    """Does a round compute the value as fast as it reads it?"""
    op = value.op
    if is_view(value) or is_constant(value):
        return True
    return stack and isinstance(op, Elementwise) and op.scalar is not None


def _ancestors(graph: Graph, values: list[Value], outside: dict[Value, bool]) -> list[Value]:
    """The statements that ``values`` are computed by, in order."""
    needed = set(values)
    found = []
    for value in reversed(list(graph.values)):
        if value in needed:
            assert value in outside
            needed.update(value.value_operands)
            found.append(value)
    return found[::-1]


def _without(
    loop: Value, batch: Batch, inside: list[Value], frontier: list[Value], outputs: list[Value]
) -> Value:
    """The loop that takes the values of ``frontier`` from outside."""
    draft = Draft.of(loop)
    mapping: dict[Value, Value] = {v: v for v in draft.inputs}
    for number, value in enumerate(frontier):
        take = draft.item if value in batch.stacks else draft.fix
        outside = batch.stack(value) if value in batch.stacks else batch.known[value]
        mapping[value] = take(f"s{number}", outside)
    statements = []
    for value in inside:
        mapping[value] = mapped(value, mapping)
        statements.append(mapping[value])
    return draft.finish(statements, [mapping[v] for v in outputs])
