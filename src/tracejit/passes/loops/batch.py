"""Statements of a body for all rounds at once.

A value of the body is the same in every round, or a *stack* outside: one more dimension in front, the round.
Elementwise ops, reductions and views get that dimension; a product of a stack with a fixed matrix is one product over
all rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...ir.builder import Builder
from ...ir.graph import Value
from ...ir.loops import body_of
from ...ir.rules import RULE_OPS
from ...ops import indexing
from ...ops import movement as m
from ...ops.contraction import matmul
from ...ops.shapes import numel
from ...ops.table import Elementwise, Op, Reduction, operand_info
from ...types import Shape, TensorType
from ..gradient.weights import weights
from .stacks import flipped, is_flipped

Attributes = Mapping[str, Any]


def _moved_on(name: str) -> Callable[[Attributes, int], Attributes]:
    """Dimensions are one further."""

    def moved(attributes: Attributes, count: int) -> Attributes:
        found = attributes[name]
        more = found + 1 if isinstance(found, int) else tuple(d + 1 for d in found)
        return {**attributes, name: more}

    return moved


def _slices(attributes: Attributes, count: int) -> Attributes:
    starts, counts, steps = (attributes[n] for n in ("starts", "counts", "steps"))
    return {"starts": (0, *starts), "counts": (count, *counts), "steps": (1, *steps)}


def _shape(attributes: Attributes, count: int) -> Attributes:
    return {"shape": (count, *attributes["shape"])}


def _permuted(attributes: Attributes, count: int) -> Attributes:
    return {"dims": (0, *(d + 1 for d in attributes["dims"]))}


def _diagonal(attributes: Attributes, count: int) -> Attributes:
    return {**attributes, "dim1": attributes["dim1"] + 1, "dim2": attributes["dim2"] + 1}


def _padded(attributes: Attributes, count: int) -> Attributes:
    return {**attributes, "widths": ((0, 0), *attributes["widths"])}


#: Views that show all of what they view.
_WHOLE = (m.reshape, m.permute, m.unsqueeze, m.squeeze)
#: What becomes of the attributes of an op whose operands are stacks, all of them.
_ATTRIBUTES: dict[Op, Callable[[Attributes, int], Attributes]] = {
    m.reshape: _shape,
    m.expand: _shape,
    m.permute: _permuted,
    m.unsqueeze: _moved_on("dims"),
    m.squeeze: _moved_on("dims"),
    m.slice: _slices,
    m.slice_scatter: _slices,
    m.diagonal: _diagonal,
    m.diagonal_scatter: _diagonal,
    m.cat: _moved_on("dim"),
    m.pad: _padded,
    indexing.gather: _moved_on("dim"),
}


def attributes_of_stacks(op: Op, attributes: Attributes, count: int) -> Attributes:
    """The attributes of a view op, or of one that moves elements, for ``count`` rounds.

    >>> dict(attributes_of_stacks(m.squeeze, {"dims": (0,)}, 5))
    {'dims': (1,)}
    """
    return _ATTRIBUTES[op](attributes, count)


def can_batch(value: Value, stacked: Sequence[bool]) -> bool:
    """Can the statement be computed for all rounds at once where the operands marked are stacks?

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[2]) { %0: f32[2] = exp(x) %1: f32[2] = cumsum(x, dim=0) return %0 }")
    >>> [can_batch(v, [True]) for v in graph.values]
    [True, False]
    """
    op = value.op
    if op in RULE_OPS:  # a rule is read in one graph
        return False
    if not any(stacked):
        return True
    if isinstance(op, Elementwise):
        return _same_types(value, op, stacked)
    return isinstance(op, Reduction) or op is matmul or op in _ATTRIBUTES


def _same_types(value: Value, op: Elementwise, stacked: Sequence[bool]) -> bool:
    """A number beside tensors is weak; a stack of numbers must not make it strong."""
    before = [x.spec if isinstance(x, Value) else x for x in value.operands]
    after = [
        TensorType((1, *x.shape), x.dtype) if many and isinstance(x, TensorType) else x
        for x, many in zip(before, stacked, strict=True)
    ]
    infos = [tuple(map(operand_info, kinds)) for kinds in (before, after)]
    return op.types(infos[0], value.attributes) == op.types(infos[1], value.attributes)


def outside_values(loop: Value) -> dict[Value, bool]:
    """The values of a body that depend on items and fixed values alone; is each of them a stack outside?

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f(h: f32[2], w: f32[2], xs: f32[5, 2]) {
    ...     %0: loop(f32[2]) = loop(h, w, xs, count=5, carried=1, items=1)
    ...         graph round(h: f32[2], w: f32[2], x: f32[2]) {
    ...             %0: f32[2] = exp(w)
    ...             %1: f32[2] = mul(%0, x)
    ...             %2: f32[2] = add(h, %1)
    ...             return %2
    ...         }
    ...     %1: f32[2] = part(%0, index=0)
    ...     return %1
    ... }''')
    >>> list(outside_values(graph.body[0]).values())
    [False, True, False, True]
    """
    graph, carried = body_of(loop), loop.attributes["carried"]
    first_item = len(loop.value_operands) - loop.attributes["items"]
    found = {v: i >= first_item for i, v in enumerate(graph.inputs) if i >= carried}
    for value in graph.values:
        if all(x in found for x in value.value_operands):
            stacked = [isinstance(x, Value) and found[x] for x in value.operands]
            if can_batch(value, stacked) and not _swells(value, stacked):
                found[value] = any(stacked)
    return found


def _swells(value: Value, stacked: Sequence[bool]) -> bool:
    """Would a stack of products take much more memory than what is multiplied (outer products)?"""
    if value.op is not matmul or not all(stacked):
        return False
    return size_of(value) > 2 * max(map(size_of, value.value_operands))


def size_of(value: Value) -> int:
    """The memory of a value, on which no choice between kernels may depend much.

    An extent of one counts as more unless a view put it there.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[80]) { %0: f32[80, 1] = unsqueeze(x, dims=(1,)) return %0 }")
    >>> size_of(graph.outputs[0])
    320
    """
    while value.op in _WHOLE:
        value = value.value_operands[0]
    return weights((value,), ())[value]


class Batch:
    """Writes values of a body into the graph around its loop.

    ``known`` maps values of the body to values outside, of which those in ``stacks`` have one more dimension. Where a
    loop reads stacks from the last round to the first, all of these are in the order of memory, not of rounds.
    """

    def __init__(self, builder: Builder, loop: Value) -> None:
        self.builder = builder
        self.count = loop.attributes["count"]
        self.known: dict[Value, Value] = {}
        self.stacks: set[Value] = set()
        first_item = len(loop.value_operands) - loop.attributes["items"]
        self.backward = any(map(is_flipped, loop.value_operands[first_item:]))
        pairs = zip(body_of(loop).inputs, loop.value_operands, strict=True)
        for position, (value, operand) in enumerate(pairs):
            if position >= loop.attributes["carried"]:
                self.give(value, operand, position >= first_item)

    def give(self, value: Value, outside: Value, stack: bool) -> None:
        """Say what a value of the body is outside, a stack in the order of rounds."""
        self.known[value] = outside
        if stack:
            self.stacks.add(value)
            if self.backward:
                self.known[value] = flipped(self.builder, outside)

    def stacked(self, value: Value) -> list[bool]:
        """Which operands are stacks outside."""
        return [x in self.stacks if isinstance(x, Value) else False for x in value.operands]

    def write(self, value: Value) -> None:
        """Write a statement whose operands are known and that can be written."""
        stacked = self.stacked(value)
        if not any(stacked):
            self.give(value, self.builder.copy(value, self.known), False)
            return
        self.builder.line = value.line
        if isinstance(value.op, Elementwise):
            found = self.elementwise(value)
        elif value.op is matmul:
            found = self.matmul(value, stacked)
        elif isinstance(value.op, Reduction):
            attributes = _moved_on("dims")(value.attributes, self.count)
            found = self.builder.emit(value.op, [self.known[value.value_operands[0]]], attributes)
        else:
            found = self.movement(value)
        self.known[value] = found
        self.stacks.add(value)

    def stack(self, value: Value) -> Value:
        """A known value as a stack in the order of rounds."""
        found = self.in_memory(value)
        return flipped(self.builder, found) if self.backward and value in self.stacks else found

    def in_memory(self, value: Value) -> Value:
        """A known value as a stack in the order of memory, repeated if it is the same in every round."""
        outside = self.known[value]
        if value in self.stacks:
            return outside
        shape = (self.count, *value.spec.shape)
        return self.builder.emit(m.expand, (outside,), {"shape": shape})

    def aligned(self, value: Value, ndim: int) -> Value:
        """A known value outside such that it broadcasts against stacks of values of ``ndim`` dimensions."""
        outside = self.known[value]
        missing = ndim - value.spec.ndim
        if value not in self.stacks or not missing:
            return outside
        return self.builder.emit(m.unsqueeze, (outside,), {"dims": tuple(range(1, missing + 1))})

    def elementwise(self, value: Value) -> Value:
        """The op on operands that broadcast in front."""
        op = value.op
        assert op is not None
        operands = [
            self.aligned(x, value.spec.ndim) if isinstance(x, Value) else x for x in value.operands
        ]
        return self.builder.emit(op, operands, value.attributes)

    def movement(self, value: Value) -> Value:
        """The op with one more dimension in front of all operands."""
        op = value.op
        assert op is not None
        attributes = _ATTRIBUTES[op](value.attributes, self.count)
        if op is m.expand:
            operands = [self.aligned(value.value_operands[0], value.spec.ndim)]
        else:
            operands = [self.in_memory(x) for x in value.value_operands]
        return self.builder.emit(op, operands, attributes)

    def matmul(self, value: Value, stacked: Sequence[bool]) -> Value:
        """One product over all rounds where one side is a fixed matrix; else a batch of products."""
        x, y = value.value_operands
        if stacked == [True, False] and y.spec.ndim == 2:
            return self.rows(self.known[x], self.known[y])
        ndim = value.spec.ndim
        operands = [self.aligned(v, ndim) for v in (x, y)]
        return self.builder.emit(matmul, operands, {})

    def rows(self, stack: Value, matrix: Value) -> Value:
        """The product of all rows of a stack with a matrix; views that only order the rows are looked through."""
        last = stack.spec.ndim - 1
        if is_flipped(stack):
            return flipped(self.builder, self.rows(stack.value_operands[0], matrix))
        op = stack.op
        if op is not None and op is m.permute and stack.attributes["dims"][last] == last:
            product = self.rows(stack.value_operands[0], matrix)
            return self.builder.emit(op, (product,), stack.attributes)
        *front, inner = stack.spec.shape
        flat = self.reshaped(stack, (numel(front), inner))
        product = self.builder.emit(matmul, (flat, matrix), {})
        return self.reshaped(product, (*front, matrix.spec.shape[1]))

    def reshaped(self, value: Value, shape: Shape) -> Value:
        """``value`` with another shape."""
        return self.builder.emit(m.reshape, (value,), {"shape": shape})
