"""Arithmetic on vectors whose lanes know nothing of each other: each belongs to a matrix, or a row, of its own.

An algorithm for one matrix, written with these, works on as many matrices as a register has lanes. What one matrix
decides (which row is the pivot's) becomes a choice in every lane, what all decide alike (how often a loop runs) stays
a loop.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ..ir_text import FunctionText, Variable
from ..products.vector_kind import Kind

__all__ = ["Changing", "Lane", "Lanes", "Rows", "Truth"]


@dataclass(frozen=True)
class Truth:
    """A condition in every lane."""

    of: Lanes
    ref: str

    def __and__(self, other: Truth) -> Truth:
        return self._made(f"and {self.of.kind.mask} {self.ref}, {other.ref}")

    def __or__(self, other: Truth) -> Truth:
        return self._made(f"or {self.of.kind.mask} {self.ref}, {other.ref}")

    def choose(self, yes: Lane, no: Lane) -> Lane:
        """``yes`` where it holds, else ``no``."""
        kind = self.of.kind
        return self.of.made(
            f"select {kind.mask} {self.ref}, {kind.vector} {yes.ref}, {kind.vector} {no.ref}"
        )

    def anywhere(self) -> str:
        """Does it hold in any lane (a condition)?"""
        f, lanes = self.of.f, self.of.kind.lanes
        bits = f.make(f"bitcast {self.of.kind.mask} {self.ref} to i{lanes}")
        return f.make(f"icmp ne i{lanes} {bits}, 0")

    def _made(self, text: str) -> Truth:
        return Truth(self.of, self.of.f.make(text))


@dataclass(frozen=True, eq=False)
class Lane:
    """A number in every lane."""

    of: Lanes
    ref: str

    def __add__(self, other: Lane) -> Lane:
        return self._with("fadd", other)

    def __sub__(self, other: Lane) -> Lane:
        return self._with("fsub", other)

    def __mul__(self, other: Lane) -> Lane:
        return self._with("fmul", other)

    def __truediv__(self, other: Lane) -> Lane:
        return self._with("fdiv", other)

    def __neg__(self) -> Lane:
        return self.of.made(f"fneg {self.of.kind.vector} {self.ref}")

    def __abs__(self) -> Lane:
        return self._call("fabs")

    def root(self) -> Lane:
        """Its square root."""
        return self._call("sqrt")

    def __gt__(self, other: Lane) -> Truth:
        return self._compare("ogt", other)

    def __lt__(self, other: Lane) -> Truth:
        return self._compare("olt", other)

    def equals(self, other: Lane) -> Truth:
        """Where both are the same number."""
        return self._compare("oeq", other)

    def is_not(self, relation: str, other: Lane) -> Truth:
        """Where a relation ("gt", "eq"...) does not hold, be it that one is no number."""
        opposite = {"gt": "ule", "eq": "une", "lt": "uge"}
        return self._compare(opposite[relation], other)

    def _with(self, opcode: str, other: Lane) -> Lane:
        return self.of.made(f"{opcode} {self.of.kind.vector} {self.ref}, {other.ref}")

    def _compare(self, predicate: str, other: Lane) -> Truth:
        text = f"fcmp {predicate} {self.of.kind.vector} {self.ref}, {other.ref}"
        return Truth(self.of, self.of.f.make(text))

    def _call(self, name: str) -> Lane:
        kind = self.of.kind
        return self.of.made(
            f"call {kind.vector} @llvm.{name}.{kind.suffix}({kind.vector} {self.ref})"
        )


class Changing:
    """A number in every lane that changes."""

    def __init__(self, of: Lanes, value: Lane) -> None:
        self.of = of
        self.variable: Variable = of.f.variable(of.kind.vector, value.ref)

    def get(self) -> Lane:
        """Its value now."""
        return Lane(self.of, self.variable.get())

    def set(self, value: Lane) -> None:
        """Give it a value."""
        self.variable.set(value.ref)


class Rows:
    """Memory of vectors in rows: ``rows[i][j]``, of which ``i`` is worth keeping outside of a loop over ``j``."""

    def __init__(self, of: Lanes, place: str, columns: str | int) -> None:
        self.of, self.place, self.columns = of, place, columns

    def __getitem__(self, row: str | int) -> Row:
        f = self.of.f
        place = f.at(self.place, f.product(row, self.columns), self.of.kind.vector)
        return Row(self.of, place)


class Row:
    """A row of vectors."""

    def __init__(self, of: Lanes, place: str) -> None:
        self.of, self.place = of, place

    def __getitem__(self, column: str | int) -> Lane:
        at = self._at(column)
        return self.of.made(f"load {self.of.kind.vector}, ptr {at}")

    def __setitem__(self, column: str | int, value: Lane) -> None:
        self.of.f.add(f"store {self.of.kind.vector} {value.ref}, ptr {self._at(column)}")

    def _at(self, column: str | int) -> str:
        return self.of.f.at(self.place, column, self.of.kind.vector)


class Lanes:
    """What makes numbers in lanes, in one function."""

    def __init__(self, f: FunctionText, kind: Kind) -> None:
        self.f, self.kind = f, kind

    def made(self, text: str) -> Lane:
        """The result of an instruction."""
        return Lane(self, self.f.make(text))

    def number(self, value: float) -> Lane:
        """A constant in all lanes, rounded to their precision."""
        if self.kind.nbytes == 4:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        bits = struct.unpack("<Q", struct.pack("<d", value))[0]
        one = f"{self.kind.scalar} 0x{bits:016X}"
        return Lane(self, f"<{', '.join([one] * self.kind.lanes)}>")

    def counted(self, word: str) -> Lane:
        """A word as a number in all lanes."""
        number = self.f.make(f"sitofp i64 {word} to {self.kind.scalar}")
        return Lane(self, self.kind.splat(self.f, number))

    def changing(self, value: Lane) -> Changing:
        """A new number that changes."""
        return Changing(self, value)

    def fused(self, a: Lane, b: Lane, c: Lane) -> Lane:
        """a * b + c, rounded once."""
        return Lane(self, self.kind.multiply_add(self.f, a.ref, b.ref, c.ref))
