"""Rows that are folded together: each row's lanes are left as they are, and folded for as many rows as there are lanes.

    for row in together(first, last):
        total = float32(0)
        for i in range(n):
            total += x[row * n + i]
        out[row] = total / float32(n)

To fold the sixteen lanes of one register takes four steps, each of which does half of what the one before it did. For
sixteen rows together all lanes of all registers do something in every step (`turned_folds`), and what is left is one
register that holds the numbers of sixteen rows. What follows for a row (the division above, and writing) is vector code
then, too. Of short rows that is most of the work.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tracejit.codegen.lower.body import BITS, Carried, Loop
from tracejit.codegen.lower.carried import IN_TURN, CarriedLanes, is_sum
from tracejit.codegen.lower.column_folds import lowered_apart
from tracejit.codegen.lower.instructions import NotWidened
from tracejit.codegen.lower.names import names_of
from tracejit.codegen.lower.row_loop import GroupLoop, RowLoop
from tracejit.codegen.lower.row_parts import RowParts
from tracejit.codegen.lower.turned_folds import folded_side_by_side
from tracejit.codegen.lower.types import I64, Value
from tracejit.codegen.lower.widen import vector_loop

if TYPE_CHECKING:
    from tracejit.codegen.lower.function import FunctionLowering

__all__ = ["NotTogether", "fold_rows"]

#: Bits of a register that is folded as fast as any.
_LONG = 256
#: Registers of a row that are folded side by side: rows are short, and many of them are worked on at the same time.
_PARTS = 2


class NotTogether(Exception):
    """A loop over rows that are better folded one after the other."""

    def __init__(self, loop: ast.For) -> None:
        super().__init__("rows that are better folded one after the other")
        self.loop = loop


def fold_rows(
    lowering: FunctionLowering,
    node: ast.For,
    parts: RowParts,
    widening: tuple[int, Sequence[str]],
) -> None:
    """Print a loop over rows that are folded together; raises :class:`NotTogether` where that does not pay.

    >>> from tracejit.codegen.lower.lower import lower_kernel
    >>> text = lower_kernel('''
    ... def k(x: "f32*", out: "f32*", n: "i64", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for row in together(lo, hi):
    ...         total = float32(0)
    ...         for i in range(n):
    ...             total += x[row * n + i]
    ...         out[row] = total
    ...     return 0
    ... ''', "k", noalias=True, vector_bits=512, lacking=(), widen=512).text
    >>> " = alloca [16 x <8 x float>]" in text
    True
    """
    try:
        name, start, stop, step = lowering.range_of(node)
        left = names_of(*node.body)[0] & {*lowering.slots, name}
        if step.ref != "1" or left or name in lowering.in_slots:
            raise NotWidened("rows that leave something to the next, or not every row")
        group = _Group(lowering, name, parts, (start.ref, stop.ref))
        group.open()
        group.rows(widening)
        group.write(widening)
        group.close()
    except NotWidened as error:
        raise NotTogether(node) from error


class _Group:
    """Prints the loop over groups of rows, and in it the loop over rows and what follows for all of them."""

    def __init__(
        self, lowering: FunctionLowering, name: str, parts: RowParts, ends: tuple[str, str]
    ) -> None:
        self.lowering, self.name, self.parts = lowering, name, parts
        self.start, self.stop = ends
        self.label = lowering.fresh("group")
        self.first, self.last = f"%{self.label}.first", f"%{self.label}.last"
        self.lanes = _Lanes(lowering, f"%{self.label}.place")
        self.outside = lowering.block
        self.outer = (dict(lowering.values), dict(lowering.slots))
        self.at, self.element = 0, ("", "", "")

    def open(self) -> None:
        """The head of the loop over groups."""
        lowering, label = self.lowering, self.label
        lowering.lines.append(f"  br label %{label}")
        lowering.label(label)
        lowering.lines += [
            f"  %{label}.more = icmp slt i64 {self.first}, {self.stop}",
            f"  br i1 %{label}.more, label %{label}.body, label %{label}.done",
        ]
        lowering.label(f"{label}.body")
        name, start, stop, step = lowering.range_of(self.parts.loop)
        if step.ref != "1" or name in lowering.in_slots:
            raise NotWidened("not every element of a row")
        self.element = (name, start.ref, stop.ref)
        self.at = len(lowering.lines)

    def rows(self, widening: tuple[int, Sequence[str]]) -> None:
        """The loop over the rows of a group, each of which leaves its lanes."""
        lowering, label, lines = self.lowering, self.label, self.lowering.lines
        row = f"%{label}.row"
        lines.append(f"  br label %{label}.rows")
        lowering.label(f"{label}.rows")
        at = len(lines)
        lines.append(f"  %{label}.place = sub nsw i64 {row}, {self.first}")
        lowering.values[self.name] = Value(row, I64, index=True)
        lowering.depth += 1
        lowering.statements(self.parts.before)
        loop = self._elements(widening)
        known = loop.open()
        lines += loop.lines()
        lowering.block = f"{loop.name}.end"
        lowering.depth -= 1
        self.lanes.keep(loop, lines, loop.lasts)
        origins = f"[ {self.first}, %{label}.body ], [ %{label}.next, %{lowering.block} ]"
        lines.insert(at, f"  {row} = phi i64 {origins}")
        lines += [
            f"  %{label}.next = add nsw i64 {row}, 1",
            f"  %{label}.again = icmp slt i64 %{label}.next, {self.last}",
            f"  br i1 %{label}.again, label %{label}.rows, label %{label}.folded",
        ]
        lines[self.at : self.at] = [
            f"  %{label}.whole = add nsw i64 {self.first}, {self.lanes.count}",
            f"  %{label}.fits = icmp slt i64 %{label}.whole, {self.stop}",
            f"  {self.last} = select i1 %{label}.fits, i64 %{label}.whole, i64 {self.stop}",
            *known,
        ]

    def _elements(self, widening: tuple[int, Sequence[str]]) -> RowLoop:
        """The loop over the elements of a row."""
        lowering, loop = self.lowering, self.parts.loop
        name, start, stop = self.element
        counter = f"%{lowering.fresh(name)}"
        so_far = (lowering.weight, lowering.polynomials)
        outer = (dict(lowering.values), dict(lowering.slots))
        had = frozenset(slot.ref for slot in lowering.slots.values())
        lowering.values[name] = Value(counter, I64, index=True)
        lines, _ = lowered_apart(lowering, lambda: lowering.statements(loop.body))
        lowering.values, lowering.slots = outer
        slots = {slot.ref: slot.type.llvm for slot in lowering.all_slots.values()}
        together = min(lowering.interleave(loop, *so_far), _PARTS)
        made = Loop(counter, start, stop, lines, slots, had, together)
        return vector_loop(RowLoop, made, lowering, lowering.library_text, *widening)

    def write(self, widening: tuple[int, Sequence[str]]) -> None:
        """What follows for all rows of a group."""
        lowering, label = self.lowering, self.label
        lowering.label(f"{label}.folded")
        rows = lowering.emit(f"sub nsw i64 {self.last}, {self.first}")
        numbers = self.lanes.folded(f"{label}.many", rows)
        row, back = f"%{lowering.fresh(self.name)}", lowering.emit(f"sub nsw i64 0, {self.first}")
        lowering.values[self.name] = Value(row, I64, index=True)

        def lower() -> None:
            place = lowering.emit(f"add nsw i64 {row}, {back}")
            for carried, array in zip(self.lanes.carried, numbers, strict=True):
                type_ = carried.fold.type
                at = lowering.emit(f"getelementptr inbounds {type_}, ptr {array}, i64 {place}")
                number = lowering.emit(f"load {type_}, ptr {at}")
                lowering.lines.append(f"  store {type_} {number}, ptr {carried.slot}")
            lowering.statements([*self.parts.needed(), *self.parts.after])

        lines, _ = lowered_apart(lowering, lower)
        slots = {slot.ref: slot.type.llvm for slot in lowering.all_slots.values()}
        loop = Loop(row, self.first, self.last, lines, slots, frozenset(), 1)
        printer = vector_loop(GroupLoop, loop, lowering, lowering.library_text, *widening)
        lowering.lines += printer.lines()
        lowering.block = lowering.lines[-1].removesuffix(":")

    def close(self) -> None:
        """The way back to the next group."""
        lowering, label, following = self.lowering, self.label, f"%{self.label}.following"
        origins = f"[ {self.start}, %{self.outside} ], [ {following}, %{lowering.block} ]"
        head = lowering.lines.index(f"{label}:") + 1
        lowering.lines.insert(head, f"  {self.first} = phi i64 {origins}")
        lowering.lines += [
            f"  {following} = add nsw i64 {self.first}, {self.lanes.count}",
            f"  br label %{label}",
        ]
        lowering.values, lowering.slots = self.outer
        lowering.label(f"{label}.done")


@dataclass(slots=True)
class _Lanes:
    """The lanes that the loop over a row leaves, in memory for all rows of a group."""

    lowering: FunctionLowering
    place: str  # the number of a row in its group
    printer: CarriedLanes | None = None
    carried: list[Carried] = field(default_factory=list)
    #: The lanes of all rows, for each value that is carried.
    arrays: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many lanes there are, and rows of a group."""
        assert self.printer is not None
        return self.printer.lanes

    def keep(self, printer: CarriedLanes, lines: list[str], lanes: Sequence[str]) -> None:
        """Store what the lanes hold for a row; ``printer`` is that of the loop."""
        self.printer, self.carried = printer, printer.body.carried
        for carried, ref in zip(self.carried, lanes, strict=True):
            vector = self._kept(carried)
            self.arrays.append(self._array(f"[{self.count} x {vector}]"))
            kept = printer.halved(lines, carried, ref, self.count, self._held(carried))
            at = f"getelementptr {vector}, ptr {self.arrays[-1]}, i64 {self.place}"
            lines.append(f"  store {vector} {kept}, ptr {printer.emit(lines, at)}")

    def _held(self, carried: Carried) -> int:
        """How many lanes of a row are kept: registers that are half as long are folded in half the time."""
        fewest = _LONG // BITS[carried.fold.type]
        return min(self.count, max(fewest, IN_TURN) if is_sum(carried) else fewest)

    def _kept(self, carried: Carried) -> str:
        return f"<{self._held(carried)} x {carried.fold.type}>"

    def folded(self, label: str, rows: str) -> list[str]:
        """Arrays of the numbers that the lanes fold to, for so many rows; ends in a block ``label``."""
        assert self.printer is not None
        printer, lines, found = self.printer, self.lowering.lines, list[str]()
        for carried, array in zip(self.carried, self.arrays, strict=True):
            vector = printer.spell(carried.fold.type)
            held = self._held(carried)
            refs = [self._row(lines, vector, array, str(row)) for row in range(held)]
            number = folded_side_by_side(printer, lines, carried, refs, self.count // held)
            begun = printer.spread(lines, printer.slot(lines, carried), carried.fold.type)
            number = printer.fold(lines, carried, begun, number, self.count)
            found.append(self._array(vector))
            lines.append(f"  store {vector} {number}, ptr {found[-1]}")
        if any(map(is_sum, self.carried)):
            self._few_terms(label, rows, found)
        return found

    def _few_terms(self, label: str, rows: str, numbers: Sequence[str]) -> None:
        """Sums of a few terms once more, in turn: as eager execution finds them."""
        assert self.printer is not None
        printer, lowering, lines = self.printer, self.lowering, self.lowering.lines
        few, origin = f"{label}.few", lowering.block
        row = f"%{few}.row"
        lines += [
            f"  %{few}.only = icmp slt i64 %{printer.name}.count, {IN_TURN}",
            f"  br i1 %{few}.only, label %{few}, label %{label}",
        ]
        lowering.label(few)
        lines.append(f"  {row} = phi i64 [ 0, %{origin} ], [ %{few}.next, %{few} ]")
        for carried, array, number in zip(self.carried, self.arrays, numbers, strict=True):
            if not is_sum(carried):
                continue
            type_, whole = carried.fold.type, self._row(lines, self._kept(carried), array, row)
            terms = printer.halved(lines, carried, whole, self._held(carried), IN_TURN)
            one = printer.in_turn(lines, carried, terms, IN_TURN)
            one = printer.fold(lines, carried, printer.slot(lines, carried), one, 1)
            at = printer.emit(lines, f"getelementptr {type_}, ptr {number}, i64 {row}")
            lines.append(f"  store {type_} {one}, ptr {at}")
        lines += [
            f"  %{few}.next = add nsw i64 {row}, 1",
            f"  %{few}.more = icmp slt i64 %{few}.next, {rows}",
            f"  br i1 %{few}.more, label %{few}, label %{label}",
        ]
        lowering.label(label)

    def _row(self, lines: list[str], vector: str, array: str, row: str) -> str:
        """A vector of an array."""
        assert self.printer is not None
        at = self.printer.emit(lines, f"getelementptr {vector}, ptr {array}, i64 {row}")
        return self.printer.emit(lines, f"load {vector}, ptr {at}")

    def _array(self, type_: str) -> str:
        """Memory of the function's own, of zeros: what is not there for a row may take long to add otherwise."""
        array = f"%{self.lowering.fresh('rows')}"
        self.lowering.kinds[array] = "padded"
        self.lowering.slot_lines += [
            f"  {array} = alloca {type_}, align 64",
            f"  store {type_} zeroinitializer, ptr {array}, align 64",
        ]
        return array
