"""Draws of random numbers in rounds: the number of the call becomes an item, so that a loop can hold it.

A draw is told by a key (seed, base) and, as an attribute, by the number of its call. No two rounds draw with the same
number. But call ``n`` of a key draws what call 0 of the key (seed, base + n) does. So every draw is given its row of a
table of such keys, ``key + [[0, 0], [0, 1], ...]``, and rows of a table are what rounds take in turn. The stream stays
the same, number by number. Draws that do not become part of a loop are put back.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...dtypes import int64
from ...ir.builder import Builder, mapped
from ...ir.graph import Value
from ...ops.elementwise import add, mul
from ...ops.movement import slice as slice_op
from ...ops.movement import squeeze, unsqueeze
from ...ops.random import RandomSource
from ...ops.source import arange
from .numbers import live
from .rolling import Rolled


class Draws:
    """The statements of a recording, with draws by rows of a table of keys.

    ``statements`` are the new ones, ``mapping`` leads to them from those that changed.
    """

    def __init__(self, statements: Sequence[Value]) -> None:
        self.statements: list[Value] = []
        self.mapping: dict[Value, Value] = {}
        self.originals: dict[Value, Value] = {}
        self.tables: dict[Value, Value] = {}
        self.counts: dict[Value, int] = {}
        drawn = [v for v in statements if isinstance(v.op, RandomSource)]
        for value in drawn:
            key = value.value_operands[0]
            self.counts[key] = max(self.counts.get(key, 0), value.attributes["index"] + 1)
        for value in statements:
            operands = {x: self.mapping.get(x, x) for x in value.value_operands}
            new = mapped(value, operands)
            if isinstance(value.op, RandomSource):
                new = self.by_row(new)
                self.originals[new] = value
            self.statements.append(new)
            if new is not value:
                self.mapping[value] = new

    def by_row(self, value: Value) -> Value:
        """A draw with the number 0."""
        key, number = value.value_operands[0], value.attributes["index"]
        if key not in self.tables:
            self.tables[key] = self.table(key, value.line)
        builder = Builder("draw")
        places = {"starts": (number, 0), "counts": (1, 2), "steps": (1, 1)}
        row = builder.emit(slice_op, (self.tables[key],), places, value.line)
        row = builder.emit(squeeze, (row,), {"dims": (0,)}, value.line)
        self.statements += [v for v in builder.body if isinstance(v, Value)]
        assert value.op is not None
        attributes = {**value.attributes, "index": 0}
        return Value(value.spec, value.op, (row,), attributes, line=value.line)

    def table(self, key: Value, line: tuple[str, int] | None) -> Value:
        """The keys of all calls."""
        builder = Builder("table")

        def count_to(count: int) -> Value:
            numbers = {"start": 0, "step": 1, "count": count, "dtype": int64}
            return builder.emit(arange, (), numbers, line)

        rows = builder.emit(unsqueeze, (count_to(self.counts[key]),), {"dims": (1,)}, line)
        offsets = builder.emit(mul, (rows, count_to(2)), {}, line)
        found = builder.emit(add, (key, offsets), {}, line)
        self.statements += [v for v in builder.body if isinstance(v, Value)]
        return found

    def put_back(self, rolled: Rolled, kept: Sequence[Value]) -> Rolled:
        """What was made of ``statements``, with the draws outside of loops as they were; for the values ``kept``."""
        known: dict[Value, Value] = {}
        statements = []
        for value in rolled.statements:
            original = self.originals.get(value)
            operands = {x: known.get(x, x) for x in value.value_operands}
            known[value] = mapped(value, operands) if original is None else original
            statements.append(known[value])
        mapping = {}
        for value in kept:
            new = self.mapping.get(value, value)
            new = rolled.mapping.get(new, new)
            mapping[value] = known.get(new, new)
        return Rolled(live(statements, list(mapping.values())), mapping, rolled.loops)
