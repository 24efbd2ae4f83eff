"""Numbers that are others in every round: they become items of a table, so that a loop can hold what is computed with
them.

``mask = lengths > t`` is another statement in every round, because ``t`` is part of it, and so is ``x * (1 - t / 50)``.
Where such numbers are evenly spaced whole numbers they are given as rows of ``arange``, and where there are many of
other kinds as rows of a list, in the type that they count as in the statement, so the bits are the same. Statements
that do not become part of a loop are put back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...dtypes import DType, float32, float64, get_default_dtype, int32, int64
from ...ir.builder import Builder, attribute_keys, mapped
from ...ir.graph import Value
from ...ops.movement import slice as slice_op
from ...ops.movement import squeeze
from ...ops.source import arange, literal
from ...ops.table import Elementwise, operand_info
from ...types import TensorType
from .record import is_operator
from .rolling import Rolled

#: Types in which whole numbers below a limit are exact.
EXACT: dict[DType, int] = {int32: 1 << 31, int64: 1 << 63, float32: 1 << 24, float64: 1 << 53}


#: Types that hold numbers with a fraction as statements do, and the largest.
MOST = {float32: float(np.finfo(np.float32).max), float64: math.inf}
#: Fewer numbers than this that do not count are left where they are, and those of fewer statements: a straight list is
#: one kernel, which keeps in registers what a loop puts into memory.
LISTED, STATEMENTS = 16, 128
#: The operations that treat a number just as they treat a tensor of one that holds it.
LISTABLE = frozenset({"add", "sub", "mul", "div", "maximum", "minimum", "lt", "le", "gt", "ge"})
#: How many statements of one line a round may have.
MOST_PER_ROUND = 16
#: For a statement whose number becomes an item: those of the table, in order, and its own place among them.
Rows = dict[Value, tuple[list[Value], int]]


class DifferentNumbers:
    """The statements of a recording, with numbers that are others in every round as items of tables.

    ``statements`` are the new ones, ``mapping`` leads to them from those that changed.
    """

    def __init__(self, statements: Sequence[Value], fewest: int) -> None:
        self.statements: Sequence[Value] = statements
        self.mapping: dict[Value, Value] = {}
        self.originals: dict[Value, Value] = {}
        self.tables: dict[Any, Value] = {}
        rows: Rows = {}
        groups = _groups(statements)
        for group, place in groups:
            for run in _even_runs([v for v in group if type(v.operands[place]) is int]):
                if len(run) >= fewest and _is_exact(run):
                    rows.update({v: (run, i) for i, v in enumerate(run)})
        self.counting = {id(run) for run, _ in rows.values()}
        order = {v: i for i, v in enumerate(statements)} if groups else {}
        for group, place in groups:
            rest = [v for v in group if v not in rows and _is_listable(v, place)]
            for column in _columns(rest, order):
                many = order[column[-1]] - order[column[0]] >= STATEMENTS
                if many and len(column) >= LISTED and _differ(column, place):
                    rows.update({v: (column, i) for i, v in enumerate(column)})
        if rows:
            self._write(rows)

    def _write(self, rows: Rows) -> None:
        builder = Builder("numbers")
        for value in self.statements:
            new = mapped(value, {x: self.mapping.get(x, x) for x in value.value_operands})
            if value in rows:
                new = self._by_row(builder, new, *rows[value])
                self.originals[new] = value
            builder.body.append(new)
            if new is not value:
                self.mapping[value] = new
        self.statements = [v for v in builder.body if isinstance(v, Value)]

    def _by_row(self, builder: Builder, value: Value, group: list[Value], row: int) -> Value:
        """A statement with an item of a table in the place of its number."""
        place = _only_number(value)
        assert place is not None
        if group[0] not in self.tables:
            self.tables[group[0]] = self._table(builder, group, place)
        places = {"starts": (row,), "counts": (1,), "steps": (1,)}
        item = builder.emit(slice_op, (self.tables[group[0]],), places, value.line)
        item = builder.emit(squeeze, (item,), {"dims": (0,)}, value.line)
        operands = tuple([item if i == place else x for i, x in enumerate(value.operands)])
        return Value(value.spec, value.op, operands, value.attributes, line=value.line)

    def _table(self, builder: Builder, group: Sequence[Value], place: int) -> Value:
        """The numbers of a group."""
        count, dtype, line = len(group), _counts_as(group[0], place), group[0].line
        if id(group) in self.counting:
            start, step = _start_and_step(group, place)
            numbers = {"start": start, "step": step, "count": count, "dtype": dtype}
            return builder.emit(arange, (), numbers, line)
        values = tuple([v.operands[place] for v in group])
        return builder.emit(
            literal, (), {"values": values, "shape": (count,), "dtype": dtype}, line
        )

    def put_back(self, rolled: Rolled, kept: Sequence[Value]) -> Rolled:
        """What was made of ``statements``, with the numbers outside of loops as they were; for the values ``kept``."""
        if not self.originals:
            return rolled
        known: dict[Value, Value] = {}
        for value in rolled.statements:
            operands = {x: known.get(x, x) for x in value.value_operands}
            new, original = mapped(value, operands), self.originals.get(value)
            if original is not None:
                both = zip(new.operands, original.operands, strict=True)
                plain = tuple([x if isinstance(old, Value) else old for x, old in both])
                new = Value(new.spec, new.op, plain, new.attributes, line=new.line)
            known[value] = new
        mapping = {}
        for value in kept:
            new = self.mapping.get(value, value)
            new = rolled.mapping.get(new, new)
            mapping[value] = known.get(new, new)
        return Rolled(live(list(known.values()), list(mapping.values())), mapping, rolled.loops)


def live(statements: Sequence[Value], kept: Sequence[Value]) -> tuple[Value, ...]:
    """The statements that something kept depends on."""
    needed, found = set(kept), []
    for value in reversed(statements):
        if value in needed:
            needed.update(value.value_operands)
            found.append(value)
    return tuple(reversed(found))


def _groups(statements: Iterable[Value]) -> list[tuple[list[Value], int]]:
    """The statements that are alike but for one number, which is not the same in all of them; and its place."""
    groups: dict[Any, list[Value]] = {}
    again: dict[Value, list[Value]] = {}  # of statements that came again
    for value in statements:
        if len(value.operands) - len(value.value_operands) != 1:
            continue
        first = value if value.like is None else value.like
        group = again.get(first)
        if group is not None:
            group.append(value)
        elif isinstance(value.op, Elementwise) and is_operator(value.op):
            alike = attribute_keys(value) if value.attributes else None
            key = (value.op, value.line, value.spec, _only_number(value), alike)
            group = again[first] = groups.setdefault(key, [])
            group.append(value)
    return [(group, key[3]) for key, group in groups.items() if _differ(group, key[3])]


def _only_number(value: Value) -> int | None:
    """The place of the one operand that is no tensor."""
    places = [i for i, x in enumerate(value.operands) if not isinstance(x, Value)]
    return places[0] if len(places) == 1 else None


def _is_listable(value: Value, place: int) -> bool:
    """Is it all the same to the statement whether a tensor of a list holds its number?"""
    number = value.operands[place]
    if type(number) not in (int, float) or value.op is None or value.op.name not in LISTABLE:
        return False
    kinds = tuple([x.spec if isinstance(x, Value) else type(x) for x in value.operands])
    most = _largest(value.op, kinds, place, get_default_dtype())
    return bool(most) and not most < abs(number) < math.inf


@lru_cache(maxsize=1024)
def _largest(op: Elementwise, kinds: tuple[Any, ...], place: int, default: DType) -> float:
    """The largest number that may be an item of a table in a statement of such operands; 0: none may.

    A number is the type of it among ``kinds``. What it counts as may hang on the ``default`` dtype.
    """
    operands: list[Any] = [x(1) if isinstance(x, type) else x for x in kinds]
    with_number = op.types(tuple(map(operand_info, operands)), {})
    dtype = with_number[0][place]
    operands[place] = TensorType((), dtype)
    if op.types(tuple(map(operand_info, operands)), {}) != with_number:
        return 0
    return EXACT.get(dtype, 0) if kinds[place] is int else MOST.get(dtype, 0.0)


def _columns(group: Sequence[Value], order: dict[Value, int]) -> Iterator[list[Value]]:
    """The statements of a line by their place in a round, of which a round may have several.

    How far apart they are tells how many: that comes again from round to round.
    """
    if not group:
        return
    apart = np.diff([order[v] for v in group])
    regular = (n for n in range(1, MOST_PER_ROUND) if (apart[n:] == apart[:-n]).mean() > 0.75)
    each = next(regular, 1) if len(apart) > MOST_PER_ROUND else 1
    for first in range(each):
        yield list(group[first::each])


def _differ(column: Sequence[Value], place: int) -> bool:
    """Are the numbers of these statements not all the same?"""
    first = column[0].operands[place]
    return any(v.operands[place] is not first for v in column) and (
        len({repr(v.operands[place]) for v in column}) > 1
    )


def _start_and_step(group: Sequence[Value], place: int) -> tuple[int, int]:
    first, second = (v.operands[place] for v in group[:2])
    return first, second - first  # type: ignore[return-value]


def _even_runs(group: Sequence[Value]) -> Iterator[list[Value]]:
    """The statements of a group in runs whose numbers are evenly spaced: a line may be in several loops."""
    place = _only_number(group[0]) if group else None
    if place is None:
        return
    run: list[Value] = []
    for value in group:
        if len(run) > 1:
            start, step = _start_and_step(run, place)
            if not step or value.operands[place] != start + len(run) * step:
                yield run
                run = []
        run.append(value)
    yield run


def _is_exact(run: Sequence[Value]) -> bool:
    """Are the numbers of these statements the same in a tensor of the type that they count as?"""
    place = _only_number(run[0])
    assert place is not None
    start, step = _start_and_step(run, place)
    dtype = _counts_as(run[0], place)
    if not step or max(abs(start), abs(start + step * len(run))) >= EXACT.get(dtype, 0):
        return False
    types = [_operand_types(run[0], place, x) for x in (start, TensorType((), dtype))]
    return bool(types[0] == types[1])


def _counts_as(value: Value, place: int) -> DType:
    found: DType = _operand_types(value, place, value.operands[place])[0][place]
    return found


def _operand_types(value: Value, place: int, x: Any) -> Any:
    """The types of operands and result with ``x`` at a place."""
    assert isinstance(value.op, Elementwise)
    operands = [v.spec if isinstance(v, Value) else v for v in value.operands]
    operands[place] = x
    return value.op.types(tuple(map(operand_info, operands)), value.attributes)
