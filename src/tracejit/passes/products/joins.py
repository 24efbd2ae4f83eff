"""Joined pieces: what slices of one value contribute to its gradient lies side by side.

Before::

    graph f(a: f32[2, 3], b: f32[2, 3]) {
        %0: f32[2, 6] = full(shape=(2, 6), value=0, dtype=f32)
        %1: f32[2, 6] = slice_scatter(%0, a, starts=(0, 0), counts=(2, 3), steps=(1, 1))
        %2: f32[2, 6] = slice_scatter(%0, b, starts=(0, 3), counts=(2, 3), steps=(1, 1))
        %3: f32[2, 6] = add(%1, %2)
        return %3
    }

After (and after :mod:`..simplify.dead_code`)::

    graph f(a: f32[2, 3], b: f32[2, 3]) {
        %0: f32[2, 3] = add(a, 0.0)
        %1: f32[2, 3] = add(b, 0.0)
        %2: f32[2, 6] = cat(%0, %1, dim=1)
        return %2
    }

Adding zero is what the sum did to every element: it makes -0.0 positive. Part of :mod:`..simplify.simplify`.
"""

from __future__ import annotations

from ...ir.graph import Value
from ...ops.elementwise import add
from ...ops.movement import slice_scatter
from ...ops.source import full
from ..rewrite import Rewriter, Rules

#: Sums of more pieces than this are left alone.
MAX_PIECES = 64


def is_plain_sum(value: Value) -> bool:
    """Is this the sum of two values of its own type?"""
    operands = value.value_operands
    return value.op is add and len(operands) == 2 and all(x.spec == value.spec for x in operands)


def terms_of(value: Value) -> list[Value]:
    """The terms of nested sums.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[2]) { %0: f32[2] = add(x, x) %1: f32[2] = add(%0, x) return %1 }")
    >>> terms_of(graph.outputs[0])
    [<x: f32[2]>, <x: f32[2]>, <x: f32[2]>]
    """
    found = []
    waiting = [value]
    while waiting:
        term = waiting.pop()
        if is_plain_sum(term):
            waiting += reversed(term.value_operands)
        else:
            found.append(term)
    return found


def is_zero(value: Value) -> bool:
    """Is this a constant of zeros?"""
    return value.op is full and value.attributes["value"] == 0


def _joined(rewriter: Rewriter, value: Value) -> Value | None:
    """A sum of pieces scattered into zeros, which together fill the value along one dimension.

    One more term is allowed: to each element, only that and one piece add more than a zero.
    """
    if not is_plain_sum(value) or not value.spec.dtype.is_floating_point:
        return None
    terms = _terms(value)
    pieces = [x for x in terms if _is_piece(x)]
    others = [x for x in terms if not _is_piece(x)]
    if len(pieces) < 2 or len(others) > 1:
        return None
    dims = {d for piece in pieces for d in _cut_dims(piece)}
    if len(dims) != 1:
        return None
    (dim,) = dims
    ordered = _in_order(pieces, dim)
    if ordered is None:
        return None
    parts = [rewriter.write(add, (x.value_operands[1], 0.0), value.line) for x in ordered]
    found = rewriter.write("cat", parts, value.line, dim=dim)
    for other in others:
        found = rewriter.write(add, (other, found), value.line)
    return found


def _terms(value: Value) -> list[Value]:
    """Pieces added one after the other, and what they are added to."""
    found: list[Value] = []
    while is_plain_sum(value) and len(found) < MAX_PIECES:
        a, b = value.value_operands
        if not _is_piece(b):
            a, b = b, a
        if not _is_piece(b):
            break
        found.append(b)
        value = a
    return [*found, value]


def _is_piece(value: Value) -> bool:
    """Is this a block of another value in zeros?"""
    if value.op is not slice_scatter or not is_zero(value.value_operands[0]):
        return False
    return all(s == 1 for s in value.attributes["steps"])


def _cut_dims(piece: Value) -> list[int]:
    """The dimensions along which a piece is shorter than the whole."""
    pairs = zip(piece.attributes["counts"], piece.spec.shape, strict=True)
    return [d for d, (count, extent) in enumerate(pairs) if count != extent]


def _in_order(pieces: list[Value], dim: int) -> list[Value] | None:
    """The pieces one after the other, if they fill the whole and do not overlap."""
    if sum(x.attributes["counts"][dim] for x in pieces) != pieces[0].spec.shape[dim]:
        return None  # without asking where each one starts
    rest = list(pieces)
    ordered: list[Value] = []
    end = 0
    while rest:
        found = next((i for i, x in enumerate(rest) if x.attributes["starts"][dim] == end), None)
        if found is None:
            return None
        ordered.append(rest.pop(found))
        end = end + ordered[-1].attributes["counts"][dim]
    return ordered


def _everywhere(rewriter: Rewriter, value: Value) -> Value | None:
    """A value scattered to every place of another is that value, in the order of the places."""
    x, new = value.value_operands
    if x.spec != new.spec:
        return None
    starts, steps = value.attributes["starts"], value.attributes["steps"]
    if not any(starts) and all(s == 1 for s in steps):
        return new
    return rewriter.write("slice", (new,), value.line, **value.attributes)


RULES: Rules = {"add": (_joined,), "slice_scatter": (_everywhere,)}
