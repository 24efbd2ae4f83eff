"""Columns that are folded side by side: a loop over the rows inside one over the columns, in vector code.

    for i in columns(start, stop, 128):
        total = float32(0)
        for row in range(first, last):
            total += x[row * pitch + i]
        out[i] = total

Lanes are columns. Several registers next to each other hold what so many columns have come to, all the way down the
rows, so that memory is read in one go and nothing but the results is written. ``columns`` names about how many columns
there will be: registers for more of them would be loaded with nothing. What is left over at the end has a mask.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from tracejit.codegen.lower.body import BITS, Body, Loop, body_of
from tracejit.codegen.lower.carried import CarriedLanes
from tracejit.codegen.lower.instructions import NotWidened
from tracejit.codegen.lower.meetings import pairs_to_compare
from tracejit.codegen.lower.rounds import Rounds, Target
from tracejit.codegen.lower.types import I64, Value, fail

if TYPE_CHECKING:
    from tracejit.codegen.lower.function import FunctionLowering

__all__ = ["fold_columns", "folds_columns", "lowered_apart"]

T = TypeVar("T")

#: Registers that hold results, of the 32 that come with vectors of 512 bits, and of 16.
_REGISTERS = {512: 16, 256: 8}
_MOST_PARTS = 8
_NAME = re.compile(r"%[\w.]+")


@dataclass(frozen=True, slots=True)
class _Rows:
    """The loop over the rows."""

    counter: str
    start: str
    stop: str
    step: str


@dataclass(frozen=True, slots=True)
class _End:
    """Where a result is written: instructions that find the address, the address, the type, and the result's slot."""

    lines: Sequence[str]
    address: str
    type: str
    slot: str


def folds_columns(node: ast.For) -> bool:
    """Is this a loop over columns?

    >>> folds_columns(ast.parse("for i in columns(0, n, 64):\\n    pass").body[0])
    True
    """
    call = node.iter
    return (
        isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "columns"
    )


def fold_columns(
    lowering: FunctionLowering, node: ast.For, widening: tuple[int, Sequence[str]]
) -> None:
    """Print a loop over columns as vector code; raises :class:`NotWidened` where it is not of the form above.

    >>> from tracejit.codegen.lower.lower import lower_kernel
    >>> text = lower_kernel('''
    ... def total(x: "f32*", out: "f32*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for i in columns(0, 32, 32):
    ...         total = float32(0)
    ...         for row in range(lo, hi):
    ...             total += x[row * 32 + i]
    ...         out[i] = total
    ...     return 0
    ... ''', "total", noalias=True, vector_bits=512, lacking=(), widen=512).text
    >>> text.count("fadd reassoc <16 x float>")  # two registers, of whole panels and of what is left
    4
    """
    name, start, stop, _ = lowering.range_of(node)
    counter = f"%{lowering.fresh(name)}"
    loops = [number for number, each in enumerate(node.body) if isinstance(each, ast.For)]
    if len(loops) != 1:
        raise NotWidened("columns without a loop over rows")
    inner = node.body[loops[0]]
    assert isinstance(inner, ast.For)
    outer = dict(lowering.values)
    lowering.statements(node.body[: loops[0]])
    row, *ends = lowering.range_of(inner)
    rows = _Rows(f"%{lowering.fresh(row)}", *[end.ref for end in ends])
    had = frozenset(slot.ref for slot in lowering.slots.values())
    lowering.values |= {
        name: Value(counter, I64, index=True),
        row: Value(rows.counter, I64, index=True),
    }
    lines, _ = lowered_apart(lowering, lambda: lowering.statements(inner.body))
    found = [_end(lowering, statement) for statement in node.body[loops[0] + 1 :]]
    lowering.values = outer
    slots = {slot.ref: slot.type.llvm for slot in lowering.all_slots.values()}
    loop = Loop(counter, start.ref, stop.ref, lines, slots, had, 1)
    printer = _ColumnFold(lowering, loop, rows, lowering.library_text, widening)
    lowering.lines += printer.printed(found, _expected(node))
    lowering.block = lowering.lines[-1].removesuffix(":")


def _expected(node: ast.For) -> int:
    """About how many columns there will be."""
    assert isinstance(node.iter, ast.Call)
    match node.iter.args:
        case [_, _, ast.Constant(value=int(count))] if count > 0:
            return count
    fail(node, "a loop over columns is `for name in columns(start, stop, 128)`")


