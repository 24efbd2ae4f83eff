"""Printing copies between memory that lies across and pieces of it that were turned round."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.graph import Value
from ...sizes import largest
from .. import scalar
from ..kernel import Scratch
from .cpu import Writer


@dataclass(frozen=True)
class Turned:
    """A piece of each worker's own memory that holds rows of a value, neighbours along ``inner`` side by side."""

    value: Value
    name: str
    across: int  # the axis along which the value itself lies
    inner: int
    pitch: str  # from one row to the next
    first: tuple[str, str]  # where the piece begins along both axes
    base: str  # of a worker's piece

    def place(self, row: str, column: str) -> str:
        """The index of an element, given where it is along both axes."""
        top, begin = self.first
        behind = column if begin == "0" else f"{column} - {begin}"
        return f"{self.base} + ({row} - {top}) * {self.pitch} + {behind}"


def declare(writer: Writer, turned: Turned, count: int) -> None:
    """The parameter that holds the memory, of so many elements for each worker."""
    dtype = turned.value.spec.dtype
    scratch = Scratch(turned.name, dtype, largest(count, 1), per_worker=True)
    writer.text.parameter(turned.name, scalar.storage_type(dtype) + "*", scratch)


def copy_turned(
    writer: Writer, turned: Turned, last: tuple[str, str], indent: int, back: bool = False
) -> None:
    """Copy a piece that ends at ``last`` along both axes from where the value lies, or ``back`` to there.

    Squares are turned round in registers; the last ones begin where they end at the edge, and some elements are moved
    twice. A piece that is too narrow for any goes one by one.
    """
    text, value = writer.text, turned.value
    access = (writer.nest.writes if back else writer.nest.reads)[value]
    pointer = writer.pointer(value, access, written=back)
    stride = writer.number(f"{pointer}_s{turned.inner}", access.strides[turned.inner])
    (top, begin), (bottom, end) = turned.first, last

    def places(row: str, column: str) -> tuple[str, str]:
        kept = dict(writer.variables)
        writer.variables |= {turned.across: row, turned.inner: column}
        there = writer.address(access, pointer)
        writer.variables = kept
        return there, turned.place(row, column)

    there, here = places("row_at", "column_at")
    lies, piece = f"{pointer}, {there}, {stride}", f"{turned.name}, {here}, {turned.pitch}"
    both = f"{lies}, {piece}" if back else f"{piece}, {lies}"
    text.add(indent, f"narrowest = minimum_i64({bottom} - {top}, {end} - {begin})")
    for side in (8,) if value.spec.dtype.itemsize == 8 else (16, 8):
        text.add(indent, f"if narrowest >= {side}:")
        text.add(indent + 1, f"for column in range({begin}, {end}, {side}):")
        text.add(indent + 2, f"column_at = minimum_i64(column, {end} - {side})")
        text.add(indent + 2, f"for row_of in range({top}, {bottom}, {side}):")
        text.add(indent + 3, f"row_at = minimum_i64(row_of, {bottom} - {side})")
        text.add(indent + 3, f"turned = turn_{side}({both})")
        text.add(indent, "else:")
        indent += 1
    row, column = f"j{turned.across}", f"j{turned.inner}"
    there, here = places(row, column)
    text.add(indent, f"for {row} in range({top}, {bottom}):")
    text.add(indent + 1, f"for {column} in range({begin}, {end}):")
    to, source = f"{turned.name}[{here}]", f"{pointer}[{there}]"
    text.add(indent + 2, f"{source} = {to}" if back else f"{to} = {source}")
