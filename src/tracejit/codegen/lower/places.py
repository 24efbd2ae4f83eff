"""Elements that lie anyhow, by a number known in front of the loop: gathered and scattered, or moved one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracejit.codegen.lower.instructions import Instruction, all_lanes
from tracejit.codegen.lower.steps import BITS, SUFFIX

if TYPE_CHECKING:
    from tracejit.codegen.lower.rounds import Rounds

__all__ = ["load_places", "store_places"]


def load_places(rounds: Rounds, instruction: Instruction, part: int) -> str:
    """The elements of all lanes of a part.

    >>> from tracejit.codegen.lower.lower import lower_kernel
    >>> text = lower_kernel('''
    ... def k(x: "f32*", out: "f32*", n: "i64", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for i in range(lo, hi):
    ...         out[i] = x[i * n]
    ...     return 0
    ... ''', "k", noalias=True, vector_bits=512, lacking=(), widen=512).text
    >>> "llvm.masked.gather.v16f32" in text
    True
    """
    printer, type_, pointer = rounds.printer, instruction.type, instruction.operands[0]
    vector, align = printer.spell(type_), BITS[type_] // 8
    if rounds.mask is not None:
        mask = f"{printer.spell('i1')} {rounds.mask}"
        return rounds.gather(type_, _places(rounds, pointer), mask)
    whole = "poison"
    for lane in range(rounds.lanes):
        address = _place(rounds, pointer, part * rounds.lanes + lane)
        one = printer.emit(rounds.lines, f"load {type_}, ptr {address}, align {align}")
        if rounds.lanes == 1:
            return one
        text = f"insertelement {vector} {whole}, {type_} {one}, i64 {lane}"
        whole = printer.emit(rounds.lines, text)
    return whole


def store_places(rounds: Rounds, instruction: Instruction) -> None:
    """Write the elements of all lanes of all parts.

    >>> from tracejit.codegen.lower.lower import lower_kernel
    >>> text = lower_kernel('''
    ... def k(x: "f32*", out: "f32*", n: "i64", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for i in range(lo, hi):
    ...         out[i * n] = x[i]
    ...     return 0
    ... ''', "k", noalias=True, vector_bits=512, lacking=(), widen=512).text
    >>> "llvm.masked.scatter.v16f32" in text
    True
    """
    printer, type_ = rounds.printer, instruction.type
    vector, align = printer.spell(type_), BITS[type_] // 8
    value, pointer = instruction.operands
    mask = rounds.mask
    if mask is None and rounds.lanes > 1 and _are_many(rounds):
        mask = all_lanes("i1", "true", rounds.lanes)
    for part in range(rounds.parts):
        whole = rounds.operand(value, type_, part)
        if mask is not None:
            name = f"@llvm.masked.scatter.v{printer.lanes}{SUFFIX.get(type_, type_)}.v{printer.lanes}p0"
            pointers, truths = printer.spell("ptr"), printer.spell("i1")
            printer.target.declare(f"declare void {name}({vector}, {pointers}, i32, {truths})")
            places = f"{pointers} {_places(rounds, pointer, part)}, i32 {align}"
            rounds.lines.append(f"  call void {name}({vector} {whole}, {places}, {truths} {mask})")
            continue
        for lane in range(rounds.lanes):
            address, one = _place(rounds, pointer, part * rounds.lanes + lane), whole
            if rounds.lanes > 1:
                one = printer.emit(rounds.lines, f"extractelement {vector} {whole}, i64 {lane}")
            rounds.lines.append(f"  store {type_} {one}, ptr {address}, align {align}")


def _are_many(rounds: Rounds) -> bool:
    """Are so many values written to such places that one instruction for each is worth its time?"""
    stores = [i for i in rounds.body.instructions if i.opcode == "store"]
    return sum(rounds.body.kind(i.operands[1]) == "place" for i in stores) > 4


def _place(rounds: Rounds, pointer: str, number: int) -> str:
    """The address of the element of one lane of all parts."""
    made = rounds.body.definitions[pointer]
    root, index = made.operands
    known = rounds.addresses.get((pointer, number))
    if known is None:
        text = f"getelementptr {made.type}, ptr {root}, i64 {rounds.linear(index)}"
        if number:
            before = _place(rounds, pointer, number - 1)
            text = f"getelementptr {made.type}, ptr {before}, i64 {rounds.printer.step(index)}"
        known = rounds.addresses[pointer, number] = rounds.printer.emit(rounds.lines, text)
    return known


def _places(rounds: Rounds, pointer: str, part: int = 0) -> str:
    """The addresses of the elements of all lanes of a part."""
    made = rounds.body.definitions[pointer]
    first, every = _place(rounds, pointer, part * rounds.lanes), rounds.printer.spell("i64")
    offsets = rounds.printer.offsets(made.operands[1])
    text = f"getelementptr {made.type}, ptr {first}, {every} {offsets}"
    return rounds.printer.emit(rounds.lines, text)
