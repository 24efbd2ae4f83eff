"""What rounds carry in lanes: where it starts, where blocks meet, and how it is folded into one number at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tracejit.codegen.lower.body import NEUTRAL, Body, Carried
from tracejit.codegen.lower.instructions import all_lanes, with_calls_inline
from tracejit.codegen.lower.rounds import Target, VectorPrinter

__all__ = ["IN_TURN", "CarriedLanes", "is_sum"]

#: Lanes of a sum that are added one after the other where they are all there is.
IN_TURN = 8
_SUMS = ("fadd", "fmul")
#: How the bits of lanes that hold truth values answer for all of them: what they are compared with.
_ALL_BITS = {"or": ("ne", 0), "and": ("eq", -1)}


class CarriedLanes(VectorPrinter):
    """Prints what a loop carries from round to round; `name` begins the names of its blocks."""

    def __init__(
        self,
        body: Body,
        target: Target,
        lanes: int,
        counter: str,
        text_of: Callable[[str], str],
    ) -> None:
        super().__init__(body, target, lanes, counter)
        self.text_of = text_of
        self.name = target.fresh("wide")

    def meeting(
        self, ref: str, type_: str, values: Sequence[str], blocks: Sequence[str]
    ) -> list[str]:
        """A name for what has one value or another, depending on the block before."""
        pairs = ", ".join(f"[ {v}, {b} ]" for v, b in zip(values, blocks, strict=True))
        return [f"  {ref} = phi {type_} {pairs}"]

    def meetings(self, lines: list[str], leaving: Mapping[str, Sequence[str]]) -> list[str]:
        """What is carried, where blocks meet that leave this behind."""
        found = []
        for number, carried in enumerate(self.body.carried):
            found.append(f"%{self.target.fresh('carried')}")
            refs = [refs[number] for refs in leaving.values()]
            lines += self.meeting(found[-1], self.spell(carried.fold.type), refs, [*leaving])
        return found

    def start(self, carried: Carried) -> str:
        """What the lanes hold before the first round."""
        type_ = carried.fold.type
        neutral = NEUTRAL.get(carried.fold.opcode)
        if neutral is not None:
            return self.splat(neutral, type_)
        return self.spread(self.before, self.slot(self.before, carried), type_)

    def slot(self, lines: list[str], carried: Carried) -> str:
        """What a slot holds."""
        return self.emit(lines, f"load {carried.fold.type}, ptr {carried.slot}")

    def joined(self, lines: list[str], carried: Carried, parts: Sequence[str]) -> str:
        """The lanes of all parts folded into those of one."""
        refs = list(parts)
        while len(refs) > 1:
            refs = [
                self.fold(lines, carried, a, b, self.lanes)
                for a, b in zip(refs[::2], refs[1::2], strict=True)
            ]
        return refs[0]

    def fold(self, lines: list[str], carried: Carried, a: str, b: str, lanes: int) -> str:
        """Fold two values of so many lanes."""
        values = {"%a": a, "%b": b}
        fold = carried.fold.with_operands(("%a", "%b"), "%folded")
        for instruction in with_calls_inline([fold], self.text_of):
            operands = [
                values.get(operand) or all_lanes(type_, operand, lanes)
                for operand, type_ in zip(instruction.operands, instruction.types, strict=True)
            ]
            if instruction.opcode == "same":
                values[instruction.result] = operands[0]
            else:
                text = self.vector_text(instruction, operands, lanes)
                values[instruction.result] = self.emit(lines, text)
        return values["%folded"]

    def fold_lanes(self, lines: list[str], lanes: Sequence[str]) -> None:
        """Fold what lanes hold into the slots."""
        carries = self.body.carried
        folds = [_without_nan(carried) for carried in carries]
        ones = [
            self.halved(lines, fold, ref, self.lanes, IN_TURN if is_sum(fold) else 1)
            for fold, ref in zip(folds, lanes, strict=True)
        ]
        ones = self._last_terms(lines, ones)
        for carried, fold, whole, one in zip(carries, folds, lanes, ones, strict=True):
            type_, last = fold.fold.type, one
            if fold is not carried:
                last = self._nan_or(lines, type_, whole, one)
            last = self.fold(lines, carried, self.slot(lines, carried), last, 1)
            lines.append(f"  store {type_} {last}, ptr {carried.slot}")

    def _last_terms(self, lines: list[str], refs: Sequence[str]) -> list[str]:
        """The sums of their last few terms; what else there is stays as it is.

        They are added in turn where there are no others: a sum of fewer than eight is to the bit what eager execution
        finds, whose branches may hang on it.
        """
        name, found = self.name, list(refs)
        sums = [i for i, carried in enumerate(self.body.carried) if is_sum(carried)]
        if not sums:
            return found
        few, many, joined = [f"{name}.few:"], [f"{name}.many:"], [f"{name}.folded:"]
        for i in sums:
            carried = self.body.carried[i]
            ones = (
                self.in_turn(few, carried, refs[i], IN_TURN),
                self.halved(many, carried, refs[i], IN_TURN, 1),
            )
            found[i] = f"%{self.target.fresh('carried')}"
            blocks = [f"%{name}.few", f"%{name}.many"]
            joined += self.meeting(found[i], carried.fold.type, ones, blocks)
        lines.append(f"  %{name}.only = icmp slt i64 %{name}.count, {IN_TURN}")
        lines.append(f"  br i1 %{name}.only, label %{name}.few, label %{name}.many")
        for block in (few, many):
            lines += [*block, f"  br label %{name}.folded"]
        lines += joined
        return found

    def halved(self, lines: list[str], carried: Carried, ref: str, lanes: int, until: int) -> str:
        """Fold half of so many lanes with the other half, until so few are left; the lanes, or the number in one."""
        type_ = carried.fold.type
        if type_ == "i1" and carried.fold.opcode in _ALL_BITS:
            bits = self.emit(lines, f"bitcast <{lanes} x i1> {ref} to i{lanes}")
            relation, number = _ALL_BITS[carried.fold.opcode]
            return self.emit(lines, f"icmp {relation} i{lanes} {bits}, {number}")
        while lanes > max(until, 2):
            vector, half = f"<{lanes} x {type_}>", lanes // 2
            low, high = (
                self.emit(
                    lines,
                    f"shufflevector {vector} {ref}, {vector} poison, {_lanes(start, half)}",
                )
                for start in (0, half)
            )
            ref, lanes = self.fold(lines, carried, low, high, half), half
        return ref if until > 1 else self.in_turn(lines, carried, ref, lanes)

    def in_turn(self, lines: list[str], carried: Carried, ref: str, lanes: int) -> str:
        """So many lanes, folded one after the other."""
        vector, one = f"<{lanes} x {carried.fold.type}>", ""
        for lane in range(lanes):
            following = self.emit(lines, f"extractelement {vector} {ref}, i64 {lane}")
            one = self.fold(lines, carried, one, following, 1) if one else following
        return one

    def _nan_or(self, lines: list[str], type_: str, lanes: str, extreme: str) -> str:
        """NaN where a lane is NaN, else their extreme: one comparison rather than one for every fold."""
        unordered = self.emit(lines, f"fcmp uno {self.spell(type_)} {lanes}, {lanes}")
        bits = self.emit(lines, f"bitcast {self.spell('i1')} {unordered} to i{self.lanes}")
        found = self.emit(lines, f"icmp ne i{self.lanes} {bits}, 0")
        nan = f"{type_} 0x7FF8000000000000"
        return self.emit(lines, f"select i1 {found}, {nan}, {type_} {extreme}")


def _without_nan(carried: Carried) -> Carried:
    """The fold for lanes none of which is NaN, where that is a shorter one."""
    fold = carried.fold
    if not fold.callee.startswith(("llvm.maximum", "llvm.minimum")):
        return carried
    callee = fold.callee.replace("maximum", "maxnum").replace("minimum", "minnum")
    return replace(carried, fold=replace(fold, callee=callee, flags="nnan nsz "))


def is_sum(carried: Carried) -> bool:
    """Does what is carried depend on the order in which terms are folded?

    >>> from tracejit.codegen.lower.instructions import Instruction
    >>> fold = Instruction("%a", "fadd", "float", ("float", "float"), ("%b", "%c"))
    >>> is_sum(Carried("%slot", "%b", "%a", fold))
    True
    """
    return carried.fold.opcode in _SUMS


def _lanes(start: int, count: int) -> str:
    numbers = ", ".join(f"i32 {lane}" for lane in range(start, start + count))
    return f"<{count} x i32> <{numbers}>"
