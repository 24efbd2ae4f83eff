"""Powers of two as numbers: AVX-512 scales by what is in a vector of floats, LLVM's intrinsic by integers.

Elementary functions have the power as a float before they make an integer of it, so that LLVM would convert it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracejit.codegen.lower.instructions import Instruction, all_lanes

if TYPE_CHECKING:
    from tracejit.codegen.lower.rounds import Rounds

__all__ = ["scaled"]

#: What ends the names of the instruction's intrinsic, and the type of its mask, by type and lanes.
_SCALES = {("float", 16): ("ps.512", "i16"), ("double", 8): ("pd.512", "i8")}
#: 3 2^22 as LLVM spells it, and the bits of that: a number from which an integer is taken that its lowest bits are.
_SHIFT, _SHIFT_BITS = "0x4168000000000000", str(0x4B400000)
_ZERO = "0x0000000000000000"


def scaled(rounds: Rounds, made: Instruction, part: int) -> str | None:
    """What a call of `ldexp`, or a choice of zero or that, is in the lanes of a part; None where LLVM makes it.

    >>> from tracejit.codegen.lower.lower import lower_kernel
    >>> source = '''
    ... def k(x: "f32*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for i in range(lo, hi):
    ...         x[i] = exp_f32(x[i])
    ...     return 0
    ... '''
    >>> for bits in (512, 256):
    ...     text = lower_kernel(source, "k", noalias=True, vector_bits=bits, lacking=(), widen=bits).text
    ...     print("avx512.mask.scalef.ps.512" in text, "llvm.ldexp.v" in text)
    True False
    False True
    """
    found = _SCALES.get((made.type, rounds.lanes))
    if found is None or not rounds.printer.target.scales:
        return None
    call: Instruction | None = made
    if made.opcode == "select":
        call = rounds.body.definitions.get(made.operands[2])
        if made.operands[1] != _ZERO or call is None:
            return None
    if call is None or not call.callee.startswith("llvm.ldexp."):
        return None
    gone = made.operands[0] if made.opcode == "select" else ""
    power = _as_float(rounds, call.operands[1], call.type, part, gone)
    if power is None:
        return None
    printer, (ending, mask) = rounds.printer, found
    x, vector = rounds.operand(call.operands[0], call.type, part), printer.spell(call.type)
    name = f"@llvm.x86.avx512.mask.scalef.{ending}"
    printer.target.declare(f"declare {vector} {name}({vector}, {vector}, {vector}, {mask}, i32)")
    every = "-1"
    if gone:  # the instruction leaves zeros where its mask says so
        truths, true = printer.spell("i1"), all_lanes("i1", "true", rounds.lanes)
        zero = rounds.operand(gone, "i1", part)
        stays = printer.emit(rounds.lines, f"xor {truths} {zero}, {true}")
        every = printer.emit(rounds.lines, f"bitcast {truths} {stays} to {mask}")
    given = f"{vector} {x}, {vector} {power}, {vector} zeroinitializer, {mask} {every}, i32 4"
    return printer.emit(rounds.lines, f"call {vector} {name}({given})")


def _as_float(rounds: Rounds, ref: str, type_: str, part: int, gone: str) -> str | None:
    """An integer in the lanes of a part as the float that it was made of; None where it was made of something else.

    It may be any number where ``gone`` is true.
    """
    body, printer = rounds.body, rounds.printer
    made = body.definitions.get(ref)
    if made is None:
        return None
    if made.opcode == "freeze":  # NaN makes any integer, and NaN what is scaled by it
        return _as_float(rounds, made.operands[0], type_, part, gone)
    if made.opcode == "fptosi" and made.types == (type_,):
        return rounds.operand(made.operands[0], type_, part)
    if made.opcode == "select" and made.operands[1] == "0":
        other = _as_float(rounds, made.operands[2], type_, part, gone)
        if other is None or made.operands[0] == gone:
            return other
        condition, vector = rounds.operand(made.operands[0], "i1", part), printer.spell(type_)
        chosen = f"{printer.spell('i1')} {condition}, {vector} zeroinitializer, {vector} {other}"
        return printer.emit(rounds.lines, f"select {chosen}")
    if made.opcode == "sub" and made.operands[1] == _SHIFT_BITS and type_ == "float":
        bits = body.definitions.get(made.operands[0])
        if bits is not None and bits.opcode == "bitcast" and bits.types == ("float",):
            return _whole(rounds, bits.operands[0], part)
    return None


def _whole(rounds: Rounds, shifted: str, part: int) -> str:
    """The integer in the lowest bits of a shifted number, as a float; it is mostly there already."""
    for number in rounds.body.instructions:
        there = number.result in rounds.values or rounds.body.kind(number.result) == "uniform"
        if number.opcode == "fsub" and number.operands == (shifted, _SHIFT) and there:
            return rounds.operand(number.result, "float", part)
    printer, vector = rounds.printer, rounds.printer.spell("float")
    shift = all_lanes("float", _SHIFT, rounds.lanes)
    x = rounds.operand(shifted, "float", part)
    return printer.emit(rounds.lines, f"fsub {vector} {x}, {shift}")