def lowered_apart(lowering: FunctionLowering, lower: Callable[[], T]) -> tuple[list[str], T]:
    """The lines that something lowers to, which are taken from the function again, and what it returns.

    >>> from tracejit.codegen.lower.function import FunctionLowering
    >>> from tracejit.codegen.lower.module import LIBRARY
    >>> lowering = FunctionLowering(ast.parse("def f() -> 'i64': return 0").body[0], LIBRARY)
    >>> lowered_apart(lowering, lambda: lowering.emit("add i64 1, 2")), lowering.lines
    ((['  %t.1 = add i64 1, 2'], '%t.1'), [])
    """
    begin = len(lowering.lines)
    found = lower()
    lines = lowering.lines[begin:]
    del lowering.lines[begin:]
    return lines, found


def _end(lowering: FunctionLowering, node: ast.stmt) -> _End:
    """What is done with a result."""
    match node:
        case ast.Assign(targets=[ast.Subscript() as target], value=ast.Name(id=name)):
            if name in lowering.slots:
                lines, (address, element) = lowered_apart(
                    lowering, lambda: lowering.address(target)
                )
                slot = lowering.slots[name]
                if slot.type is element:
                    return _End(lines, address, element.llvm, slot.ref)
    raise NotWidened("results of columns that are not just written")


class _Parts(Rounds):
    """Rounds whose parts have masks of their own, or none."""

    def __init__(
        self, printer: CarriedLanes, counter: str, parts: int, masks: Sequence[str]
    ) -> None:
        super().__init__(printer, [], counter, parts, printer.lanes, None)
        self.of_parts = masks

    def part_mask(self, part: int) -> str | None:
        return self.of_parts[part] if self.of_parts else None


