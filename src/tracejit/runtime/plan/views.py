"""Layouts of views, and making every view of a graph one that memory allows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...codegen.nest import Layout
from ...ir.builder import Builder, mapped
from ...ir.graph import Graph, Guard, Value
from ...ir.loops import is_last_carried, is_loop, split_operands
from ...ops import elementwise, movement
from ...ops.table import Contraction, Movement
from ...passes.fusion.groups import is_constant, is_view
from ...passes.simplify.liveness import live_part
from ...types import Shape
from .taps import is_read, is_taps
from .vector_calls import is_dense, is_vector_call


def strided_view(
    op: Movement, attributes: Mapping[str, Any], operand: Layout, shape: Shape, result: Shape
) -> Layout | None:
    """What a view op does to the layout of an operand of ``shape``; None when it would copy."""
    found = op.strides(shape, operand.strides, result, **attributes)  # type: ignore[misc]
    if found is None:
        return None
    offset, strides = found
    return Layout(operand.root, operand.offset * op.parts + offset, strides)


def contiguous(value: Value) -> Layout:
    """Row-major layout of a value of its own."""
    return Layout(value, 0, value.spec.contiguous_strides())


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
        if value not in self.found:
            self.found[value] = contiguous(value)
        layout = self.found[value]
        for view in reversed(chain):
            assert isinstance(view.op, Movement)
            if layout is not None:
                shape = view.value_operands[0].spec.shape
                layout = strided_view(view.op, view.attributes, layout, shape, view.spec.shape)
            self.found[view] = layout
        return layout

    def __call__(self, value: Value) -> Layout:
        """The layout of a value that has one."""
        layout = self.find(value)
        assert layout is not None, f"no layout for {value}"
        return layout


#: Dtypes whose products are a library's on the host.
PRODUCTS = frozenset({"f32", "f64"})


def legalize(
    graph: Graph,
    input_strides: Sequence[Shape],
    levels: int = 2,
    products: Collection[str] = PRODUCTS,
) -> tuple[Graph, Layouts]:
    """Insert copies where a reshape cannot be a view; drop guards, which a plan does not run.

    ``levels`` is how many strides a batch of matrices may take, ``products`` the dtypes whose products a library
    computes, from operands that it can read.
    """
    builder = Builder(graph.name)
    mapping: dict[Value, Value] = {}
    strides: dict[Value, Shape] = {}
    for value, found in zip(graph.inputs, input_strides, strict=True):
        mapping[value] = builder.input(value.name, value.spec)
        strides[mapping[value]] = found
    layouts = Layouts(strides)
    for statement in graph.body:
        if isinstance(statement, Guard):
            continue
        if is_loop(statement):
            mapping[statement] = _own_carried(builder, statement, mapping)
            continue
        new = mapped(statement, mapping)
        new = builder.insert(_readable(builder, layouts, new, levels, products))
        if is_view(new) and layouts.find(new) is None:
            source = builder.emit(elementwise.clone, (new.operands[0],), {}, new.line)
            assert new.op is not None
            new = builder.emit(new.op, (source,), new.attributes, new.line)
        mapping[statement] = new
    legal = builder.finish([_own_memory(builder, mapping[v]) for v in graph.outputs])
    return live_part(legal), layouts


def matrix_layout(
    shape: Shape, strides: Shape, batch: Shape, levels: int = 2
) -> tuple[int, bool, Any] | None:
    """Leading dimension, transposition and batch stride of an operand of a product; None when BLAS cannot read it.

    A batch stride is a number, or (count, outer, inner) as in :class:`~..blas.Gemm` where it takes two
    (``levels``: how many it may take).

    >>> matrix_layout((3, 4), (4, 1), ()), matrix_layout((3, 4), (1, 3), ()), matrix_layout((3, 4), (8, 2), ())
    ((4, False, 0), (3, True, 0), None)
    >>> matrix_layout((2, 5, 3, 4), (60, 4, 20, 1), (2, 5))
    (20, False, (5, 60, 4))
    """
    rows, columns = shape[-2], shape[-1]
    stride = _batch_stride(shape[:-2], strides[:-2], batch, levels)
    if stride is None:
        return None
    row, column = strides[-2], strides[-1]
    if (column == 1 or columns <= 1) and (row >= max(columns, 1) or rows <= 1):
        return max(row if rows > 1 else columns, columns, 1), False, stride
    if (row == 1 or rows <= 1) and (column >= max(rows, 1) or columns <= 1):
        return max(column if columns > 1 else rows, rows, 1), True, stride
    return None


def _batch_stride(own: Shape, strides: Shape, batch: Shape, levels: int) -> Any:
    """Strides that walk all batch dimensions in order, None when it takes more than `levels`."""
    full = [0] * (len(batch) - len(own)) + [
        0 if e == 1 else s for e, s in zip(own, strides, strict=True)
    ]
    runs: list[
        tuple[int, int]
    ] = []  # extent and stride of neighbouring dimensions that are walked as one
    for extent, stride in zip(batch, full, strict=True):
        if extent == 1:
            continue
        if runs and runs[-1][1] == stride * extent:
            runs[-1] = runs[-1][0] * extent, stride
        else:
            runs.append((extent, stride))
    if len(runs) > levels:
        return None
    if len(runs) < 2:
        return runs[0][1] if runs else 0
    (_, outer), (count, inner) = runs
    return count, outer, inner


def _readable(
    builder: Builder, layouts: Layouts, value: Value, levels: int, products: Collection[str]
) -> Value:
    """A matrix product, or a convolution over flat memory, on copies of the operands that its step cannot read."""
    if is_taps(value):
        found = tuple(
            x
            if is_read(value, number, layouts(x).strides)
            else builder.emit(elementwise.clone, (x,), {}, value.line)
            for number, x in enumerate(value.value_operands)
        )
        return Value(value.spec, value.op, found, value.attributes, line=value.line)
    if is_vector_call(value):
        found = tuple(
            x
            if is_dense(x, layouts(x).strides)
            else builder.emit(elementwise.clone, (x,), {}, value.line)
            for x in value.value_operands
        )
        return Value(value.spec, value.op, found, value.attributes, line=value.line)
    if not isinstance(value.op, Contraction) or value.op.name != "matmul":
        return value
    if value.spec.dtype.short not in products:
        return value
    batch = value.spec.shape[:-2]
    operands = [
        x
        if matrix_layout(x.spec.shape, layouts(x).strides, batch, levels) is not None
        else builder.emit(elementwise.clone, (x,), {}, value.line)
        for x in value.value_operands
    ]
    return Value(value.spec, value.op, tuple(operands), value.attributes, line=value.line)


def _own_carried(builder: Builder, loop: Value, mapping: Mapping[Value, Value]) -> Value:
    """A loop whose first carried values are its own: it will write over them."""
    carried, fixed, stacks = split_operands(loop)
    copies: list[Value] = []
    for value in carried:
        copy = Value(value.spec, elementwise.clone, (mapping[value],), {}, line=loop.line)
        builder.body.append(copy)  # never shared, even if equal
        copies.append(copy)
    operands = (*copies, *(mapping[v] for v in (*fixed, *stacks)))
    new = Value(loop.spec, loop.op, operands, loop.attributes, line=loop.line)
    builder.body.append(new)
    return new


def _own_memory(builder: Builder, value: Value) -> Value:
    """An output must be computed, not shown: copy inputs, views, and constants."""
    if value.op is not None and not (
        is_view(value) or is_constant(value) or is_last_carried(value)
    ):
        return value
    if value.spec.ndim and _shows_all(value):
        return builder.emit(movement.cat, (value,), {"dim": 0}, value.line)
    return builder.emit(elementwise.clone, (value,), {}, value.line)


def _shows_all(value: Value) -> bool:
    """Is this something computed, reshaped or as elements were moved to, which may be made in the output's memory?"""
    while value.op in (movement.reshape, movement.squeeze, movement.unsqueeze):
        value = value.value_operands[0]
    if value.op is None or is_view(value) or is_constant(value) or is_last_carried(value):
        return False
    return not is_loop(value)
