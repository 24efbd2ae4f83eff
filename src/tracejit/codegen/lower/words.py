"""The first few of a vector's narrow numbers, for processors that have no masks for them: word by word.

Masks of bytes and 16-bit numbers came with the vectors of 512 bits; before, LLVM tests lane after lane. What is left of
a row lies in a few words of eight bytes, of which one may be read or written in part: by two halves that overlap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracejit.codegen.lower.body import BITS

if TYPE_CHECKING:
    from tracejit.codegen.lower.rounds import Rounds

__all__ = ["read_first", "write_first"]

#: Up to three bytes are the first, the middle and the last one: where these lie, and their places in a word.
_FEW = """  %middle = lshr i64 %n, 1
  %end = sub i64 %n, 1
  %middle.at = getelementptr i8, ptr %p, i64 %middle
  %end.at = getelementptr i8, ptr %p, i64 %end
  %b.bits = mul i64 %middle, 8
  %c.bits = mul i64 %end, 8"""
_READ = f"""define internal i64 @tj.first.read(ptr %p, i64 %n) noinline nounwind {{
  %all = icmp sge i64 %n, 8
  br i1 %all, label %word, label %part
word:
  %whole = load i64, ptr %p, align 1
  ret i64 %whole
part:
  %several = icmp sge i64 %n, 4
  br i1 %several, label %halves, label %few
halves:
  %low = load i32, ptr %p, align 1
  %back = sub i64 %n, 4
  %later = getelementptr i8, ptr %p, i64 %back
  %high = load i32, ptr %later, align 1
  %low.word = zext i32 %low to i64
  %high.word = zext i32 %high to i64
  %bits = mul i64 %back, 8
  %high.moved = shl i64 %high.word, %bits
  %both = or i64 %low.word, %high.moved
  ret i64 %both
few:
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %bytes, label %none
bytes:
{_FEW}
  %a = load i8, ptr %p
  %b = load i8, ptr %middle.at
  %c = load i8, ptr %end.at
  %a.word = zext i8 %a to i64
  %b.word = zext i8 %b to i64
  %c.word = zext i8 %c to i64
  %b.moved = shl i64 %b.word, %b.bits
  %c.moved = shl i64 %c.word, %c.bits
  %ab = or i64 %a.word, %b.moved
  %abc = or i64 %ab, %c.moved
  ret i64 %abc
none:
  ret i64 0
}}"""

_WRITE = f"""define internal void @tj.first.write(ptr %p, i64 %n, i64 %word) noinline nounwind {{
  %all = icmp sge i64 %n, 8
  br i1 %all, label %whole, label %part
whole:
  store i64 %word, ptr %p, align 1
  ret void
part:
  %several = icmp sge i64 %n, 4
  br i1 %several, label %halves, label %few
halves:
  %back = sub i64 %n, 4
  %bits = mul i64 %back, 8
  %moved = lshr i64 %word, %bits
  %low = trunc i64 %word to i32
  %high = trunc i64 %moved to i32
  %later = getelementptr i8, ptr %p, i64 %back
  store i32 %low, ptr %p, align 1
  store i32 %high, ptr %later, align 1
  ret void
few:
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %bytes, label %none
bytes:
{_FEW}
  %b.moved = lshr i64 %word, %b.bits
  %c.moved = lshr i64 %word, %c.bits
  %a = trunc i64 %word to i8
  %b = trunc i64 %b.moved to i8
  %c = trunc i64 %c.moved to i8
  store i8 %a, ptr %p
  store i8 %b, ptr %middle.at
  store i8 %c, ptr %end.at
  ret void
none:
  ret void
}}"""


def _bytes_there(rounds: Rounds, type_: str) -> str:
    """How many bytes of a vector of that type hold elements."""
    emit, lines = rounds.printer.emit, rounds.lines
    wide = emit(lines, f"zext i32 {rounds.left} to i64")  # there are at most eight lanes
    rounds.printer.target.declare("declare i64 @llvm.smin.i64(i64, i64)")
    count = emit(lines, f"call i64 @llvm.smin.i64(i64 {wide}, i64 {rounds.lanes})")
    return emit(lines, f"mul i64 {count}, {BITS[type_] // 8}")


def _words(rounds: Rounds, type_: str, address: str) -> list[tuple[str, str]]:
    """The words of a vector: the address of each, and how many bytes of it and what follows hold elements."""
    emit, lines = rounds.printer.emit, rounds.lines
    there = _bytes_there(rounds, type_)
    found = [(address, there)]
    for start in range(8, rounds.lanes * BITS[type_] // 8, 8):
        at = emit(lines, f"getelementptr i8, ptr {address}, i64 {start}")
        found.append((at, emit(lines, f"sub i64 {there}, {start}")))
    return found


def read_first(rounds: Rounds, type_: str, address: str) -> str:
    """A vector of which as many elements are read as are left, zeros behind them.

    >>> from tracejit.codegen.lower.lower import lower_kernel
    >>> text = lower_kernel('''
    ... def sums(x: "f32*", chosen: "u8*", out: "f32*", n: "i64", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for row in range(lo, hi):
    ...         total = float32(0)
    ...         for i in range(n):
    ...             total += select(chosen[row * n + i] != uint8(0), x[row * n + i], float32(0))
    ...         out[row] = total
    ...     return 0
    ... ''', "sums", noalias=True, vector_bits=0, lacking=(), widen=256).text
    >>> "llvm.masked.load.v8i8" in text, "call i64 @tj.first.read(" in text
    (False, True)
    """
    emit, lines, lanes = rounds.printer.emit, rounds.lines, rounds.lanes
    rounds.printer.target.declare(_READ)
    words = [
        emit(lines, f"call i64 @tj.first.read(ptr {at}, i64 {there})")
        for at, there in _words(rounds, type_, address)
    ]
    vector = rounds.printer.spell(type_)
    bits = lanes * BITS[type_]
    if bits <= 64:
        first = emit(lines, f"trunc i64 {words[0]} to i{bits}") if bits < 64 else words[0]
        return emit(lines, f"bitcast i{bits} {first} to {vector}")
    packed, every = f"<{len(words)} x i64>", "poison"
    for number, word in enumerate(words):
        every = emit(lines, f"insertelement {packed} {every}, i64 {word}, i64 {number}")
    return emit(lines, f"bitcast {packed} {every} to {vector}")


def write_first(rounds: Rounds, type_: str, value: str, address: str) -> None:
    """Write as many elements of a vector as are left.

    >>> from tracejit.codegen.lower.lower import lower_kernel
    >>> text = lower_kernel('''
    ... def choose(x: "f32*", chosen: "u8*", out: "f32*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     total = float32(0)
    ...     for i in range(lo, hi):
    ...         total += x[i]
    ...         chosen[i] = uint8(x[i] > float32(0))
    ...     out[0] = total
    ...     return 0
    ... ''', "choose", noalias=True, vector_bits=0, lacking=(), widen=256).text
    >>> "llvm.masked.store" in text, "call void @tj.first.write(" in text
    (False, True)
    """
    emit, lines, lanes = rounds.printer.emit, rounds.lines, rounds.lanes
    rounds.printer.target.declare(_WRITE)
    vector, bits = rounds.printer.spell(type_), lanes * BITS[type_]
    places = _words(rounds, type_, address)
    if bits <= 64:
        word = emit(lines, f"bitcast {vector} {value} to i{bits}")
        words = [emit(lines, f"zext i{bits} {word} to i64") if bits < 64 else word]
    else:
        packed = f"<{len(places)} x i64>"
        every = emit(lines, f"bitcast {vector} {value} to {packed}")
        words = [
            emit(lines, f"extractelement {packed} {every}, i64 {number}")
            for number in range(len(places))
        ]
    for (at, there), word in zip(places, words, strict=True):
        lines.append(f"  call void @tj.first.write(ptr {at}, i64 {there}, i64 {word})")
