"""Loops without what nobody needs.

Dropped are collected results that nobody reads, carried values that influence nothing, and operands that no round
reads. What is carried but never changes becomes fixed, items that are the same in every round do too, and constants
move into the body, where they cost nothing. Operands given twice and results collected twice become one.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Graph, Value
from ...ir.loops import body_of, loop_value, part_value
from ...ops.movement import expand
from ..simplify.dead_code import dead_code
from ..simplify.liveness import needs
from .rewrite import Parts, unless_same
from .stacks import constant_like, same_every_round, uniform


def prune(builder: Builder, loop: Value, used: set[int]) -> Parts | None:
    """A rule for :func:`~.rewrite.rewrite_loops`: the loop that gives the parts in ``used``."""
    outputs, inputs = needs(loop, used)
    found = _Pruned(builder, loop, inputs)
    return found.parts(sorted(outputs))


class _Pruned:
    """Sorts the inputs of a body anew: what is carried, fixed values and stacks by operand, constants."""

    def __init__(self, builder: Builder, loop: Value, inputs: set[int]) -> None:
        self.builder = builder
        self.loop = loop
        self.graph = body_of(loop)
        self.carried: int = loop.attributes["carried"]
        self.first_item = len(loop.value_operands) - int(loop.attributes["items"])
        self.state: list[int] = []
        self.unchanged: set[int] = set()
        self.fixed: dict[Value, Value] = {}  # from operands to inputs of the body
        self.stacks: dict[Value, Value] = {}
        self.inner = Builder(self.graph.name)
        self.mapping: dict[Value, Value] = {}
        for i, value in enumerate(self.graph.inputs):
            if i in inputs:
                self.sort(i, loop.value_operands[i], value)

    def sort(self, position: int, operand: Value, value: Value) -> None:
        """Decide what an input becomes."""
        self.mapping[value] = value
        if position < self.carried:
            if self.graph.outputs[position] is not value:
                self.state.append(position)
                return
            self.unchanged.add(position)
        number = uniform(operand)
        if number is not None:
            self.mapping[value] = constant_like(self.inner, number, value.spec)
            return
        known = self.stacks if position >= self.first_item else self.fixed
        if known is self.stacks:
            every = same_every_round(self.builder, operand)
            if every is not None:
                operand, known = every, self.fixed
        if known is self.fixed and operand.op is expand:  # nothing to read but its source
            operand = operand.value_operands[0]
        inside = known.get(operand)
        if inside is None:
            same = known is self.stacks or operand.spec == value.spec
            inside = known[operand] = value if same else Value(operand.spec, name=value.name)
        if inside.spec != value.spec:
            inside = self.inner.emit(expand, (inside,), {"shape": value.spec.shape}, self.loop.line)
        self.mapping[value] = inside

    def parts(self, outputs: list[int]) -> Parts | None:
        """The parts of the new loop; None if it is the old one."""
        collected: dict[Value, int] = {}
        for i in outputs:
            if i >= self.carried:
                position = len(self.state) + len(collected)
                collected.setdefault(self.graph.outputs[i], position)
        carried = [self.graph.outputs[i] for i in self.state]
        body = self.body([*carried, *collected])
        positions = {i: number for number, i in enumerate(self.state)}
        operands = self.loop.value_operands
        new = self.loop
        if unless_same(self.graph, body) is not self.graph:
            starts = [operands[i] for i in self.state]
            count, line = self.loop.attributes["count"], self.loop.line
            until = self.loop.attributes.get("until")
            new = loop_value(starts, [*self.fixed], [*self.stacks], body, count, line, until)
        elif [*map(id, (*self.fixed, *self.stacks))] == [*map(id, operands[self.carried :])]:
            return None

        def part(index: int) -> Value:
            if index in self.unchanged:
                return operands[index]
            at = positions[index] if index in positions else collected[self.graph.outputs[index]]
            return self.builder.insert(part_value(self.builder.insert(new), at))

        return part

    def body(self, outputs: list[Value]) -> Graph:
        """The body on the new inputs."""
        graph = self.graph
        chosen = dead_code(Graph(graph.name, graph.inputs, graph.body, tuple(outputs)))
        positions = [graph.inputs[i] for i in self.state]
        self.inner.inputs = [*positions, *self.fixed.values(), *self.stacks.values()]
        for value in chosen.values:
            self.mapping[value] = self.inner.copy(value, self.mapping)
        return self.inner.finish([self.mapping[v] for v in chosen.outputs])
