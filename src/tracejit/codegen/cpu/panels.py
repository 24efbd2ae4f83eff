"""Printing reductions of rows whose elements are far apart in memory, while neighbouring rows lie side by side.

Read where they lie, every element of such a row costs a line of cache, and nothing is done in vectors. So a few rows at
a time are first copied, turned round, to memory of each worker's own, which stays in the second-level cache; results
that lie across go the same way back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...ir.graph import Value
from ...passes.fusion.groups import FULL
from ..nest import Access, index_source, is_one
from .cpu import Writer
from .short_rows import points_of_short_rows
from .turned import Turned, copy_turned, declare

#: Rows that go together: a line of cache holds as many of the smallest common elements.
ROWS = 16
#: Elements between the end of a row and the next: rows a power of two apart would share few lines of the cache.
APART = 16


class Panels:
    """The operands and results of a group of rows that lie across its rows."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        nest, group = writer.nest, writer.group
        self.indent = 0
        self.reads: dict[Value, None] = {}
        self.writes: dict[Value, None] = {}
        if not nest.kept or points_of_short_rows(writer) is not None:
            return
        for value in self._across(nest.reads):
            if index_source(value) is None and value not in group.tables:
                self.reads[value] = None
        for value in self._across(nest.writes):
            if group.level[value] == FULL:
                self.writes[value] = None

    def __bool__(self) -> bool:
        return bool(self.reads or self.writes)

    @property
    def rows(self) -> int:
        """How many rows go together."""
        return ROWS if self else 1

    def _across(self, accesses: Mapping[Value, Access]) -> Iterator[Value]:
        nest = self.writer.nest
        for value, access in accesses.items():
            step = access.strides[nest.reduced[-1]]
            far = not (step == 0 or is_one(step))
            if access.layout is not None and far and is_one(access.strides[nest.kept[-1]]):
                yield value

    def open(self, indent: int, first: str, last: str) -> tuple[int, str, str]:
        """Open a loop over panels of the rows from ``first`` to ``last``, and copy what is read."""
        if not self:
            return indent, first, last
        text = self.writer.text
        text.add(indent, f"for top in range({first}, {last}, {ROWS}):")
        self.indent = indent + 1
        text.add(self.indent, f"bottom = minimum_i64(top + {ROWS}, {last})")
        for value in self.reads:
            self._copy(self._piece(value, "panel"), back=False)
        return self.indent, "top", "bottom"

    def element(self, value: Value, written: bool) -> str | None:
        """The element of an operand or a result at the current point, if a panel holds it."""
        if value not in (self.writes if written else self.reads):
            return None
        piece = self._piece(value, "results" if written else "panel")
        variables = self.writer.variables
        return f"{piece.name}[{piece.place(variables[piece.across], variables[piece.inner])}]"

    def close(self) -> None:
        """Copy the results of a panel to where they lie."""
        for value in self.writes:
            self._copy(self._piece(value, "results"), back=True)

    def _piece(self, value: Value, name: str) -> Turned:
        writer, (*outer, inner) = self.writer, self.writer.nest.reduced
        pitch = writer.extents_product(writer.nest.reduced) + APART
        base = f"worker * {writer.number('panel_size', ROWS * pitch)}"
        for number, axis in enumerate(outer):
            following = "*".join(writer.extent(a) for a in (*outer[number + 1 :], inner))
            base += f" + i{axis} * ({following})"
        piece = Turned(
            value,
            f"{writer.names[value]}_{name}",
            writer.nest.kept[-1],
            inner,
            writer.number("panel_pitch", pitch),
            ("top", "0"),
            base,
        )
        declare(writer, piece, ROWS * pitch)
        return piece

    def _copy(self, piece: Turned, back: bool) -> None:
        writer, outer = self.writer, self.writer.nest.reduced[:-1]
        indent = writer.open_loops(outer, self.indent)
        copy_turned(writer, piece, ("bottom", writer.extent(piece.inner)), indent, back)
        for axis in outer:
            del writer.variables[axis]
