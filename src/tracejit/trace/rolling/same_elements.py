"""Do two lists of statements compute the same? Told by the elements that every op is given.

Each element of an input, and each element that an op computes, has a number of its own. Ops that move elements move
their numbers; any other op gives new ones, and the same again wherever it is given the same elements in the same order.
So results whose elements have the same numbers are equal to the last bit, however the elements got where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dtypes import DType
from ...ir.builder import attribute_key, attribute_keys
from ...ir.graph import Value
from ...ir.loops import is_loop, part, run_rounds
from ...ops import movement
from ...ops.source import arange, full
from ...ops.table import Elementwise, operand_info
from ...passes.fusion.groups import is_view

#: More elements in one tensor are not looked at.
MOST_ELEMENTS = 1 << 22

Numbers = Any  # an array of the numbers of elements


class OutsideError(Exception):
    """A slice that is not within its tensor."""


class SameElements:
    """What a list of statements computes, to be compared with others on the same inputs."""

    def __init__(self, inputs: Sequence[Value], statements: Sequence[Value]) -> None:
        self.count = 0
        self.known: dict[Any, Numbers] = {}
        self.small = all(v.spec.numel <= MOST_ELEMENTS for v in (*inputs, *statements))
        self.inputs = {v: self.new(v.spec.shape) for v in inputs if self.small}
        self.first = self.run(statements) if self.small else {}

    def holds(
        self, statements: Sequence[Value], these: Sequence[Value], those: Sequence[Value]
    ) -> bool:
        """Are the values ``those``, which ``statements`` compute, the same as ``these`` of the first list?"""
        if not self.small or any(v.spec.numel > MOST_ELEMENTS for v in statements):
            return False
        try:
            second = self.run(statements)
        except OutsideError:
            return False
        return all(
            a.spec == b.spec and np.array_equal(self.first[a], second[b])
            for a, b in zip(these, those, strict=True)
        )

    def new(self, shape: tuple[int, ...]) -> Numbers:
        """Elements not seen before."""
        size = int(np.prod(shape, dtype=np.int64))
        found = np.arange(self.count, self.count + size).reshape(shape)
        self.count += size
        return found

    def run(self, statements: Sequence[Value]) -> dict[Value, Any]:
        """The elements of every statement."""
        return self._walk(dict(self.inputs), statements)

    def _walk(self, known: dict[Value, Any], statements: Sequence[Value]) -> dict[Value, Any]:
        for value in statements:
            operands = [known[x] if isinstance(x, Value) else x for x in value.operands]
            known[value] = self.elements(value, operands)
        return known

    def elements(self, value: Value, operands: list[Any]) -> Any:
        """The elements of one statement, given those of its operands."""
        op = value.op
        assert op is not None
        if is_loop(value):
            return run_rounds(operands, value.attributes, self._body, _stacked)
        if op is part:
            return operands[0][value.attributes["index"]]
        if is_view(value) or op is movement.cat or op is movement.slice_scatter:
            _check_places(value, operands[0])
            return op.evaluate(operands, value.attributes)
        if op is full:
            constant = self.constant(value.attributes["value"], value.spec.dtype)
            return np.broadcast_to(constant, value.spec.shape)
        if op is arange:
            start, step, dtype = (value.attributes[k] for k in ("start", "step", "dtype"))
            counted = range(value.spec.numel)
            return np.array([self.constant(start + i * step, dtype) for i in counted], np.int64)
        if isinstance(op, Elementwise):
            operands = self.spread(value, operands)
        key = (op.name, value.spec, attribute_keys(value), *map(_operand_key, operands))
        if key not in self.known:
            self.known[key] = self.new(value.spec.shape)
        return self.known[key]

    def spread(self, value: Value, operands: list[Any]) -> list[Numbers]:
        """The operands of an elementwise op for each of its results; numbers as elements of the type they count as."""
        assert isinstance(value.op, Elementwise)
        kinds = tuple([operand_info(x.spec if isinstance(x, Value) else x) for x in value.operands])
        dtypes = value.op.types(kinds, value.attributes)[0]
        arrays = [
            x if isinstance(x, np.ndarray) else self.constant(x, dtype)
            for x, dtype in zip(operands, dtypes, strict=True)
        ]
        return [np.broadcast_to(x, value.spec.shape) for x in arrays]

    def constant(self, number: Any, dtype: DType) -> Numbers:
        """The element that a number is."""
        key = dtype.short, attribute_key(number)
        if key not in self.known:
            self.known[key] = self.new(())
        return self.known[key]

    def _body(self, graph: Any, inputs: list[Any]) -> list[Any]:
        known = self._walk(dict(zip(graph.inputs, inputs, strict=True)), graph.values)
        return [known[v] for v in graph.outputs]


def _check_places(value: Value, whole: Numbers) -> None:
    """Places come of sizes that were guessed: they may lie outside."""
    if value.op is not movement.slice and value.op is not movement.slice_scatter:
        return
    places = zip(*map(value.attributes.__getitem__, ("starts", "counts", "steps")), strict=True)
    for extent, (start, count, step) in zip(whole.shape, places, strict=True):
        last = start + (count - 1) * step
        if count and not (0 <= start < extent and 0 <= last < extent):
            raise OutsideError


def _operand_key(x: Any) -> Any:
    return (x.shape, x.tobytes()) if isinstance(x, np.ndarray) else attribute_key(x)


def _stacked(found: list[Any], kind: Any) -> Any:
    return np.stack(found) if found else np.empty((0, *kind.shape), np.int64)
