"""Vectors of one dtype on one machine, in LLVM assembly."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir_text import FunctionText, Variable
from .vector_machine import Machine

__all__ = ["Kind", "declarations", "inner"]

#: Bytes of vectors that are stored with a mask as fast as without: one of AVX2 takes AMD's processors twenty cycles.
_QUICK_MASKS = 64


class Kind:
    """One dtype on one machine: its vectors and the statements on them.

    A block of results is ``blocks`` rows (the largest that fits, then smaller ones) of up to ``machine.vectors``
    vectors; a *strip* is as many positions as a block has.
    """

    #: Bytes of a number of an operand (0: as many as of a result), and terms of a sum that an element of a vector has.
    given, together = 0, 1

    def __init__(self, dtype: str, machine: Machine) -> None:
        self.scalar, self.nbytes = {"f32": ("float", 4), "f64": ("double", 8)}[dtype]
        self.given = self.given or self.nbytes
        self.machine = machine
        self.lanes = machine.vector // self.nbytes
        self.vector = f"<{self.lanes} x {self.scalar}>"
        self.mask = f"<{self.lanes} x i1>"
        self.suffix = f"v{self.lanes}{dtype}"
        self.strip = machine.vectors * self.lanes
        self.strip_bytes = machine.vectors * machine.vector
        #: Words of a table of runs: for each vector their number, addresses, masks.
        self.run_words = 1 + 2 * self.lanes
        self.blocks = tuple(r for r in (8, 4, 1) if r <= machine.rows)
        self.full = (1 << self.lanes) - 1

    def splat(self, f: FunctionText, value: str) -> str:
        """A vector of one number."""
        one = f.make(f"insertelement {self.vector} poison, {self.scalar} {value}, i64 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        return f.make(f"shufflevector {self.vector} {one}, {self.vector} poison, {zeros}")

    def multiply_add(self, f: FunctionText, a: str, b: str, c: str) -> str:
        """a * b + c, rounded once."""
        given = ", ".join(f"{self.vector} {x}" for x in (a, b, c))
        return f.make(f"call {self.vector} @llvm.fma.{self.suffix}({given})")

    def number(self, f: FunctionText, pointer: str) -> str:
        """One element of memory, in every lane."""
        return self.splat(f, f.make(f"load {self.scalar}, ptr {pointer}"))

    def load(self, f: FunctionText, pointer: str) -> str:
        """A vector of memory."""
        return f.make(f"load {self.vector}, ptr {pointer}, align {self.nbytes}")

    def prefetch(self, f: FunctionText, pointer: str, level: int = 1) -> None:
        """Ask for a line of memory that will be read, into the cache of a level; any address will do."""
        f.add(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 {4 - level}, i32 1)")

    def call_block(self, f: FunctionText, rows: int, vectors: str, given: str) -> None:
        """Call the block of these rows that has as many vectors as ``vectors`` says."""
        for number in range(1, self.machine.vectors + 1):
            with f.when(f.compare("eq", vectors, number)):
                f.add(f"call void @block.{rows}.{number}({given})")

    def store(self, f: FunctionText, value: str, pointer: str) -> None:
        """Write a vector."""
        f.add(f"store {self.vector} {value}, ptr {pointer}, align {self.nbytes}")

    def masked_load(
        self, f: FunctionText, pointer: str, mask: str, otherwise: str = "zeroinitializer"
    ) -> str:
        """The elements of a vector that the mask has, the others from a vector."""
        where = f"ptr {pointer}, i32 {self.nbytes}"  # the spelling that older LLVMs read, too
        given = f"{where}, {self.mask} {mask}, {self.vector} {otherwise}"
        return f.make(f"call {self.vector} @llvm.masked.load.{self.suffix}.p0({given})")

    def has_nan(self, f: FunctionText, values: list[str]) -> str:
        """Is an element of some vectors no number?"""
        pairs = zip(values[::2], [*values[1::2], values[-1]], strict=False)
        found = [f.make(f"fcmp uno {self.vector} {a}, {b}") for a, b in pairs]
        odd = found[0]
        for other in found[1:]:
            odd = f.make(f"or {self.mask} {odd}, {other}")
        bits = f.make(f"bitcast {self.mask} {odd} to i{self.lanes}")
        return f.make(f"icmp ne i{self.lanes} {bits}, 0")

    def unless_gap(self, f: FunctionText, seen: str, value: str, otherwise: str) -> str:
        """The elements of ``value``, those of ``otherwise`` where a negative zero was seen."""
        width = 8 * self.nbytes
        words = f"<{self.lanes} x i{width}>"
        bits = f.make(f"bitcast {self.vector} {seen} to {words}")
        sign = ", ".join([f"i{width} {-(1 << (width - 1))}"] * self.lanes)
        gap = f.make(f"icmp eq {words} {bits}, <{sign}>")
        return f.make(f"select {self.mask} {gap}, {self.vector} {otherwise}, {self.vector} {value}")

    def masked_store(self, f: FunctionText, value: str, pointer: str, mask: str) -> None:
        """Write the elements that the mask has; without one where it has all, if masks of stores are slow."""
        if self.machine.vector >= _QUICK_MASKS:
            self._store_some(f, value, pointer, mask)
            return
        bits = f.make(f"bitcast {self.mask} {mask} to i{self.lanes}")
        whole = f.make(f"icmp eq i{self.lanes} {bits}, -1")
        with f.when(whole):
            self.store(f, value, pointer)
        with f.when(f.make(f"xor i1 {whole}, true")):
            self._store_some(f, value, pointer, mask)

    def _store_some(self, f: FunctionText, value: str, pointer: str, mask: str) -> None:
        given = f"{self.vector} {value}, ptr {pointer}, i32 {self.nbytes}, {self.mask} {mask}"
        f.add(f"call void @llvm.masked.store.{self.suffix}.p0({given})")

    def ends(self, f: FunctionText, floor: str, ceiling: str, place: str) -> str:
        """Write the bounds of results for `finish`, given the bits of two float64; null where there are none."""
        for number, bits in enumerate((floor, ceiling)):
            value = f.make(f"bitcast i64 {bits} to double")
            if self.scalar == "float":
                value = f.make(f"fptrunc double {value} to float")
            f.add(f"store {self.scalar} {value}, ptr {f.at(place, number, self.scalar)}")
        low, high = f.compare("ne", floor, -(1 << 52)), f.compare("ne", ceiling, 0x7FF << 52)
        return f.make(f"select i1 {f.make(f'or i1 {low}, {high}')}, ptr {place}, ptr null")

    def finish(
        self, f: FunctionText, rows: Sequence[Sequence[Variable]], first: str | int = 0
    ) -> None:
        """Add a number to the sums of each row, ``%biased`` bytes apart, and keep them between ``%ends``; nan stays."""
        for i, row in enumerate(rows):
            start = f.product("%biased", f.sum(first, i))
            bias = self.number(f, f.at("%bias", start, "i8"))
            for total in row:
                total.set(f.make(f"fadd {self.vector} {total.get()}, {bias}"))
        self.bounded(f, [total for row in rows for total in row])

    def bounded(self, f: FunctionText, sums: Sequence[Variable]) -> None:
        """Keep sums between ``%ends``; nan stays."""
        with f.when(f.make("icmp ne ptr %ends, null")):
            for number, outside in enumerate(("ogt", "olt")):
                end = self.number(f, f.at("%ends", number, self.scalar))
                for total in sums:
                    found = total.get()
                    beyond = f.make(f"fcmp {outside} {self.vector} {end}, {found}")
                    given = f"{self.vector} {end}, {self.vector} {found}"
                    total.set(f.make(f"select {self.mask} {beyond}, {given}"))

    def as_mask(self, f: FunctionText, bits: str) -> str:
        """Bits as a mask."""
        narrow = f.make(f"trunc i64 {bits} to i{self.lanes}")
        return f.make(f"bitcast i{self.lanes} {narrow} to {self.mask}")

    def first_bits(self, f: FunctionText, count: str) -> str:
        """The bits of the first elements of a vector, of all where there are more."""
        return f.ones(f.least(count, self.lanes))

    def first_mask(self, f: FunctionText, count: str) -> str:
        """The mask of them."""
        return self.as_mask(f, self.first_bits(f, count))

    def first_given(self, f: FunctionText, count: str) -> tuple[str, str]:
        """The type of masks for numbers of an operand, and the mask of the first of a vector's."""
        return self.mask, self.first_mask(f, count)

    def load_given(self, f: FunctionText, pointer: str, mask: str) -> str:
        """A vector of those numbers of an operand that such a mask has, zeros for the others."""
        return self.masked_load(f, pointer, mask)

    def vectors_at(self, f: FunctionText, pointer: str, count: int) -> list[str]:
        """The addresses of vectors that follow each other."""
        return [f.at(pointer, v * self.machine.vector, "i8") for v in range(count)]

    def transposed(self, f: FunctionText, rows: list[str]) -> list[str]:
        """As many vectors as they have lanes, rows and columns exchanged: bit by bit of their numbers."""
        rows = list(rows)
        bit = 1
        while bit < self.lanes:
            lanes = [(lane, bool(lane & bit)) for lane in range(self.lanes)]
            low = [self.lanes + lane - bit if high else lane for lane, high in lanes]
            high_ = [self.lanes + lane if high else lane + bit for lane, high in lanes]
            for i in range(self.lanes):
                if not i & bit:
                    a, b = rows[i], rows[i + bit]
                    rows[i], rows[i + bit] = (
                        self.shuffled(f, a, b, low),
                        self.shuffled(f, a, b, high_),
                    )
            bit *= 2
        return rows

    def shuffled(self, f: FunctionText, a: str, b: str, lanes: list[int]) -> str:
        """Lanes of two vectors, those of the second numbered on."""
        numbers = ", ".join(f"i32 {lane}" for lane in lanes)
        mask = f"<{self.lanes} x i32> <{numbers}>"
        return f.make(f"shufflevector {self.vector} {a}, {self.vector} {b}, {mask}")


def declarations(kind: Kind) -> str:
    """What the functions call.

    >>> from .vector_machine import Machine
    >>> declarations(Kind("f32", Machine(64, 8, 3))).count("declare")
    5
    """
    v, m, s = kind.vector, kind.mask, kind.suffix
    return "\n".join(
        (
            "declare i64 @llvm.smin.i64(i64, i64)",
            "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
            f"declare {v} @llvm.fma.{s}({v}, {v}, {v})",
            f"declare {v} @llvm.masked.load.{s}.p0(ptr, i32, {m}, {v})",
            f"declare void @llvm.masked.store.{s}.p0({v}, ptr, i32, {m})",
        )
    )


def inner(kind: Kind, head: str) -> FunctionText:
    """A function that uses vectors as wide as they are, which LLVM would halve on some machines.

    >>> from .vector_machine import Machine
    >>> inner(Kind("f32", Machine(64, 8, 3)), "void @f()").attributes.split('"')[3]
    '512'
    """
    bits = 8 * kind.machine.vector
    wide = f'"min-legal-vector-width"="{bits}" "prefer-vector-width"="{bits}"'
    return FunctionText(head, f"nounwind noinline {wide}")
