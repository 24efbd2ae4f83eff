"""Products of bfloat16 by instructions that multiply pairs: two terms of a sum of float32 at a time.

An element of a vector is a *pair*, the numbers of two terms that follow each other. In a left operand whose rows are
rows of the product pairs lie in memory as they are; elsewhere laying out the operands puts them together. The last term
of a sum of an odd number of terms is paired with zero.
"""

from __future__ import annotations

from ..ir_text import FunctionText
from .gemm_strips import BLOCKS, block_function, strip_function, turned
from .vector_kind import Kind
from .vector_machine import Machine

__all__ = ["Pairs", "pair_declarations", "pair_functions"]


class Pairs(Kind):
    """Pairs of bfloat16 in the vectors of float32 that their products are added to.

    >>> Pairs(Machine(64, 8, 3)).pairs
    '<32 x bfloat>'
    """

    given, together = 2, 2

    def __init__(self, machine: Machine) -> None:
        super().__init__("f32", machine)
        self.pairs = f"<{2 * self.lanes} x bfloat>"
        self.halves = f"<{self.lanes} x i16>"
        self.words = f"<{self.lanes} x i32>"

    def multiply_add(self, f: FunctionText, a: str, b: str, c: str) -> str:
        """The products of both numbers of the pairs of a and b, added to c."""
        x, y = (f.make(f"bitcast {self.vector} {value} to {self.pairs}") for value in (a, b))
        given = f"{self.vector} {c}, {self.pairs} {x}, {self.pairs} {y}"
        return f.make(f"call {self.vector} @llvm.x86.avx512bf16.dpbf16ps.512({given})")

    def single(self, f: FunctionText, pointer: str) -> str:
        """One number of memory, paired with zero, in every lane."""
        word = f.make(f"zext i16 {f.make(f'load i16, ptr {pointer}')} to i32")
        return self.splat(f, f.make(f"bitcast i32 {word} to float"))

    def first(self, f: FunctionText, halves: str) -> str:
        """Numbers as the first of pairs, in words."""
        return f.make(f"zext {self.halves} {halves} to {self.words}")

    def paired(self, f: FunctionText, halves: str, others: str) -> str:
        """The pairs of two vectors of numbers, in words."""
        count = ", ".join(["i32 16"] * self.lanes)
        high = f.make(f"shl {self.words} {self.first(f, others)}, <{count}>")
        return f.make(f"or {self.words} {self.first(f, halves)}, {high}")

    def load_halves(self, f: FunctionText, pointer: str, mask: str) -> str:
        """The numbers of memory that a mask has, zeros for the others."""
        given = f"ptr {pointer}, i32 2, {self.mask} {mask}, {self.halves} zeroinitializer"
        suffix = f"v{self.lanes}i16"
        return f.make(f"call {self.halves} @llvm.masked.load.{suffix}.p0({given})")

    def first_given(self, f: FunctionText, count: str) -> tuple[str, str]:
        """The type of masks for both numbers of pairs, and the mask of the first of a vector's."""
        lanes = self.together * self.lanes
        bits = f"<{lanes} x i1>"
        narrow = f.make(f"trunc i64 {f.ones(f.least(count, lanes))} to i{lanes}")
        return bits, f.make(f"bitcast i{lanes} {narrow} to {bits}")

    def load_given(self, f: FunctionText, pointer: str, mask: str) -> str:
        """A vector of pairs that lie side by side, of those numbers that a mask of both has."""
        lanes = self.together * self.lanes
        kind, bits = f"<{lanes} x i16>", f"<{lanes} x i1>"
        given = f"ptr {pointer}, i32 2, {bits} {mask}, {kind} zeroinitializer"
        found = f.make(f"call {kind} @llvm.masked.load.v{lanes}i16.p0({given})")
        return f.make(f"bitcast {kind} {found} to {self.vector}")

    def store_words(self, f: FunctionText, words: str, pointer: str) -> None:
        """Write pairs."""
        f.add(f"store {self.words} {words}, ptr {pointer}, align 4")


