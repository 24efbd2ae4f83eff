"""Symbolic plans with the sizes of one recorded tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..extents import Extents
from ..ir.graph import Graph, Value
from ..runtime.program import bind_numbers
from ..types import TensorType


@dataclass(frozen=True, eq=False)
class Bound:
    """A structure's symbols with the sizes of one recorded tree."""

    scope: Extents
    sizes: Mapping[int, int]
    names: Mapping[Value, Value]  # from symbolic values to recorded ones
    lock: Any

    def recorded(self, value: Value) -> Value:
        """The recorded value a symbolic one stands for; itself when it was made by the compiler."""
        return self.names.get(value, value)

    def numbers(self, values: Sequence[Any]) -> Any:
        """``values`` with their symbolic sizes as numbers."""
        return bind_numbers(self.scope, self.sizes, values)

    def graph(self, graph: Graph) -> Graph:
        """A symbolic graph with its sizes as numbers."""
        parts = [
            (v.type.shape, v.operands, dict(v.attributes)) for v in (*graph.inputs, *graph.values)
        ]
        found = self.numbers(
            [(s, [x for x in o if not isinstance(x, Value)], a) for s, o, a in parts]
        )
        mapping: dict[Value, Value] = {}
        for value, (shape, scalars, attributes) in zip(
            (*graph.inputs, *graph.values), found, strict=True
        ):
            rest = iter(scalars)
            operands = tuple(
                mapping[x] if isinstance(x, Value) else next(rest) for x in value.operands
            )
            kind = TensorType(shape, value.type.dtype)
            mapping[value] = Value(
                kind, value.op, operands, attributes, name=value.name, line=value.line
            )
        inputs = tuple(mapping[v] for v in graph.inputs)
        body = tuple(mapping[v] for v in graph.values)
        return Graph(graph.name, inputs, body, tuple(mapping[v] for v in graph.outputs))
