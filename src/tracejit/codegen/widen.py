"""Innermost loops as vector code, made here rather than by LLVM's vectoriser.

The body of a loop is straight-line text for one element. Here it is printed for as many elements as fit into a register,
several registers at a time, and once more with a mask for the elements that are left. What does not depend on the
element is computed once before. A kernel whose innermost loops are all of this kind needs few of LLVM's passes, which
is most of the time of a compilation.

The results are those of the loop, element by element. A loop may carry sums and the like from round to round where its
text says `name += value` or `name = maximum(name, value)`; those are gathered in the lanes and folded at the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tracejit.codegen.instructions import (
    Instruction,
    NotWidened,
    Spelling,
    is_literal,
    read,
    with_calls_inline,
)

__all__ = ["Loop", "NotWidened", "widened"]

_BITS = {"float": 32, "double": 64, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i1": 1}
_SUFFIX = {"float": "f32", "double": "f64"}
_TYPE_NAMES = re.compile(r"\.(f\d+|i\d+)")
#: Where every lane of a sum starts: what changes nothing, not even the sign of a zero.
_NEUTRAL = {
    "fadd": "0x8000000000000000",
    "fmul": "0x3FF0000000000000",
    "add": "0",
    "mul": "1",
    "xor": "0",
}
_IDEMPOTENT = ("and", "or")
#: Instructions of a body that takes less time than it takes to wait for what was just stored.
_SHORT = 16
_EXTREME = re.compile(r"(llvm|tj)\.(maximum|minimum)[._]\w+")


class Target(Protocol):
    """What the function being lowered offers."""

    def fresh(self, stem: str = "t") -> str:
        """A new name."""

    def declare(self, declaration: str) -> None:
        """Note an external declaration."""


@dataclass(frozen=True, slots=True)
class Loop:
    """An innermost loop as it was lowered, one element a round."""

    counter: str
    start: str
    stop: str
    body: Sequence[str]
    #: Stack slots with their types, and those among them that had a value before the loop.
    slots: dict[str, str]
    outer: frozenset[str]
    interleave: int


@dataclass(slots=True)
class _Carried:
    """A slot that a loop adds to."""

    slot: str
    first: str
    last: str
    fold: Instruction


@dataclass(slots=True)
class _Body:
    """The instructions of a body, with slots and calls gone, and what each result depends on."""

    instructions: list[Instruction]
    carried: list[_Carried]
    definitions: dict[str, Instruction] = field(default_factory=dict)
    #: "uniform", "linear" (the counter and something uniform), "address" (of one element after the other) or "lanes".
    kinds: dict[str, str] = field(default_factory=dict)

    def kind(self, ref: str) -> str:
        """What a result depends on; what was there before the loop is uniform."""
        return self.kinds.get(ref, "uniform")

    def spelled(self, ref: str) -> str:
        """A result as an expression, the same for results that are computed alike."""
        made = self.definitions.get(ref)
        if made is None:
            return ref
        operands = " ".join(self.spelled(operand) for operand in made.operands)
        return f"({made.opcode} {made.flags}{made.type} {operands})"


def widened(
    loop: Loop,
    target: Target,
    text_of: Callable[[str], str],
    vector_bits: int,
    lacking: Iterable[str],
) -> list[str]:
    """The lines of a loop in vector code; they end in a block of their own, whose label is the last line.

    `text_of` gives the text of a library function by name, `lacking` names instructions that the target has not.
    Raises `NotWidened` where the loop is none of this kind.
    """
    if is_literal(loop.start) and is_literal(loop.stop):
        raise NotWidened("as many rounds in every call, which LLVM writes out if they are few")
    body = _body_of(loop, text_of)
    _classify(body, loop, frozenset(f"llvm.{name}" for name in lacking))
    lanes = vector_bits // max(_BITS[type_] for type_ in _memory_types(body))
    return _Writer(loop, body, target, text_of, lanes).lines()


def _memory_types(body: _Body) -> list[str]:
    """The types of what is read, written and carried, and of all numbers with a fraction."""
    found = [i.type for i in body.instructions if i.opcode in ("load", "store")]
    found += [carried.fold.type for carried in body.carried]
    found += [i.type for i in body.instructions if i.type in ("float", "double")]
    if "i1" in found or not found:
        raise NotWidened("truth values in memory, or nothing to do")
    return found


# --- What a body is ---------------------------------------------------------------------------------------------------


def _body_of(loop: Loop, text_of: Callable[[str], str]) -> _Body:
    instructions, current, loaded = [], {}, {}
    stored, same = set(), {}
    for instruction in read(loop.body):
        operands = tuple([same.get(operand, operand) for operand in instruction.operands])
        instruction = instruction.with_operands(operands)
        slot = operands[-1]
        if instruction.opcode == "load" and slot in loop.slots:
            if slot not in current:
                current[slot] = loaded[slot] = instruction.result
            same[instruction.result] = current[slot]
        elif instruction.opcode == "store" and slot in loop.slots:
            if slot not in current and slot in loop.outer:
                raise NotWidened("what the last round leaves is used after the loop")
            current[slot] = operands[0]
            stored.add(slot)
        else:
            instructions.append(instruction)
    carried = [
        _carried(slot, first, current[slot], instructions)
        for slot, first in loaded.items()
        if slot in stored
    ]
    before = [
        Instruction(first, "load", loop.slots[slot], ("ptr",), (slot,))
        for slot, first in loaded.items()
        if slot not in stored
    ]
    flat, same = [], {}
    for instruction in with_calls_inline(before + instructions, text_of):
        operands = tuple([same.get(operand, operand) for operand in instruction.operands])
        if instruction.opcode == "same":
            same[instruction.result] = operands[0]
        else:
            flat.append(instruction.with_operands(operands))
    for each in carried:
        each.last = same.get(each.last, each.last)
    body = _Body(flat, carried)
    body.definitions = {i.result: i for i in flat if i.result}
    return body


def _carried(slot: str, first: str, last: str, instructions: Sequence[Instruction]) -> _Carried:
    """A slot that is read, folded with something and written, in every round alike."""
    latest, folds = first, []
    for instruction in instructions:
        if latest not in instruction.operands and first not in instruction.operands:
            continue
        if instruction.operands.count(latest) != 1 or not _folds(instruction):
            raise NotWidened("a value carried from round to round")
        latest = instruction.result
        folds.append(instruction)
    alike = {(fold.opcode, fold.flags, fold.callee, fold.type) for fold in folds}
    if latest != last or len(alike) != 1:
        raise NotWidened("a value carried from round to round")
    for fold in folds[:-1]:
        if sum(i.operands.count(fold.result) for i in instructions) != 1:
            raise NotWidened("a value carried from round to round, and used")
    return _Carried(slot, first, last, folds[0])


def _folds(instruction: Instruction) -> bool:
    if instruction.opcode in ("fadd", "fmul"):
        return instruction.flags == "reassoc "
    if instruction.opcode == "call":
        return _EXTREME.fullmatch(instruction.callee) is not None
    return instruction.opcode in _NEUTRAL or instruction.opcode in _IDEMPOTENT


def _classify(body: _Body, loop: Loop, lacking: frozenset[str]) -> None:
    body.kinds[loop.counter] = "linear"
    for carried in body.carried:
        body.kinds[carried.first] = "lanes"
    stored = {
        body.definitions[i.operands[1]].operands[0]
        for i in body.instructions
        if i.opcode == "store" and i.operands[1] in body.definitions
    }
    for instruction in body.instructions:
        kind = _kind(body, instruction, stored)
        if kind == "lanes" and (instruction.divides or instruction.callee in lacking):
            raise NotWidened(instruction.opcode)
        if instruction.callee and not instruction.callee.startswith("llvm."):
            raise NotWidened(instruction.callee)
        if instruction.result:
            body.kinds[instruction.result] = kind
    carries = {carried.last for carried in body.carried}
    if any(body.kind(ref) != "lanes" for ref in carries):
        raise NotWidened("a value carried from round to round")


def _kind(body: _Body, instruction: Instruction, stored: set[str]) -> str:
    kinds = [body.kind(operand) for operand in instruction.operands]
    if instruction.opcode == "getelementptr":
        if instruction.operands[0] in body.definitions or kinds[1] == "lanes":
            raise NotWidened("elements here and there")
        return "uniform" if kinds[1] == "uniform" else "address"
    if instruction.opcode == "store":
        if kinds[1] != "address":
            raise NotWidened("one element written again and again")
        return "lanes"
    if instruction.opcode == "load":
        pointer = body.definitions.get(instruction.operands[0])
        if kinds[0] == "uniform" and pointer is not None and pointer.operands[0] in stored:
            raise NotWidened("an element that is read and may be written")
        return "lanes" if kinds[0] == "address" else "uniform"
    if all(kind == "uniform" for kind in kinds):
        return "uniform"
    moved = instruction.opcode == "add" and sorted(kinds) == ["linear", "uniform"]
    back = instruction.opcode == "sub" and kinds == ["linear", "uniform"]
    return "linear" if instruction.type == "i64" and (moved or back) else "lanes"


def _better_one_by_one(body: _Body) -> bool:
    """Are the elements left over better done singly: few instructions that add to an array?

    A processor cannot hand what a store with a mask wrote to the load that follows, and columns of sums are stored
    and loaded again at once.
    """
    roots: dict[str, set[str]] = {"load": set(), "store": set()}
    for instruction in body.instructions:
        if instruction.opcode in roots and body.kind(instruction.operands[-1]) == "address":
            at = body.definitions[instruction.operands[-1]]
            roots[instruction.opcode].add(at.operands[0])
    short = sum(body.kind(i.result) == "lanes" for i in body.instructions) <= _SHORT
    return short and not body.carried and bool(roots["load"] & roots["store"])


# --- Printing ---------------------------------------------------------------------------------------------------------


class _Writer:
    """Prints a loop: `before` runs once, then come the rounds with all parts, then those with a mask."""

    def __init__(
        self, loop: Loop, body: _Body, target: Target, text_of: Callable[[str], str], lanes: int
    ) -> None:
        self.loop, self.body, self.target, self.text_of = loop, body, target, text_of
        self.lanes = lanes
        self.one_by_one = _better_one_by_one(body)
        self.name = target.fresh("wide")
        self.before: list[str] = []
        self.names: dict[str, str] = {}
        self.splats: dict[tuple[str, str], str] = {}
        self.bases: dict[tuple[str, str], str] = {}
        self.limited = False

    def lines(self) -> list[str]:
        """All lines, from the branch into the loop to the label after it."""
        loop, name, step = self.loop, self.name, self.lanes * self.loop.interleave
        for instruction in self.body.instructions:
            if self.body.kind(instruction.result) == "uniform" and instruction.result:
                operands = [self.scalar(operand) for operand in instruction.operands]
                text = instruction.text(str, operands)
                self.names[instruction.result] = self.emit(self.before, text)
        starts = [self._start(carried) for carried in self.body.carried]
        apart = self._apart()
        main = self._rounds("main", loop.interleave, masked=False)
        rest = self._rounds("rest", 1, masked=not self.one_by_one)
        result = [
            f"  %{name}.count = sub nsw i64 {loop.stop}, {loop.start}",
            f"  %{name}.any = icmp sgt i64 %{name}.count, 0",
            f"  br i1 %{name}.any, label %{name}.before, label %{name}.done",
            f"{name}.before:",
            *self.before,
            *apart,
            f"  %{name}.whole = and i64 %{name}.span, -{step}",
            f"  %{name}.stop = add nsw i64 {loop.start}, %{name}.whole",
            f"  %{name}.several = icmp ne i64 %{name}.whole, 0",
            f"  br i1 %{name}.several, label %{name}.main, label %{name}.between",
            f"{name}.main:",
        ]
        result += self._phis(
            "main", loop.start, f"%{name}.before", [[s] * loop.interleave for s in starts], main
        )
        result += main.lines
        result += self._turn("main", step, f"%{name}.stop", "join")
        result.append(f"{name}.join:")
        joined = [
            self._joined(result, carried, main.values[carried.last])
            for carried in self.body.carried
        ]
        result += [f"  br label %{name}.between", f"{name}.between:"]
        origin = f"[ {loop.start}, %{name}.before ], [ %{name}.stop, %{name}.join ]"
        result.append(f"  %{name}.from = phi i64 {origin}")
        so_far = []
        for carried, start, value in zip(self.body.carried, starts, joined, strict=True):
            ref = f"%{self.target.fresh('so_far')}"
            pairs = f"[ {start}, %{name}.before ], [ {value}, %{name}.join ]"
            result.append(f"  {ref} = phi {self.spell(carried.fold.type)} {pairs}")
            so_far.append(ref)
        result += [
            f"  %{name}.left = icmp slt i64 %{name}.from, {loop.stop}",
            f"  br i1 %{name}.left, label %{name}.rest, label %{name}.end",
            f"{name}.rest:",
        ]
        result += self._phis(
            "rest", f"%{name}.from", f"%{name}.between", [[s] for s in so_far], rest
        )
        result += rest.lines
        result += self._turn("rest", 1 if self.one_by_one else f"%{name}.limit", loop.stop, "end")
        result.append(f"{name}.end:")
        for carried, start in zip(self.body.carried, so_far, strict=True):
            ref = f"%{self.target.fresh('all')}"
            pairs = (
                f"[ {start}, %{name}.between ], [ {rest.values[carried.last][0]}, %{name}.rest ]"
            )
            result.append(f"  {ref} = phi {self.spell(carried.fold.type)} {pairs}")
            so_far[so_far.index(start)] = ref
        for carried, ref in zip(self.body.carried, so_far, strict=True):
            self._fold_lanes(result, carried, ref)
        return [*result, f"  br label %{name}.done", f"{name}.done:"]

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
        return self.names.get(ref, ref)

    def splat(self, ref: str, type_: str) -> str:
        """A uniform result in all lanes."""
        if is_literal(ref):
            return _all_lanes(type_, ref, self.lanes)
        key = (self.scalar(ref), type_)
        if key not in self.splats:
            self.splats[key] = self.spread(self.before, key[0], type_)
        return self.splats[key]

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
        if key not in self.bases:
            offset = _Rounds(self, self.before, "0", 1, 1, None).linear(index)
            text = f"getelementptr {at.type}, ptr {root}, i64 {offset}"
            self.bases[key] = self.emit(self.before, text)
        return self.bases[key]

    def _start(self, carried: _Carried) -> str:
        type_ = carried.fold.type
        neutral = _NEUTRAL.get(carried.fold.opcode)
        if neutral is not None:
            return self.splat(neutral, type_)
        return self.spread(self.before, self._slot(self.before, carried), type_)

    def _slot(self, lines: list[str], carried: _Carried) -> str:
        return self.emit(lines, f"load {carried.fold.type}, ptr {carried.slot}")

    def _apart(self) -> list[str]:
        """How many elements go together: one, should what is written be read elsewhere in the same loop."""
        name, lines = self.name, list[str]()
        apart = [
            self._distance(lines, written, other) for written, other in self._pairs_to_compare()
        ]
        self.limited = bool(apart)
        if not apart:
            count = f"  %{name}.span = add nsw i64 %{name}.count, 0"
            return [count, f"  %{name}.limit = add nsw i64 {self.lanes}, 0"]
        every = apart[0]
        for ref in apart[1:]:
            every = self.emit(lines, f"and i1 {every}, {ref}")
        lines.append(f"  %{name}.span = select i1 {every}, i64 %{name}.count, i64 0")
        lines.append(f"  %{name}.limit = select i1 {every}, i64 {self.lanes}, i64 1")
        return lines

    def _pairs_to_compare(self) -> list[tuple[str, str]]:
        """Indices into one array, written and touched otherwise, that are not the same."""
        accesses = [
            (i.opcode == "store", self.body.definitions[i.operands[-1]])
            for i in self.body.instructions
            if i.opcode in ("load", "store") and self.body.kind(i.operands[-1]) == "address"
        ]
        found: dict[tuple[str, str], tuple[str, str]] = {}
        for is_store, at in accesses:
            for _, other in accesses if is_store else ():
                key = (self.body.spelled(at.operands[1]), self.body.spelled(other.operands[1]))
                if at.operands[0] == other.operands[0] and key[0] != key[1]:
                    found.setdefault(key, (at.operands[1], other.operands[1]))
        return list(found.values())

    def _distance(self, lines: list[str], written: str, other: str) -> str:
        rounds = _Rounds(self, lines, self.loop.start, 1, 1, None)
        a, b = rounds.linear(written), rounds.linear(other)
        distance = self.emit(lines, f"sub nsw i64 {a}, {b}")
        back = self.emit(lines, f"sub nsw i64 0, {distance}")
        count = f"%{self.name}.count"
        ahead = self.emit(lines, f"icmp sge i64 {distance}, {count}")
        behind = self.emit(lines, f"icmp sge i64 {back}, {count}")
        return self.emit(lines, f"or i1 {ahead}, {behind}")

    def _rounds(self, which: str, parts: int, *, masked: bool) -> _Rounds:
        lines = list[str]()
        counter = f"%{self.name}.{which}.i"
        mask = self._mask(lines, counter) if masked else None
        lanes = 1 if which == "rest" and not masked else self.lanes
        rounds = _Rounds(self, lines, counter, parts, lanes, mask)
        for carried in self.body.carried:
            rounds.values[carried.first] = [f"%{self.target.fresh('acc')}" for _ in range(parts)]
        rounds.run()
        return rounds

    def _mask(self, lines: list[str], counter: str) -> str:
        """Which lanes hold an element: those below what is left, which is less than the rounds before take."""
        left = self.emit(lines, f"sub nsw i64 {self.loop.stop}, {counter}")
        if self.limited:
            limit = f"%{self.name}.limit"
            few = self.emit(lines, f"icmp slt i64 {left}, {limit}")
            left = self.emit(lines, f"select i1 {few}, i64 {left}, i64 {limit}")
        type_ = "i32" if self.lanes <= 16 else "i16"
        narrow = self.emit(lines, f"trunc i64 {left} to {type_}")
        every = self.spread(lines, narrow, type_)
        numbers = ", ".join(f"{type_} {lane}" for lane in range(self.lanes))
        return self.emit(lines, f"icmp ult {self.spell(type_)} <{numbers}>, {every}")

    def _phis(
        self, which: str, start: str, origin: str, starts: list[list[str]], rounds: _Rounds
    ) -> list[str]:
        block = f"%{self.name}.{which}"
        lines = [f"  {block}.i = phi i64 [ {start}, {origin} ], [ {block}.next, {block} ]"]
        for carried, first in zip(self.body.carried, starts, strict=True):
            type_ = self.spell(carried.fold.type)
            now, then = rounds.values[carried.first], rounds.values[carried.last]
            for ref, begin, following in zip(now, first, then, strict=True):
                lines.append(
                    f"  {ref} = phi {type_} [ {begin}, {origin} ], [ {following}, {block} ]"
                )
        return lines

    def _turn(self, which: str, step: int | str, stop: str, then: str) -> list[str]:
        block = f"{self.name}.{which}"
        return [
            f"  %{block}.next = add nsw i64 %{block}.i, {step}",
            f"  %{block}.more = icmp slt i64 %{block}.next, {stop}",
            f"  br i1 %{block}.more, label %{block}, label %{self.name}.{then}",
        ]

    def _joined(self, lines: list[str], carried: _Carried, parts: Sequence[str]) -> str:
        refs = list(parts)
        while len(refs) > 1:
            pairs = zip(refs[::2], refs[1::2], strict=True)
            refs = [self._fold(lines, carried, a, b, self.lanes) for a, b in pairs]
        return refs[0]

    def _fold(self, lines: list[str], carried: _Carried, a: str, b: str, lanes: int) -> str:
        """Fold two values of so many lanes."""
        values = {"%a": a, "%b": b}
        fold = carried.fold.with_operands(("%a", "%b"), "%folded")
        for instruction in with_calls_inline([fold], self.text_of):
            operands = [
                values.get(operand) or _all_lanes(type_, operand, lanes)
                for operand, type_ in zip(instruction.operands, instruction.types, strict=True)
            ]
            if instruction.opcode == "same":
                values[instruction.result] = operands[0]
            else:
                text = self.vector_text(instruction, operands, lanes)
                values[instruction.result] = self.emit(lines, text)
        return values["%folded"]

    def _fold_lanes(self, lines: list[str], carried: _Carried, ref: str) -> None:
        """Fold what the lanes hold into the slot."""
        type_, width = carried.fold.type, self.lanes
        while width > 2:
            vector, half = f"<{width} x {type_}>", width // 2
            low, high = (
                self.emit(
                    lines,
                    f"shufflevector {vector} {ref}, {vector} poison, {_numbers(start, half)}",
                )
                for start in (0, half)
            )
            ref, width = self._fold(lines, carried, low, high, half), half
        a, b = (self.emit(lines, f"extractelement <2 x {type_}> {ref}, i64 {i}") for i in (0, 1))
        ref = self._fold(lines, carried, a, b, 1)
        ref = self._fold(lines, carried, self._slot(lines, carried), ref, 1)
        lines.append(f"  store {type_} {ref}, ptr {carried.slot}")


class _Rounds:
    """The instructions of a round: the parts of each next to each other, so that they need not wait for one another."""

    def __init__(
        self,
        writer: _Writer,
        lines: list[str],
        counter: str,
        parts: int,
        lanes: int,
        mask: str | None,
    ) -> None:
        self.writer, self.body, self.lines = writer, writer.body, lines
        self.counter, self.parts, self.lanes, self.mask = counter, parts, lanes, mask
        self.values: dict[str, list[str]] = {}
        self._linear: dict[str, str] = {}
        self._addresses: dict[tuple[str, int], str] = {}

    def run(self) -> None:
        """Print all that has lanes, and what a masked round carries."""
        for instruction in self.body.instructions:
            if not instruction.result:
                self._store(instruction)
            elif self.body.kind(instruction.result) == "lanes":
                self.values[instruction.result] = [
                    self._lane(instruction, part) for part in range(self.parts)
                ]
        if self.mask is not None:
            chosen = {}
            for carried in self.body.carried:
                type_ = self.writer.spell(carried.fold.type)
                new, old = self.values[carried.last][0], self.values[carried.first][0]
                text = f"select {self.writer.spell('i1')} {self.mask}, {type_} {new}, {type_} {old}"
                chosen[carried.last] = [self.writer.emit(self.lines, text)]
            self.values.update(chosen)

    def linear(self, ref: str) -> str:
        """The counter and something uniform, for the first part."""
        if ref == self.writer.loop.counter:
            return self.counter
        if self.body.kind(ref) == "uniform":
            return self.writer.scalar(ref)
        if ref not in self._linear:
            made = self.body.definitions[ref]
            operands = [self.linear(operand) for operand in made.operands]
            self._linear[ref] = self.writer.emit(self.lines, made.text(str, operands))
        return self._linear[ref]

    def _address(self, ref: str, part: int) -> str:
        made = self.body.definitions[ref]
        base = self.writer.base(made)
        known = self._addresses.get((base, part))
        if known is None:
            text = f"getelementptr {made.type}, ptr {base}, i64 {self.counter}"
            if part:
                first = self._address(ref, 0)
                text = f"getelementptr {made.type}, ptr {first}, i64 {part * self.lanes}"
            known = self._addresses[base, part] = self.writer.emit(self.lines, text)
        return known

    def _operand(self, ref: str, type_: str, part: int) -> str:
        writer, kind = self.writer, self.body.kind(ref)
        if kind == "lanes":
            return self.values[ref][part]
        if kind == "uniform":
            return writer.scalar(ref) if self.lanes == 1 else writer.splat(ref, type_)
        first = self.linear(ref)
        if self.lanes == 1:
            return first
        numbers = range(part * self.lanes, (part + 1) * self.lanes)
        lanes = ", ".join(f"{type_} {number}" for number in numbers)
        every = writer.spread(self.lines, first, type_)
        return writer.emit(self.lines, f"add {writer.spell(type_)} {every}, <{lanes}>")

    def _lane(self, instruction: Instruction, part: int) -> str:
        writer = self.writer
        if instruction.opcode == "load":
            return self._load(instruction, part)
        operands = [
            self._operand(operand, type_, part)
            for operand, type_ in zip(instruction.operands, instruction.types, strict=True)
        ]
        return writer.emit(self.lines, writer.vector_text(instruction, operands, self.lanes))

    def _load(self, instruction: Instruction, part: int) -> str:
        writer, type_ = self.writer, instruction.type
        vector, align = writer.spell(type_), _BITS[type_] // 8
        address = self._address(instruction.operands[0], part)
        if self.mask is None:
            read = type_ if self.lanes == 1 else vector
            return writer.emit(self.lines, f"load {read}, ptr {address}, align {align}")
        name = f"@llvm.masked.load.v{writer.lanes}{_SUFFIX.get(type_, type_)}.p0"
        mask = writer.spell("i1")
        writer.target.declare(f"declare {vector} {name}(ptr, i32, {mask}, {vector})")
        given = f"ptr {address}, i32 {align}, {mask} {self.mask}, {vector} zeroinitializer"
        return writer.emit(self.lines, f"call {vector} {name}({given})")

    def _store(self, instruction: Instruction) -> None:
        writer, type_ = self.writer, instruction.type
        vector, align = writer.spell(type_), _BITS[type_] // 8
        value, pointer = instruction.operands
        for part in range(self.parts):
            address, lanes = self._address(pointer, part), self._operand(value, type_, part)
            if self.mask is None:
                written = type_ if self.lanes == 1 else vector
                self.lines.append(f"  store {written} {lanes}, ptr {address}, align {align}")
                continue
            name = f"@llvm.masked.store.v{writer.lanes}{_SUFFIX.get(type_, type_)}.p0"
            mask = writer.spell("i1")
            writer.target.declare(f"declare void {name}({vector}, ptr, i32, {mask})")
            given = f"{vector} {lanes}, ptr {address}, i32 {align}, {mask} {self.mask}"
            self.lines.append(f"  call void {name}({given})")


def _all_lanes(type_: str, literal: str, lanes: int) -> str:
    if lanes == 1:
        return literal
    return f"splat ({type_} {literal})"


def _numbers(start: int, count: int) -> str:
    lanes = ", ".join(f"i32 {lane}" for lane in range(start, start + count))
    return f"<{count} x i32> <{lanes}>"
