"""Layouts of views, and making every view of a graph one that memory allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..codegen.nest import Layout
from ..ir.builder import Builder
from ..ir.graph import Graph, Guard, Value
from ..ops import elementwise
from ..ops.table import Movement
from ..passes.groups import is_view
from ..types import Shape


def strided_view(
    op: Movement, attributes: Mapping[str, Any], operand: Layout, shape: Shape, result: Shape
) -> Layout | None:
    """What a view op does to the layout of an operand of ``shape``; None when it would copy."""
    found = op.strides(shape, operand.strides, result, **attributes)  # type: ignore[misc]
    if found is None:
        return None
    offset, strides = found
    return Layout(operand.root, operand.offset + offset, strides)


def contiguous(value: Value) -> Layout:
    """Row-major layout of a value of its own."""
    return Layout(value, 0, value.type.contiguous_strides())


class Layouts:
    """The layout of every value of a graph, given those of its inputs."""

    def __init__(self, inputs: dict[Value, Shape]) -> None:
        self.found: dict[Value, Layout | None] = {v: Layout(v, 0, s) for v, s in inputs.items()}

    def find(self, value: Value) -> Layout | None:
        """The layout; None for a view whose body would copy."""
        chain = []
        while value not in self.found and value.op is not None and is_view(value):
            chain.append(value)
            value = value.value_operands[0]
        layout = self.found.setdefault(value, contiguous(value))
        for view in reversed(chain):
            assert isinstance(view.op, Movement)
            if layout is not None:
                shape = view.value_operands[0].type.shape
                layout = strided_view(view.op, view.attributes, layout, shape, view.type.shape)
            self.found[view] = layout
        return layout

    def __call__(self, value: Value) -> Layout:
        """The layout of a value that has one."""
        layout = self.find(value)
        assert layout is not None, f"no layout for {value}"
        return layout


def legalize(graph: Graph, input_strides: Sequence[Shape]) -> tuple[Graph, Layouts]:
    """Insert copies where a reshape cannot be a view; drop guards, which a plan does not run."""
    builder = Builder(graph.name)
    mapping: dict[Value, Value] = {}
    strides: dict[Value, Shape] = {}
    for value, found in zip(graph.inputs, input_strides, strict=True):
        mapping[value] = builder.input(value.name, value.type)
        strides[mapping[value]] = found
    layouts = Layouts(strides)
    for statement in graph.body:
        if isinstance(statement, Guard):
            continue
        new = builder.copy(statement, mapping)
        if is_view(new) and layouts.find(new) is None:
            source = builder.emit(elementwise.clone, (new.operands[0],), {}, new.line)
            assert new.op is not None
            new = builder.emit(new.op, (source,), new.attributes, new.line)
        mapping[statement] = new
    legal = builder.finish([_own_memory(builder, mapping[v]) for v in graph.outputs])
    live = _live(legal)
    return Graph(
        legal.name, legal.inputs, tuple(v for v in legal.values if v in live), legal.outputs
    ), layouts


def _own_memory(builder: Builder, value: Value) -> Value:
    """An output must be computed, not shown: copy inputs and views."""
    if value.op is None or is_view(value):
        return builder.emit(elementwise.clone, (value,), {}, value.line)
    return value


def _live(graph: Graph) -> set[Value]:
    seen: set[Value] = set()
    stack = list(graph.outputs)
    while stack:
        value = stack.pop()
        if value not in seen:
            seen.add(value)
            stack.extend(value.value_operands)
    return seen
