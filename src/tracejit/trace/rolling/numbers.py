"""Numbers that count rounds: they become items of a table, so that a loop can hold what is computed with them.

``mask = lengths > t`` is another statement in every round, because ``t`` is part of it. Where such numbers are evenly
spaced whole numbers they are given as rows of ``arange``, in the type that they count as in the statement, so the bits
are the same. Statements that do not become part of a loop are put back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...dtypes import DType, float32, float64, int32, int64
from ...ir.builder import Builder, attribute_keys, mapped
from ...ir.graph import Value
from ...ops.movement import slice as slice_op
from ...ops.movement import squeeze
from ...ops.source import arange
from ...ops.table import Elementwise, operand_info
from ...types import TensorType
from .record import is_operator
from .rolling import Rolled

#: Types in which whole numbers below a limit are exact.
EXACT: dict[DType, int] = {int32: 1 << 31, int64: 1 << 63, float32: 1 << 24, float64: 1 << 53}


class CountingNumbers:
    """The statements of a recording, with numbers that count as items of tables.

    ``statements`` are the new ones, ``mapping`` leads to them from those that changed.
    """

    def __init__(self, statements: Sequence[Value], fewest: int) -> None:
        self.statements: Sequence[Value] = statements
        self.mapping: dict[Value, Value] = {}
        self.originals: dict[Value, Value] = {}
        self.tables: dict[Any, Value] = {}
        groups: dict[Any, list[Value]] = {}
        for value in statements:
            if isinstance(value.op, Elementwise) and is_operator(value.op):
                place = _only_number(value)
                if place is not None:
                    key = (value.op, value.line, value.spec, place, attribute_keys(value))
                    groups.setdefault(key, []).append(value)
        even = [run for group in groups.values() for run in _even_runs(group)]
        counting = {v: run for run in even if len(run) >= fewest and _is_exact(run) for v in run}
        if counting:
            self._write(counting)

    def _write(self, counting: dict[Value, list[Value]]) -> None:
        builder = Builder("counting")
        for value in self.statements:
            new = mapped(value, {x: self.mapping.get(x, x) for x in value.value_operands})
            if value in counting:
                new = self._by_row(builder, new, counting[value])
                self.originals[new] = value
            builder.body.append(new)
            if new is not value:
                self.mapping[value] = new
        self.statements = [v for v in builder.body if isinstance(v, Value)]

    def _by_row(self, builder: Builder, value: Value, group: Sequence[Value]) -> Value:
        """A statement with an item of a table in the place of its number."""
        place = _only_number(value)
        assert place is not None
        dtype = _counts_as(value, place)
        start, step = _start_and_step(group, place)
        if group[0] not in self.tables:
            numbers = {"start": start, "step": step, "count": len(group), "dtype": dtype}
            self.tables[group[0]] = builder.emit(arange, (), numbers, value.line)
        row = (value.operands[place] - start) // step
        places = {"starts": (row,), "counts": (1,), "steps": (1,)}
        item = builder.emit(slice_op, (self.tables[group[0]],), places, value.line)
        item = builder.emit(squeeze, (item,), {"dims": (0,)}, value.line)
        operands = tuple([item if i == place else x for i, x in enumerate(value.operands)])
        return Value(value.spec, value.op, operands, value.attributes, line=value.line)

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


def _only_number(value: Value) -> int | None:
    """The place of the one operand that is a whole number; None unless all others are tensors."""
    places = [i for i, x in enumerate(value.operands) if not isinstance(x, Value)]
    return places[0] if len(places) == 1 and type(value.operands[places[0]]) is int else None


def _start_and_step(group: Sequence[Value], place: int) -> tuple[int, int]:
    first, second = (v.operands[place] for v in group[:2])
    return first, second - first  # type: ignore[return-value]


def _even_runs(group: Sequence[Value]) -> Iterator[list[Value]]:
    """The statements of a group in runs whose numbers are evenly spaced: a line may be in several loops."""
    place = _only_number(group[0])
    assert place is not None
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