class _ColumnFold(CarriedLanes):
    """Prints the loops as blocks: panels of columns that are whole, and one of what is left over."""

    def __init__(
        self,
        target: Target,
        loop: Loop,
        rows: _Rows,
        text_of: Callable[[str], str],
        widening: tuple[int, Sequence[str]],
    ) -> None:
        bits, lacking = widening
        body = _checked(body_of(loop, text_of, lacking))
        lanes = bits // max(BITS[type_] for type_ in body.memory_types())
        super().__init__(body, target, lanes, loop.counter, text_of)
        self.loop, self.rows, self.bits = loop, rows, bits

    def printed(self, ends: Sequence[_End], expected: int) -> list[str]:
        """All lines, from the branch to the panels to the label behind them."""
        name, loop, parts = self.name, self.loop, self._parts(expected)
        starts = [
            self.spread(self.before, self.slot(self.before, c), c.fold.type)
            for c in self.body.carried
        ]
        width = parts * self.lanes
        entry = f"[ {loop.start}, %{name}.before ]"
        whole = _Panel(self, "whole", parts, starts)
        whole.write(ends, f"{entry}, [ %{name}.whole.next, %{name}.whole.end ]")
        left = _Panel(self, "left", parts, starts)
        left.write(ends, f"[ %{name}.from, %{name}.between ]", masked=True)
        return [
            f"  br label %{name}.before",
            f"{name}.before:",
            *self.before,
            *whole.known,
            *left.known,
            f"  %{name}.first = add nsw i64 {loop.start}, {width}",
            f"  %{name}.fits = icmp sle i64 %{name}.first, {loop.stop}",
            f"  br i1 %{name}.fits, label %{name}.whole, label %{name}.between",
            *whole.lines,
            f"  %{name}.whole.next = add nsw i64 %{name}.whole.at, {width}",
            f"  %{name}.whole.stop = add nsw i64 %{name}.whole.next, {width}",
            f"  %{name}.whole.again = icmp sle i64 %{name}.whole.stop, {loop.stop}",
            f"  br i1 %{name}.whole.again, label %{name}.whole, label %{name}.between",
            f"{name}.between:",
            f"  %{name}.from = phi i64 {entry}, [ %{name}.whole.next, %{name}.whole.end ]",
            f"  %{name}.any = icmp slt i64 %{name}.from, {loop.stop}",
            f"  br i1 %{name}.any, label %{name}.left, label %{name}.done",
            *left.lines,
            f"  br label %{name}.done",
            f"{name}.done:",
        ]

    def _parts(self, expected: int) -> int:
        """How many registers go side by side: as many for every panel, and no more than there are results for."""
        vectors = -(-expected // self.lanes)
        registers = _REGISTERS.get(self.bits, 8) // max(len(self.body.carried), 1)
        most = max(1, min(registers, _MOST_PARTS))
        return -(-vectors // -(-vectors // most))


class _Panel:
    """Columns that are folded at the same time: blocks of what comes before the rows, a row, and what comes after."""

    def __init__(self, fold: _ColumnFold, which: str, parts: int, starts: Sequence[str]) -> None:
        self.fold, self.parts, self.starts = fold, parts, starts
        self.name = f"{fold.name}.{which}"
        self.at = f"%{self.name}.at"
        self.known: list[str] = []  # what does not depend on the row
        self.lines: list[str] = []

    def write(self, ends: Sequence[_End], columns: str, masked: bool = False) -> None:
        """Print the blocks for the first of ``columns``, up to the end of the last block."""
        fold, name, rows, lines = self.fold, self.name, self.fold.rows, self.lines
        printer = CarriedLanes(fold.body, fold.target, fold.lanes, fold.loop.counter, fold.text_of)
        lines += [f"{name}:", f"  {self.at} = phi i64 {columns}"]
        rounds = _Parts(printer, self.at, self.parts, self._masks(printer) if masked else [])
        printer.hoist()
        for carried in fold.body.carried:
            rounds.values[carried.first] = [
                f"%{fold.target.fresh('acc')}" for _ in range(self.parts)
            ]
        rounds.run()
        row, around = f"%{name}.row", [f"%{name}", f"%{name}.rows"]
        self.known, before = _split(_renamed(printer.before, rows.counter, row), row)
        end: list[str] = []
        lines += [
            f"  %{name}.some = icmp slt i64 {rows.start}, {rows.stop}",
            f"  br i1 %{name}.some, label %{name}.rows, label %{name}.end",
            f"{name}.rows:",
            *fold.meeting(row, "i64", [rows.start, f"%{name}.following"], around),
        ]
        results: dict[str, list[str]] = {}
        for carried, first in zip(fold.body.carried, self.starts, strict=True):
            type_, results[carried.slot] = fold.spell(carried.fold.type), []
            now, last = rounds.values[carried.first], rounds.values[carried.last]
            for ref, following in zip(now, last, strict=True):
                lines += fold.meeting(ref, type_, [first, following], around)
                results[carried.slot].append(f"%{fold.target.fresh('carried')}")
                end += fold.meeting(results[carried.slot][-1], type_, [first, following], around)
        lines += [
            *before,
            *_renamed(rounds.lines, rows.counter, row),
            f"  %{name}.following = add nsw i64 {row}, {rows.step}",
            f"  %{name}.more = icmp slt i64 %{name}.following, {rows.stop}",
            f"  br i1 %{name}.more, label %{name}.rows, label %{name}.end",
            f"{name}.end:",
            *end,
        ]
        for each in ends:
            self._store(each, rounds, results[each.slot])

    def _masks(self, printer: CarriedLanes) -> list[str]:
        """Which lanes of every part hold a column."""
        lines, type_, lanes = self.lines, printer.spell("i64"), printer.lanes
        left = printer.emit(lines, f"sub nsw i64 {self.fold.loop.stop}, {self.at}")
        every = printer.spread(lines, left, "i64")
        found = []
        for part in range(self.parts):
            numbers = ", ".join(f"i64 {part * lanes + lane}" for lane in range(lanes))
            found.append(printer.emit(lines, f"icmp slt {type_} <{numbers}>, {every}"))
        return found

    def _store(self, end: _End, rounds: _Parts, values: list[str]) -> None:
        """Write a result."""
        fold, loop = self.fold, self.fold.loop
        whole = f"%{fold.target.fresh('whole')}"
        stored = [*end.lines, f"  store {end.type} {whole}, ptr {end.address}"]
        alone = Loop(loop.counter, loop.start, loop.stop, stored, {}, frozenset(), 1)
        body = _checked(body_of(alone, fold.text_of, ()))
        body.kinds[whole] = "lanes"
        printer = CarriedLanes(body, fold.target, fold.lanes, loop.counter, fold.text_of)
        printer.hoist()
        written = _Parts(printer, self.at, self.parts, rounds.of_parts)
        written.values[whole] = values
        written.run()
        self.lines += [*printer.before, *written.lines]


def _renamed(lines: Sequence[str], name: str, other: str) -> list[str]:
    """Lines with another name for something."""
    return [_NAME.sub(lambda found: other if found[0] == name else found[0], x) for x in lines]


def _checked(body: Body) -> Body:
    """A body, all of whose elements lie side by side."""
    apart = any(kind in ("stepped", "place", "anywhere") for kind in body.kinds.values())
    if (
        apart
        or body.exits
        or body.divides()
        or pairs_to_compare(body)
        or body.reads_what_it_stored()
    ):
        raise NotWidened("columns that do not lie side by side")
    return body


def _split(lines: Sequence[str], counter: str) -> tuple[list[str], list[str]]:
    """Lines that do not depend on a counter, and those that do."""
    known, others, changing = list[str](), list[str](), {counter}
    for line in lines:
        names = _NAME.findall(line)
        if changing.isdisjoint(names):
            known.append(line)
        else:
            others.append(line)
            changing.add(names[0])
    return known, others
