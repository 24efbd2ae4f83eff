"""Elementwise work on what is joined or padded is done on its pieces, each of which is then written where it belongs.

Before::

    graph f(a: f32[8, 64], b: f32[8, 64], c: f32[8, 128]) {
        %0: f32[8, 128] = cat(a, b, dim=1)
        %1: f32[8, 128] = mul(%0, c)
        return %1
    }

After::

    graph f(a: f32[8, 64], b: f32[8, 64], c: f32[8, 128]) {
        %0: f32[8, 64] = slice(c, starts=(0, 0), counts=(8, 64), steps=(1, 1))
        %1: f32[8, 64] = mul(a, %0)
        %2: f32[8, 64] = slice(c, starts=(0, 64), counts=(8, 64), steps=(1, 1))
        %3: f32[8, 64] = mul(b, %2)
        %4: f32[8, 128] = cat(%1, %3, dim=1)
        return %4
    }

What was joined is neither written nor read again, and work whose results only meet it is done on the same pieces.
Elements are computed by the same operations, so results are the same bits. Left alone is what something else reads as
well, what would leave as much behind as it saves, and what consists of short rows. Runs on graphs that are not
differentiated any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ...extents import hint
from ...ir.graph import Graph, Value
from ...ops import movement
from ...ops.source import full
from ...ops.table import Elementwise, Reduction, Source
from ...types import Scalar, Shape
from ..rewrite import Rewriter, Rules, is_view
from ..windows.strips import constant, equal
from .moves import MOVE_RULES

#: Values of more pieces are left whole.
MOST_PIECES = 16
#: Pieces times operations on them.
MOST_WRITTEN = 256
#: Fewer numbers in a row are short, ...
SHORT_ROW = 16
#: ... and of all numbers so many may lie in short rows: one in eight.
SHORT_SHARE = 8

RULES: Rules = {"slice": MOVE_RULES["slice"]}


def piecewise(graph: Graph) -> Graph:
    """``graph`` with elementwise work on joined and padded values done on their pieces.

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f(a: f32[8, 64], b: f32[8, 64]) {
    ...     %0: f32[8, 128] = cat(a, b, dim=1)
    ...     %1: f32[8, 128] = exp(%0)
    ...     return %1
    ... }''')
    >>> [v.op.name for v in piecewise(graph).values]
    ['exp', 'exp', 'cat']
    """
    if not any(v.op in _JOINING for v in graph.values):
        return graph
    apart = _worth_it(graph)
    return _Piecewise(graph, apart).run(graph) if apart else graph


# --- which values are taken apart ----------------------------------------------------------------------------------


def _worth_it(graph: Graph) -> set[Value]:
    """The values, joined or computed from such or meeting those, whose elementwise work is to be done on pieces."""
    users, kept = graph.users(), {*graph.outputs, *(guard.value for guard in graph.guards)}
    found: set[Value] = set()
    for value in graph.values:
        if value.op not in _JOINING or not _has_long_rows(value):
            continue
        region, added = _region(value, users, kept)
        readers = {reader for x in region for reader in users[x]}
        meeting = _meeting(value, readers, users, kept)
        work = readers | meeting
        added += sum(map(_nbytes, _written_to_be_cut(value, work, region | meeting)))
        many = len(_pieces(value)) * len(work) > MOST_WRITTEN
        if region and added < _nbytes(value) and not many:
            found |= region | meeting
    return found


def _region(
    value: Value, users: Mapping[Value, list[Value]], kept: set[Value]
) -> tuple[set[Value], int]:
    """A joined value and what is computed from it, as far as only elementwise work of its shape reads it.

    And how many bytes are written that are not now: what ends a region is written, and reductions or smaller views
    would have computed it again where they read it.
    """
    region: set[Value] = set()
    added = 0
    waiting = [value]
    while waiting:
        x = waiting.pop()
        if x in region:
            continue
        readers = users.get(x, [])
        if x not in kept and readers and all(_is_work(reader, x) for reader in readers):
            region.add(x)
            waiting += readers
        elif x is not value and x not in kept and any(map(_computes_again, readers)):
            added += _nbytes(x)
    return region, added


def _meeting(
    value: Value, work: set[Value], users: Mapping[Value, list[Value]], kept: set[Value]
) -> set[Value]:
    """What only ``work`` on pieces reads, or what is found here, and is computed from what can be read in slices."""
    found: set[Value] = set()
    waiting = [x for reader in work for x in reader.value_operands]
    while waiting:
        x = waiting.pop()
        if x in found or x in work or x in kept or not _is_cut(x, value):
            continue
        if all(reader in work or reader in found for reader in users[x]):
            found.add(x)
            waiting += x.value_operands
    return found


def _written_to_be_cut(value: Value, work: set[Value], apart: set[Value]) -> set[Value]:
    """What kernels compute where they read it now, and would have to be written for work on pieces to read parts."""
    return {
        x
        for reader in work
        for x in reader.value_operands
        if x not in apart and (isinstance(x.op, Elementwise) or _draws(x)) and _is_like(x, value)
    }


def _is_cut(x: Value, value: Value) -> bool:
    """Is this work of the shape of ``value`` on what can be read in slices?"""
    return _is_like(x, value) and _is_work(x, value) and not any(map(_draws, x.value_operands))


def _is_like(x: Value, value: Value) -> bool:
    """Do two values have one shape?"""
    return x.spec.ndim == value.spec.ndim and equal(x.spec.shape, value.spec.shape)


def _draws(x: Value) -> bool:
    """Does this come from nowhere, and is no constant?"""
    return isinstance(x.op, Source) and x.op is not full


def _nbytes(value: Value) -> int:
    """The present size of a value."""
    size: int = hint(value.spec.numel) * value.spec.dtype.itemsize
    return size


def _is_work(reader: Value, x: Value) -> bool:
    """Is this elementwise work on all of ``x``, in kernels?"""
    op = reader.op
    if not isinstance(op, Elementwise) or op.scalar is None or reader.spec.dtype.is_complex:
        return False
    return reader.spec.ndim == x.spec.ndim and equal(reader.spec.shape, x.spec.shape)


def _computes_again(reader: Value) -> bool:
    """Would a kernel of this compute its operand where it reads it?"""
    return isinstance(reader.op, (Elementwise, Reduction)) or is_view(reader)


def _has_long_rows(value: Value) -> bool:
    """Do most numbers of a joined value lie in long rows of its pieces, which are few?"""
    if value.spec.dtype.is_complex or hint(value.spec.numel) == 0:
        return False
    pieces = _pieces(value)
    if not 2 <= len(pieces) <= MOST_PIECES:
        return False
    numbers = [prod(shape) for shape, _ in pieces]
    short = sum(n for n, (_, row) in zip(numbers, pieces, strict=True) if row < SHORT_ROW)
    return min(numbers) > 0 and short * SHORT_SHARE <= sum(numbers)


def _pieces(value: Value) -> list[tuple[tuple[int, ...], int]]:
    """The present shape of each piece, and how many of its numbers lie in one row of the whole."""
    shape = tuple(map(hint, value.spec.shape))
    if value.op is movement.cat:
        dim = value.attributes["dim"]
        shapes = [tuple(map(hint, x.spec.shape)) for x in value.value_operands]
        return [(s, prod(s[dim:])) for s in shapes]
    return _pieces_of_pad(shape, [tuple(map(hint, pair)) for pair in value.attributes["widths"]])


def _pieces_of_pad(
    shape: tuple[int, ...], widths: Sequence[tuple[int, ...]]
) -> list[tuple[tuple[int, ...], int]]:
    """The same of what is padded: what lies before and after along each dimension, and what is inside."""
    inside, found, row = list(shape), [], 0
    for dim, pair in enumerate(widths):
        after = shape[dim + 1 :]
        shapes = [(*inside[:dim], width, *after) for width in pair if width != 0]
        found += [(s, prod(s[dim:])) for s in shapes]
        inside[dim] -= sum(pair)
        row = inside[dim] * prod(after) if shapes else row * inside[dim] // shape[dim]
    return [*found, (tuple(inside), row)]


_JOINING = (movement.cat, movement.pad)


# --- the pieces ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Joined:
    """What stands for a value that is taken apart: its parts along a dimension, which may be joined themselves."""

    dim: int
    parts: tuple[_Part, ...]

    @property
    def shape(self) -> Shape:
        first = _shape(self.parts[0])
        total = sum(self.extents)
        return (*first[: self.dim], total, *first[self.dim + 1 :])

    @property
    def extents(self) -> tuple[int, ...]:
        """How much of the dimension each part takes."""
        return tuple(_shape(part)[self.dim] for part in self.parts)


@dataclass(frozen=True, eq=False)
class _Work:
    """An operation that is written when its parts are known: its statement, what it works on, its shape here."""

    statement: Value
    operands: tuple[_Part | Scalar, ...]
    shape: Shape


_Part = Value | _Joined | _Work


def _shape(part: _Part) -> Shape:
    return part.spec.shape if isinstance(part, Value) else part.shape


class _Piecewise(Rewriter):
    """Notes the parts of what is taken apart, and joins the results."""

    def __init__(self, graph: Graph, apart: set[Value]) -> None:
        super().__init__(graph.name, RULES)
        self.apart = apart
        self.noted: dict[Value, _Joined | _Work] = {}

    def statement(self, statement: Value, mapping: Mapping[Value, Value]) -> Value:
        """The new value; for one that is taken apart, of which nothing is written, the old one."""
        found = self._taken_apart(statement, mapping)
        if found is None:
            return super().statement(statement, mapping)
        if statement in self.apart and not isinstance(found, Value):
            self.noted[statement] = found
            return statement
        return self._whole(found)

    def _taken_apart(self, statement: Value, mapping: Mapping[Value, Value]) -> _Part | None:
        operands = tuple(
            self.noted.get(x, mapping[x]) if isinstance(x, Value) else x for x in statement.operands
        )
        if any(isinstance(x, _Joined) for x in operands):
            return self._applied(_Work(statement, operands, statement.spec.shape))
        if statement not in self.apart:
            return None
        if statement.op is movement.cat:
            parts = tuple(mapping[x] for x in statement.value_operands)
            return _Joined(statement.attributes["dim"], parts)
        if statement.op is movement.pad:
            return self._padded(statement, mapping[statement.value_operands[0]], 0)
        return _Work(statement, operands, statement.spec.shape)

    def _padded(self, value: Value, x: Value, dim: int) -> _Part:
        """``x`` with constants before and after along ``dim`` and the dimensions that follow."""
        if dim == value.spec.ndim:
            return x
        inside = self._padded(value, x, dim + 1)
        shape = _shape(inside)

        def around(width: int) -> list[_Part]:
            if equal(width, 0):
                return []
            part = (*x.spec.shape[:dim], width, *shape[dim + 1 :])
            return [constant(self, value, part, value.attributes["value"])]

        before, after = value.attributes["widths"][dim]
        parts = (*around(before), inside, *around(after))
        return _Joined(dim, parts) if len(parts) > 1 else inside

    def _applied(self, work: _Work) -> _Part:
        """The operation on each part of what is joined among its operands, in the order of the first of these."""
        lead = next((x for x in work.operands if isinstance(x, _Joined)), None)
        if lead is None:
            return self._whole(work)
        parts, start = [], 0
        for position, extent in enumerate(lead.extents):
            parts.append(self._applied(self._part_of_work(work, lead, position, start)))
            start = start + extent
        return _Joined(lead.dim, tuple(parts))

    def _part_of_work(self, work: _Work, lead: _Joined, position: int, start: int) -> _Work:
        """The same operation on what meets one part of ``lead``."""
        shape, dim = work.shape, lead.dim
        operands = [self._part(x, lead, position, start, shape) for x in work.operands]
        part = (*shape[:dim], lead.extents[position], *shape[dim + 1 :])
        return _Work(work.statement, tuple(operands), part)

    def _part(
        self, x: _Part | Scalar, lead: _Joined, position: int, start: int, shape: Shape
    ) -> _Part | Scalar:
        """What meets one part of ``lead`` in an operation whose result is of this shape."""
        if isinstance(x, _Joined):
            if x is lead or (x.dim == lead.dim and equal(x.extents, lead.extents)):
                return x.parts[position]
            x = self._whole(x)
        if isinstance(x, _Work):
            return self._part_of_work(x, lead, position, start)
        if not isinstance(x, Value):
            return x
        dim = lead.dim - len(shape) + x.spec.ndim
        if dim < 0 or not equal(x.spec.shape[dim], shape[lead.dim]):
            return x  # the same for all parts
        counts = (*x.spec.shape[:dim], lead.extents[position], *x.spec.shape[dim + 1 :])
        if x.op is full:
            return constant(self, x, counts, x.attributes["value"])
        starts = tuple(start if d == dim else 0 for d in range(x.spec.ndim))
        steps = (1,) * x.spec.ndim
        return self.write("slice", (x,), x.line, starts=starts, counts=counts, steps=steps)

    def _whole(self, part: _Part) -> Value:
        """All of a value: its parts joined, or the operation done."""
        if isinstance(part, Value):
            return part
        if isinstance(part, _Joined):
            parts = [self._whole(x) for x in part.parts]
            return self.write(movement.cat, parts, dim=part.dim)
        statement = part.statement
        assert statement.op is not None
        operands = [
            self._whole(x) if isinstance(x, (Value, _Joined, _Work)) else x for x in part.operands
        ]
        return self.write(statement.op, operands, statement.line, **statement.attributes)
