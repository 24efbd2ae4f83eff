"""Symbolic plans with the sizes of one recorded tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...extents import Extents
from ...ir.graph import Graph, Value
from ...ir.loops import body_of, is_loop, loop_value, split_operands
from ...runtime.eager.filling import bind_numbers
from ...types import TensorType


@dataclass(frozen=True, eq=False)
class Bound:
    """A structure's symbols with the sizes of one recorded tree."""

    scope: Extents
    sizes: Mapping[int, int]
    names: Mapping[Value, Value]  # from symbolic values to recorded ones
    lock: Any
    #: Sizes that runs tell, as they were planned for: types of inputs that nothing reads name some that no run tells.
    planned: Mapping[int, int] = field(default_factory=dict)

    def recorded(self, value: Value) -> Value:
        """The recorded value a symbolic one stands for; itself when it was made by the compiler."""
        return self.names.get(value, value)

    def numbers(self, values: Sequence[Any]) -> Any:
        """``values`` with their symbolic sizes as numbers."""
        return bind_numbers(self.scope, self.sizes, values)

    def graph(self, graph: Graph) -> Graph:
        """A symbolic graph with its sizes as numbers."""
        values = (*graph.inputs, *graph.values)
        read = graph.read()
        known = {**self.planned, **self.sizes}
        found = self.numbers(
            [
                (
                    v.spec.shape if v in read else bind_numbers(self.scope, known, v.spec.shape),
                    [x for x in v.operands if not isinstance(x, Value)],
                    {name: x for name, x in v.attributes.items() if name != "body"},
                )
                for v in values
            ]
        )
        mapping: dict[Value, Value] = {}
        for value, (shape, scalars, attributes) in zip(values, found, strict=True):
            if is_loop(value):
                mapping[value] = self.loop(value, mapping, attributes["count"])
                continue
            rest = iter(scalars)
            operands = tuple(
                mapping[x] if isinstance(x, Value) else next(rest) for x in value.operands
            )
            kind = TensorType(shape, value.spec.dtype)
            mapping[value] = Value(
                kind, value.op, operands, attributes, name=value.name, line=value.line
            )
        inputs = tuple(mapping[v] for v in graph.inputs)
        body = tuple(mapping[v] for v in graph.values)
        return Graph(graph.name, inputs, body, tuple(mapping[v] for v in graph.outputs))

    def loop(self, value: Value, mapping: Mapping[Value, Value], count: int) -> Value:
        """A loop on the mapped operands, with its body's sizes as numbers too."""
        first, fixed, stacks = ([mapping[x] for x in xs] for xs in split_operands(value))
        graph, until = self.graph(body_of(value)), value.attributes.get("until")
        return loop_value(first, fixed, stacks, graph, count, value.line, until)
