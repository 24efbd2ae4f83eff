"""The rounds of a loop for several elements at once: lanes of a register, and several registers next to each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from tracejit.codegen.lower.anywhere import load_anywhere
from tracejit.codegen.lower.body import BITS, Body
from tracejit.codegen.lower.instructions import Instruction, Spelling, all_lanes, is_literal
from tracejit.codegen.lower.places import load_places, store_places
from tracejit.codegen.lower.scaling import scaled
from tracejit.codegen.lower.steps import SUFFIX, load_stepped, store_stepped
from tracejit.codegen.lower.words import read_first, write_first

__all__ = ["Rounds", "Target", "VectorPrinter"]

_TYPE_NAMES = re.compile(r"\.(f\d+|i\d+)")


class Target(Protocol):
    """What the function being lowered offers."""

    #: Does the machine scale vectors of 512 bits by powers of two that are floats?
    scales: bool

    def fresh(self, stem: str = "t") -> str:
        """A new name."""

    def declare(self, declaration: str) -> None:
        """Note an external declaration."""

    def is_padded(self, root: str) -> bool:
        """May a whole vector be read and written where the last elements of an array lie?"""

    def is_streamed(self, root: str) -> bool:
        """Is what is written to an array not to be read soon?"""

    def note(self, metadata: str) -> str:
        """The name of a node of metadata."""


class VectorPrinter:
    """Prints instructions for so many lanes; what is uniform goes to `before`, once."""

    def __init__(self, body: Body, target: Target, lanes: int, counter: str) -> None:
        self.body, self.target, self.lanes, self.counter = body, target, lanes, counter
        self.before: list[str] = []
        self._names: dict[str, str] = {}
        self._splats: dict[tuple[str, str], str] = {}
        self._bases: dict[tuple[str, str], str] = {}
        self._steps: dict[str, str] = {}
        #: Bits of the narrowest numbers that can be read and written with a mask.
        self.least_masked = 0
        #: Where windows of elements some steps apart begin for a counter of zero.
        self.windows: dict[object, str] = {}

    def hoist(self) -> None:
        """Print what is uniform."""
        for instruction in self.body.instructions:
            if instruction.result and self.body.kind(instruction.result) == "uniform":
                operands = [self.scalar(operand) for operand in instruction.operands]
                text = instruction.text(str, operands)
                self._names[instruction.result] = self.emit(self.before, text)

    def emit(self, lines: list[str], text: str) -> str:
        """Append an instruction to some lines; its result."""
        ref = f"%{self.target.fresh('w')}"
        lines.append(f"  {ref} = {text}")
        return ref

    def spell(self, type_: str) -> str:
        """A type for all lanes."""
        return f"<{self.lanes} x {type_}>"

    def scalar(self, ref: str) -> str:
        """A uniform result, as it is called in front of the loop."""
        return self._names.get(ref, ref)

    def splat(self, ref: str, type_: str) -> str:
        """A uniform result in all lanes."""
        if is_literal(ref):
            return all_lanes(type_, ref, self.lanes)
        key = (self.scalar(ref), type_)
        if key not in self._splats:
            self._splats[key] = self.spread(self.before, key[0], type_)
        return self._splats[key]

    def spread(self, lines: list[str], ref: str, type_: str) -> str:
        """Put a scalar into all lanes."""
        vector, mask = self.spell(type_), f"<{self.lanes} x i32> zeroinitializer"
        one = self.emit(lines, f"insertelement {vector} poison, {type_} {ref}, i64 0")
        return self.emit(lines, f"shufflevector {vector} {one}, {vector} poison, {mask}")

    def vector_text(self, instruction: Instruction, operands: Sequence[str], lanes: int) -> str:
        """An instruction for `lanes` lanes (1: for a scalar)."""
        spell: Spelling = str if lanes == 1 else lambda type_: f"<{lanes} x {type_}>"
        if instruction.callee and lanes > 1:
            callee = _TYPE_NAMES.sub(rf".v{lanes}\1", instruction.callee)
            instruction = replace(instruction, callee=callee)
        if instruction.callee:
            types = ", ".join(spell(type_) for type_ in instruction.types)
            self.target.declare(f"declare {spell(instruction.type)} @{instruction.callee}({types})")
        return instruction.text(spell, operands)

    def base(self, at: Instruction) -> str:
        """The address of the element with which a counter of zero would begin, computed before the loop."""
        root, index = at.operands
        key = (root, self.body.spelled(index))
        if key not in self._bases:
            offset = Rounds(self, self.before, "0", 1, 1, None).linear(index)
            text = f"getelementptr {at.type}, ptr {root}, i64 {offset}"
            self._bases[key] = self.emit(self.before, text)
        return self._bases[key]

    def step(self, index: str) -> str:
        """By how much an index that steps grows from round to round, computed before the loop."""
        key = self.body.spelled(index)
        if key not in self._steps:
            at = [
                Rounds(self, self.before, start, 1, 1, None).linear(index) for start in ("1", "0")
            ]
            self._steps[key] = self.emit(self.before, f"sub i64 {at[0]}, {at[1]}")
        return self._steps[key]

    def offsets(self, index: str) -> str:
        """How far the elements of all lanes are from that of the first, computed before the loop."""
        key = (self.step(index), "offsets")
        if key not in self._splats:
            numbers = ", ".join(f"i64 {lane}" for lane in range(self.lanes))
            every, vector = self.splat(key[0], "i64"), self.spell("i64")
            self._splats[key] = self.emit(self.before, f"mul {vector} {every}, <{numbers}>")
        return self._splats[key]


class Rounds:
    """The instructions of a round: the parts of each next to each other, so that they need not wait for one another."""

    def __init__(
        self,
        printer: VectorPrinter,
        lines: list[str],
        counter: str,
        parts: int,
        lanes: int,
        mask: str | None,
        body: Body | None = None,
    ) -> None:
        self.printer, self.body, self.lines = printer, body or printer.body, lines
        self.counter, self.parts, self.lanes, self.mask = counter, parts, lanes, mask
        #: Pointers whose elements are written past the caches, and the metadata that says so.
        self.streamed: dict[str, str] = {}
        self.values: dict[str, list[str]] = {}
        self.masks: dict[object, str] = {}  # of lanes in which some checks hold
        self.linears: dict[str, str] = {}
        self.addresses: dict[tuple[str, int], str] = {}
        self.left = ""  # how many elements, of the type of the mask's numbers
        #: Vectors of windows that were read, and values that are to be written to one.
        self.stepped: dict[object, list[str]] = {}
        self.given: dict[object, dict[int, list[str]]] = {}
        self.read, self.written = self.body.windows("load"), self.body.windows("store")

    def run(self) -> None:
        """Print all that has lanes, and what a masked round carries; what is stored only where there are no checks."""
        for instruction in self.body.instructions:
            if not instruction.result:
                if not self.guarded:
                    self._store(instruction)
            elif self.body.kind(instruction.result) == "lanes":
                self.values[instruction.result] = [
                    self._lane(instruction, part) for part in range(self.parts)
                ]
        if self.mask is not None:
            chosen = {}
            for carried in self.body.carried:
                type_ = self.printer.spell(carried.fold.type)
                new, old = self.values[carried.last][0], self.values[carried.first][0]
                text = (
                    f"select {self.printer.spell('i1')} {self.mask}, {type_} {new}, {type_} {old}"
                )
                chosen[carried.last] = [self.printer.emit(self.lines, text)]
            self.values.update(chosen)

    def part_mask(self, part: int) -> str | None:
        """Which lanes of a part hold an element; None where all of them do."""
        return self.mask

    @property
    def guarded(self) -> bool:
        """Is anything checked before something is stored?"""
        return bool(self.body.checks or self.body.exits)

    def holds(self, ends: Sequence[str], part: int) -> str:
        """The lanes of a part that hold an element, and in which nothing ends the program; a mask."""
        key = (*ends, part)
        if key not in self.masks:
            truths, mask = self.printer.spell("i1"), self.mask
            true = all_lanes("i1", "true", self.lanes)
            for end in ends:
                fine = self.printer.emit(
                    self.lines, f"xor {truths} {self.values[end][part]}, {true}"
                )
                if mask is not None:
                    fine = self.printer.emit(self.lines, f"and {truths} {mask}, {fine}")
                mask = fine
            self.masks[key] = true if mask is None else mask
        return self.masks[key]

    def check(self) -> str:
        """Print whether all checks hold in all lanes that hold an element."""
        printer, truths = self.printer, self.printer.spell("i1")
        refs = [x for c in self.body.checks for x in self.values[c]]
        refs += [self.holds([x], part) for x in self.body.exits for part in range(self.parts)]
        every = refs[0]
        for ref in refs[1:]:
            every = printer.emit(self.lines, f"and {truths} {every}, {ref}")
        if self.mask is not None:
            empty = printer.emit(
                self.lines, f"xor {truths} {self.mask}, {all_lanes('i1', 'true', self.lanes)}"
            )
            every = printer.emit(self.lines, f"or {truths} {every}, {empty}")
        bits = printer.emit(self.lines, f"bitcast {truths} {every} to i{self.lanes}")
        return printer.emit(self.lines, f"icmp eq i{self.lanes} {bits}, -1")

    def store(self) -> None:
        """Print what is stored, after checks."""
        for instruction in self.body.instructions:
            if not instruction.result:
                self._store(instruction)

    def linear(self, ref: str) -> str:
        """The counter and something uniform, for the first part."""
        if ref == self.printer.counter:
            return self.counter
        if self.body.kind(ref) == "uniform":
            return self.printer.scalar(ref)
        if ref not in self.linears:
            made = self.body.definitions[ref]
            operands = [self.linear(operand) for operand in made.operands]
            self.linears[ref] = self.printer.emit(self.lines, made.text(str, operands))
        return self.linears[ref]

    def _address(self, ref: str, part: int) -> str:
        made = self.body.definitions[ref]
        base = self.printer.base(made)
        known = self.addresses.get((base, part))
        if known is None:
            text = f"getelementptr {made.type}, ptr {base}, i64 {self.counter}"
            if part:
                first = self._address(ref, 0)
                text = f"getelementptr {made.type}, ptr {first}, i64 {part * self.lanes}"
            known = self.addresses[base, part] = self.printer.emit(self.lines, text)
        return known

    def operand(self, ref: str, type_: str, part: int) -> str:
        """A result for the lanes of a part."""
        printer, kind = self.printer, self.body.kind(ref)
        if kind == "lanes":
            return self.values[ref][part]
        if kind == "uniform":
            return printer.scalar(ref) if self.lanes == 1 else printer.splat(ref, type_)
        first = self.linear(ref)
        if self.lanes == 1:
            return first
        if kind == "stepping":
            return self._lane(self.body.definitions[ref], part)
        numbers = range(part * self.lanes, (part + 1) * self.lanes)
        lanes = ", ".join(f"{type_} {number}" for number in numbers)
        every = printer.spread(self.lines, first, type_)
        return printer.emit(self.lines, f"add {printer.spell(type_)} {every}, <{lanes}>")

    def _lane(self, instruction: Instruction, part: int) -> str:
        printer = self.printer
        if instruction.opcode == "load":
            return self._load(instruction, part)
        if instruction.opcode == "gather":
            return load_anywhere(self, instruction, part)
        if instruction.opcode == "select" or instruction.callee.startswith("llvm.ldexp."):
            found = scaled(self, instruction, part)
            if found is not None:
                return found
        operands = [
            self.operand(operand, type_, part)
            for operand, type_ in zip(instruction.operands, instruction.types, strict=True)
        ]
        return printer.emit(self.lines, printer.vector_text(instruction, operands, self.lanes))

    def _load(self, instruction: Instruction, part: int) -> str:
        type_ = instruction.type
        kind = self.body.kind(instruction.operands[0])
        if kind == "stepped" and self.lanes > 1:
            return load_stepped(self, self.read, instruction.operands[0], part)
        if kind in ("stepped", "place"):
            return load_places(self, instruction, part)
        if kind == "table":
            return self._look_up(instruction, part)
        mask = None if self._is_padded(instruction.operands[0]) else self.part_mask(part)
        address = self._address(instruction.operands[0], part)
        if mask is not None and self._lacks_mask(type_):
            return read_first(self, type_, address)
        return self.load_at(type_, address, mask)

    def _lacks_mask(self, type_: str) -> bool:
        """Are numbers of this type too narrow for the masks that there are?"""
        return BITS[type_] < self.printer.least_masked

    def load_at(self, type_: str, address: str, mask: str | None) -> str:
        """A vector of memory, with zeros where a mask has none of it."""
        printer, align = self.printer, BITS[type_] // 8
        vector, truths = printer.spell(type_), printer.spell("i1")
        if mask is None:
            read = type_ if self.lanes == 1 else vector
            return printer.emit(self.lines, f"load {read}, ptr {address}, align {align}")
        name = f"@llvm.masked.load.v{printer.lanes}{SUFFIX.get(type_, type_)}.p0"
        printer.target.declare(f"declare {vector} {name}(ptr, i32, {truths}, {vector})")
        given = f"ptr {address}, i32 {align}, {truths} {mask}, {vector} zeroinitializer"
        return printer.emit(self.lines, f"call {vector} {name}({given})")

    def _is_padded(self, pointer: str) -> bool:
        """May a whole vector be read and written here, whatever the mask says?

        Masked stores are not forwarded to the loads that follow, which wait for the cache.
        """
        return self.printer.target.is_padded(self.body.definitions[pointer].operands[0])

    def _store(self, instruction: Instruction) -> None:
        type_ = instruction.type
        value, pointer = instruction.operands
        if self.body.kind(pointer) == "stepped" and self.lanes > 1:
            values = [self.operand(value, type_, part) for part in range(self.parts)]
            store_stepped(self, self.written, pointer, values)
            return
        if self.body.kind(pointer) in ("stepped", "place"):
            store_places(self, instruction)
            return
        # What is read in the same loop may be elements of later rounds.
        whole = self._is_padded(pointer) and not self.body.reads(pointer)
        for part in range(self.parts):
            address, lanes = self._address(pointer, part), self.operand(value, type_, part)
            mask = None if whole else self.part_mask(part)
            if mask is not None and self._lacks_mask(type_):
                write_first(self, type_, lanes, address)
                continue
            self.store_at(type_, lanes, address, mask, self.streamed.get(pointer))

    def store_at(
        self, type_: str, value: str, address: str, mask: str | None, streamed: str | None = None
    ) -> None:
        """Write a vector, or what a mask has of it; past the caches where metadata says that it is ``streamed``."""
        printer, align = self.printer, BITS[type_] // 8
        vector, truths = printer.spell(type_), printer.spell("i1")
        if mask is None:
            written, how = type_ if self.lanes == 1 else vector, f"align {align}"
            if streamed is not None:
                how = f"align {align * self.lanes}, !nontemporal {streamed}"
            self.lines.append(f"  store {written} {value}, ptr {address}, {how}")
            return
        name = f"@llvm.masked.store.v{printer.lanes}{SUFFIX.get(type_, type_)}.p0"
        printer.target.declare(f"declare void {name}({vector}, ptr, i32, {truths})")
        given = f"{vector} {value}, ptr {address}, i32 {align}, {truths} {mask}"
        self.lines.append(f"  call void {name}({given})")

    def _look_up(self, instruction: Instruction, part: int) -> str:
        """Elements of a table of constants."""
        table, index = self.body.definitions[instruction.operands[0]].operands
        every = all_lanes("i1", "true", self.lanes)
        return self.look_up(instruction.type, table, index, part, every)

    def look_up(self, type_: str, root: str, index: str, part: int, mask: str) -> str:
        """Elements of an array at the places of a part's lanes, of those that the mask has; zeros elsewhere."""
        printer, places = self.printer, self.operand(index, "i64", part)
        number = "i64" if self.lanes == 1 else printer.spell("i64")
        text = f"getelementptr {type_}, ptr {root}, {number} {places}"
        pointers = printer.emit(self.lines, text)
        if self.lanes == 1:  # where nothing is checked
            return printer.emit(self.lines, f"load {type_}, ptr {pointers}")
        return self.gather(type_, pointers, f"{printer.spell('i1')} {mask}")

    def gather(self, type_: str, pointers: str, mask: str) -> str:
        """The elements at addresses, of those lanes that the mask has."""
        printer = self.printer
        vector, many = printer.spell(type_), printer.spell("ptr")
        name = f"@llvm.masked.gather.v{printer.lanes}{SUFFIX.get(type_, type_)}.v{printer.lanes}p0"
        truths = printer.spell("i1")
        printer.target.declare(f"declare {vector} {name}({many}, i32, {truths}, {vector})")
        given = f"{many} {pointers}, i32 {BITS[type_] // 8}, {mask}, {vector} zeroinitializer"
        return printer.emit(self.lines, f"call {vector} {name}({given})")