def pair_declarations(kind: Pairs, column: Pairs) -> str:
    """What the functions call beyond what those of other dtypes do.

    >>> machine = Machine(64, 8, 3)
    >>> pair_declarations(Pairs(machine), Pairs(machine)).count("declare")
    3
    """
    v, p = kind.vector, kind.pairs
    loads = [
        f"declare <{n} x i16> @llvm.masked.load.v{n}i16.p0(ptr, i32, <{n} x i1>, <{n} x i16>)"
        for n in (column.lanes, kind.lanes, 2 * kind.lanes)
    ]
    product = f"declare {v} @llvm.x86.avx512bf16.dpbf16ps.512({v}, {p}, {p})"
    return "\n".join((*dict.fromkeys(loads), product))


def pair_functions(kind: Pairs, column: Pairs) -> list[str]:
    """What lays out the operands: ``copied``, ``turned`` and ``columns``, told how many terms there are.

    >>> machine = Machine(64, 8, 3)
    >>> len(pair_functions(Pairs(machine), Pairs(machine)))
    3
    """
    return [_copied(kind), turned(kind), _columns(column)]


def _copied(kind: Pairs) -> str:
    """A strip of a right operand whose rows are terms."""
    f, pitch = strip_function(kind, "copied")
    whole, odd = f.divided("%terms", 2)
    with f.loop(0, "%vectors") as v:
        mask = kind.first_mask(f, f.difference("%columns", f.product(v, kind.lanes)))
        source = f.at("%b", f.product(v, 2 * kind.lanes), "i8")
        target = f.at("%to", f.product(v, kind.machine.vector), "i8")
        with f.loop(0, whole) as t:
            row = f.at(source, f.product(f.product(t, 2), "%ldb"), "i8")
            rows = [kind.load_halves(f, place, mask) for place in (row, f.at(row, "%ldb", "i8"))]
            kind.store_words(f, kind.paired(f, *rows), f.at(target, f.product(t, pitch), "i8"))
        with f.when(f.compare("ne", odd, 0)):
            row = f.at(source, f.product(f.difference("%terms", 1), "%ldb"), "i8")
            last = kind.first(f, kind.load_halves(f, row, mask))
            kind.store_words(f, last, f.at(target, f.product(whole, pitch), "i8"))
    f.add("ret void")
    return f.finish()


def _columns(kind: Pairs) -> str:
    """Blocks of a left operand whose rows are terms: the pairs that meet a pair of terms lie side by side."""
    f = block_function(kind)
    whole, odd = f.divided("%terms", 2)
    every = f.compare("eq", "%rows", BLOCKS * kind.lanes)
    full = f.make(f"bitcast i{kind.lanes} -1 to {kind.mask}")

    def pairs(blocks: int, source: str, target: str, mask: str, some: str) -> None:
        with f.loop(0, some) as t:
            row = f.at(source, f.product(f.product(t, 2), "%lda"), "i8")
            other = f.at(row, "%lda", "i8")
            place = f.at(target, f.product(t, kind.machine.vector), "i8")
            for block in range(blocks):
                at = 2 * kind.lanes * block
                halves = [kind.load_halves(f, f.at(r, at, "i8"), mask) for r in (row, other)]
                kind.store_words(
                    f, kind.paired(f, *halves), f.at(place, f.product("%room", block), "i8")
                )

    pairs(BLOCKS, "%a", "%to", full, f.make(f"select i1 {every}, i64 {whole}, i64 0"))
    with f.loop(0, "%rows", kind.lanes) as i:
        mask = kind.first_mask(f, f.difference("%rows", i))
        source = f.at("%a", f.product(i, 2), "i8")
        target = f.at("%to", f.product(f.divided(i, kind.lanes)[0], "%room"), "i8")
        pairs(1, source, target, mask, f.make(f"select i1 {every}, i64 0, i64 {whole}"))
        with f.when(f.compare("ne", odd, 0)):
            row = f.at(source, f.product(f.difference("%terms", 1), "%lda"), "i8")
            last = kind.first(f, kind.load_halves(f, row, mask))
            kind.store_words(f, last, f.at(target, f.product(whole, kind.machine.vector), "i8"))
    f.add("ret void")
    return f.finish()
