"""Rows a few at a time, stage by stage, so that no stage waits for the one before it.

What a reduction leaves is there some time after its last element was read: the lanes are folded together, and often a
root or a division follows. The next stage of the same row waits for that, the same stage of the next row does not. So
where rows are short each stage goes over several rows before the next stage begins, and hands on what is one number
for a row in memory of each worker's own. How many rows go together is a number, not part of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...ir.graph import Value
from ...passes.fusion.groups import FULL
from ...sizes import largest, smallest
from .. import scalar
from ..kernel import Scratch
from .cpu import Scope, Writer

#: Elements of all arrays, for the rows that go together: they are to stay in the first-level cache.
ELEMENTS = 6144
#: Rows that go together at most: by then the processor has enough to do.
MOST_ROWS = 16
#: Elements of memory for each worker, a multiple of what a line of the cache holds.
_APART = 64


class Batches:
    """The loop over batches of rows, and those over the rows of a batch, one for every pass.

    ``handed`` lists for every pass what it takes from earlier ones, ``kept`` says how many values are kept in rows of
    memory.
    """

    def __init__(self, writer: Writer, handed: Sequence[Mapping[Value, None]], kept: int) -> None:
        self.writer, self.handed = writer, handed
        self.indent = 0
        found = dict.fromkeys(v for values in handed for v in values)
        self.names = {v: f"kept{number}" for number, v in enumerate(found)}
        inner = largest(writer.extents_product(writer.nest.reduced), 1)
        arrays = max(kept + _arrays_of_rows(writer), 1)
        self.most = largest(1, smallest(MOST_ROWS, ELEMENTS // arrays // inner))

    @property
    def rows(self) -> str:
        """The parameter holding how many rows go together."""
        return self.writer.number("batch_rows", self.most)

    @property
    def row(self) -> str:
        """The number of the current row in its batch."""
        return f"({self._variable} - batch)"

    @property
    def _variable(self) -> str:
        kept = self.writer.nest.kept
        return "row" if len(kept) <= 1 else f"i{kept[-1]}"

    def open(self, indent: int, first: str, last: str) -> tuple[int, str, str]:
        """Open the loop over the batches of the rows from ``first`` to ``last``."""
        text = self.writer.text
        text.add(indent, f"for batch in range({first}, {last}, {self.rows}):")
        text.add(indent + 1, f"batch_end = minimum_i64(batch + {self.rows}, {last})")
        self.indent = indent + 1
        return self.indent, "batch", "batch_end"

    def again(self, taken: Iterable[Value], over: str = "range") -> Scope:
        """Open another loop over the rows of the batch; the numbers of a row that it takes from earlier ones."""
        writer, row = self.writer, Scope()
        writer.text.add(self.indent, f"for {self._variable} in {over}(batch, batch_end):")
        for value in taken:
            name, dtype = writer.fresh(), scalar.compute_dtype(value.spec.dtype)
            element = scalar.load(self._element(value), dtype)
            writer.text.add(self.indent + 1, f"{name} = {element}")
            row[value] = name
        return row

    def hand_on(self, number: int, row: Scope, indent: int) -> None:
        """Keep what a pass computed for a row and later ones take."""
        taken = {v for values in self.handed[: number + 1] for v in values}
        later = {v for values in self.handed[number + 1 :] for v in values}
        for value in self.names:
            if value in row and value in later and value not in taken:
                self.keep(value, row[value], indent)

    def keep(self, value: Value, text: str, indent: int) -> None:
        """Keep the number of a row for later passes."""
        stored = scalar.store(text, scalar.compute_dtype(value.spec.dtype))
        self.writer.text.add(indent, f"{self._element(value)} = {stored}")

    def _element(self, value: Value) -> str:
        dtype, key = scalar.compute_dtype(value.spec.dtype), self.names[value]
        scratch = Scratch(key, dtype, _APART, per_worker=True)
        name = self.writer.text.parameter(key, scalar.storage_type(dtype) + "*", scratch)
        return f"{name}[worker * {_APART} + {self.row}]"


def _arrays_of_rows(writer: Writer) -> int:
    """How many operands and results have an element for every one of every row."""
    group = writer.group
    reduced, rows = group.reduced or frozenset(), set(group.kept)
    read = sum(
        bool(reduced & {*dims}) and bool(rows & {*dims}) for dims in group.externals.values()
    )
    return read + sum(group.level[v] == FULL for v in writer.nest.writes)
