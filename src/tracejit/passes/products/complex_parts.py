"""Arithmetic between pairs and pairs of complex numbers, done on their real and imaginary parts.

Before::

    graph f(x: f32[9, 2], y: f32[9, 2]) {
        %0: c64[9] = complex_of_parts(x)
        %1: c64[9] = conjugate(%0)
        %2: c64[9] = complex_of_parts(y)
        %3: c64[9] = add(%1, %2)
        %4: f32[9, 2] = parts_of_complex(%3)
        return %4
    }

After::

    graph f(x: f32[9, 2], y: f32[9, 2]) {
        %0: f32[9] = x[:, 0]    (a slice and a squeeze; so are the others)
        ...
        %9: f32[9] = neg(%imaginary)
        ...
        return the sums side by side
    }

A kernel for complex numbers is one op, and reads and writes memory (`codegen.cpu.complex`): rotations of pairs, which
models write as products of complex numbers, took three passes over memory. Work on the parts is fused with what comes
before and after. The bits are the same: a product has ops of its own.
"""

from __future__ import annotations

from typing import Any

from ...extents import hint
from ...ir.graph import Graph, Value
from ...ops.products_of_parts import imaginary_part_of_product, real_part_of_product
from ...ops.shapes import numel
from ..rewrite import Rewriter
from ..simplify.dead_code import dead_code

Operand = Any
_SPLIT = frozenset(("add", "sub", "mul", "neg", "conjugate", "clone", "complex_of_parts"))


def complex_parts(graph: Graph) -> Graph:
    """``graph`` without complex numbers that are made of pairs and become pairs again.

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f(x: f32[9, 2]) {
    ...     %0: c64[9] = complex_of_parts(x)
    ...     %1: c64[9] = mul(%0, %0)
    ...     %2: f32[9, 2] = parts_of_complex(%1)
    ...     return %2
    ... }''')
    >>> sorted({value.op.name for value in complex_parts(graph).values})
    ['cat', 'imaginary_part_of_product', 'real_part_of_product', 'slice', 'squeeze', 'unsqueeze']
    """
    split = _worth_while(graph)
    return dead_code(_Splitter(graph.name, split).run(graph)) if split else graph


def _worth_while(graph: Graph) -> set[Value]:
    """The complex values of which nothing but parts is needed, where these save memory traffic."""
    kept = set(graph.outputs) | {g.value for g in graph.guards}
    found = {v for v in graph.values if _can_split(v) and v not in kept}
    if not found:  # as in nearly all graphs
        return found
    users: dict[Value, list[Value]] = {}
    for value in graph.values:
        for x in value.value_operands:
            users.setdefault(x, []).append(value)
    while True:
        whole = {
            v
            for v in found
            if not all(u in found or _names(u, "parts_of_complex") for u in users.get(v, ()))
        }
        if not whole:
            break
        found -= whole
    saved = read = 0
    for value in found:
        joined = _names(value, "complex_of_parts")
        saved += hint(numel(value.spec.shape))
        for x in () if joined else value.value_operands:
            read += 0 if x in found or not x.spec.dtype.is_complex else hint(numel(x.spec.shape))
    arithmetic = any(not _names(value, "complex_of_parts") for value in found)
    return found if arithmetic and saved > read else set()


def _names(value: Value, name: str) -> bool:
    return value.op is not None and value.op.name == name


def _can_split(value: Value) -> bool:
    """Is this arithmetic on complex numbers whose parts are of the dtype of all real operands?"""
    if value.op is None or value.op.name not in _SPLIT:
        return False
    if value.spec.dtype.short not in ("c64", "c128"):
        return False
    real = value.spec.dtype.to_real
    return all(x.spec.dtype.to_real is real for x in value.value_operands)


class _Splitter(Rewriter):
    """Writes the graph again, complex numbers of ``split`` as two values."""

    def __init__(self, name: str, split: set[Value]) -> None:
        super().__init__(name, {})
        self.split = split
        self.parts: dict[Value, tuple[Operand, Operand]] = {}

    def statement(self, statement: Value, mapping: Any) -> Value:
        """The parts of what is split are kept; nobody asks for it itself."""
        if statement in self.split:
            self.parts[statement] = self._parts_of(statement, mapping)
            return mapping[statement.value_operands[0]]  # type: ignore[no-any-return]
        if statement.value_operands and statement.value_operands[0] in self.split:
            parts = self.parts[statement.value_operands[0]]
            return self._side_by_side(statement, parts)
        return super().statement(statement, mapping)

    def _side_by_side(self, statement: Value, parts: tuple[Operand, Operand]) -> Value:
        last = (statement.spec.ndim - 1,)
        shape = statement.spec.shape[:-1]
        pieces = []
        for part in parts:
            if part.spec.shape != shape:
                part = self.write("expand", (part,), statement.line, shape=shape)
            pieces.append(self.write("unsqueeze", (part,), statement.line, dims=last))
        return self.write("cat", pieces, statement.line, dim=last[0])

    def _parts_of(self, value: Value, mapping: Any) -> tuple[Operand, Operand]:
        """The real and the imaginary part."""
        assert value.op is not None
        name, line = value.op.name, value.line

        def write(op: Any, *operands: Operand) -> Value:
            return self.write(op, operands, line)

        if name == "complex_of_parts":
            return self._of_pairs(mapping[value.value_operands[0]], line)
        given = [self._operand(x, mapping, line) for x in value.operands]
        a, b = given[0]
        if name in ("neg", "clone"):
            return write(name, a), write(name, b)
        if name == "conjugate":
            return write("clone", a), write("neg", b)
        c, d = given[1]
        if name == "mul":
            return (
                write(real_part_of_product, a, b, c, d),
                write(imaginary_part_of_product, a, b, c, d),
            )
        return write(name, a, c), write(name, b, d)

    def _operand(self, x: Operand, mapping: Any, line: Any) -> tuple[Operand, Operand]:
        if not isinstance(x, Value):
            number = complex(x)
            return number.real, number.imag
        if x in self.split:
            return self.parts[x]
        if not x.spec.dtype.is_complex:
            return mapping[x], 0.0
        return self._of_pairs(self.write("parts_of_complex", (mapping[x],), line), line)

    def _of_pairs(self, pairs: Value, line: Any) -> tuple[Value, Value]:
        """The parts that lie along the last dimension."""
        ndim, shape = pairs.spec.ndim, pairs.spec.shape
        found: list[Value] = []
        for number in (0, 1):
            one = self.write(
                "slice",
                (pairs,),
                line,
                starts=(*[0] * (ndim - 1), number),
                counts=(*shape[:-1], 1),
                steps=(1,) * ndim,
            )
            found.append(self.write("squeeze", (one,), line, dims=(ndim - 1,)))
        return found[0], found[1]
