"""What a loop over a long row does in front of the place from which on vectors lie where vectors begin.

A row of a slice is written to from anywhere on. Each vector then lies in two lines of the cache, in all arrays whose
rows begin alike; stencils took a third more time for it. So the first elements, up to such a place, are done by the
round with a mask that does what is left at the end, before all others: rest, then enter, main and rest again.
"""

from __future__ import annotations

from tracejit.codegen.lower.body import BITS, Body, Loop
from tracejit.codegen.lower.carried import CarriedLanes
from tracejit.codegen.lower.instructions import Instruction
from tracejit.codegen.lower.rounds import VectorPrinter

__all__ = ["Front", "across", "shifted"]

#: Vectors in a row that is long: one more of them is little, for the others to be where vectors begin.
LONG = 8


def shifted(loop: Loop, body: Body, usual: Body) -> Instruction | None:
    """The address of what a loop writes, if its rounds are to begin where a vector does there; None if anywhere.

    It is for loops inside of others, which rows have, where elements may be done in another order than the rounds
    have: what is carried, or read of what is written, or ends the program, keeps it.

    >>> from tracejit.codegen.lower.lower import lower_kernel
    >>> rows = '''
    ... def k(x: "f32*", out: "f32*", n: "i64", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for row in range(lo, hi):
    ...         for i in range(n):
    ...             {} = x[row * n + i] + x[row]
    ...     return 0
    ... '''
    >>> for written in ("out[row * n + i]", "x[row * n + i]"):
    ...     source = rows.format(written)
    ...     text = lower_kernel(source, "k", noalias=True, vector_bits=512, lacking=(), widen=512).text
    ...     print(".enter:" in text)
    True
    False
    """
    if not loop.inner or body.carried or body.exits or usual.checks:
        return None
    written = [at for which, at in body.accesses() if which == "store"]
    if any(body.reads(at.result) for at in written):
        return None
    return next((at for at in written if body.kind(at.result) == "address"), None)


def across(
    printer: VectorPrinter, lines: list[str], at: Instruction, index: str
) -> tuple[int, str]:
    """The bytes of a vector, and how many of them lie in front of an element.

    >>> from tracejit.codegen.lower.lower import lower_kernel
    >>> fill = '''
    ... def k(out: "f32*", n: "i64", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for row in range(lo, hi):
    ...         for i in range(n):
    ...             out[row * n + i] = float32(1)
    ...     return 0
    ... '''
    >>> text = lower_kernel(fill, "k", noalias=True, vector_bits=512, lacking=(), widen=512).text
    >>> ", 63" in text  # of the address of the first element
    True
    """
    nbytes = printer.lanes * BITS[at.type] // 8
    first = f"getelementptr {at.type}, ptr {printer.base(at)}, i64 {index}"
    place = printer.emit(lines, f"ptrtoint ptr {printer.emit(lines, first)} to i64")
    return nbytes, printer.emit(lines, f"and i64 {place}, {nbytes - 1}")


class Front:
    """What is added to the blocks of a loop for it: the branch to rest, and from there to main."""

    def __init__(self, printer: CarriedLanes, loop: Loop, at: Instruction) -> None:
        self.printer, self.loop, self.at = printer, loop, at
        self.name, self.gap, self.shifts = printer.name, "", ""
        #: What is known before rest and needed after it: a name, its type, and its value with a front and without.
        self.passed: list[tuple[str, str, str, str]] = []

    def measure(self, lines: list[str]) -> str:
        """How many elements there are up to where a vector begins: none if the row is short."""
        printer = self.printer
        nbytes, before = across(printer, lines, self.at, self.loop.start)
        off = printer.emit(lines, f"icmp ne i64 {before}, 0")
        long = printer.emit(lines, f"icmp sge i64 %{self.name}.span, {LONG * printer.lanes}")
        self.shifts = printer.emit(lines, f"and i1 {off}, {long}")
        missing = printer.emit(lines, f"sub nsw i64 {nbytes}, {before}")
        elements = printer.emit(lines, f"udiv i64 {missing}, {BITS[self.at.type] // 8}")
        return printer.emit(lines, f"select i1 {self.shifts}, i64 {elements}, i64 0")

    def enter(self, begin: str, stop: str, fits: str) -> list[str]:
        """The branch to rest or to main, and the block that all come through which go to main."""
        name = self.name
        self.passed = [("begin", "i64", begin, self.loop.stop), ("stop", "i64", stop, "0")]
        if fits:
            self.passed.append(("fits", "i1", fits, "false"))
        lines = [
            f"  br i1 {self.shifts}, label %{name}.rest, label %{name}.enter",
            f"{name}.enter:",
        ]
        blocks = [f"%{name}.choose", f"%{name}.over"]
        for which, type_, value, _ in self.passed:
            values = [value, f"%{name}.rest.{which}"]
            lines += self.printer.meeting(f"%{name}.{which}", type_, values, blocks)
        return lines

    def rest(self) -> list[str]:
        """What rest begins with: where its rounds end in front of main, and at the end of the loop."""
        name, lines = self.name, list[str]()
        blocks = [f"%{name}.between", f"%{name}.choose", f"%{name}.rest"]
        for which, type_, value, otherwise in self.passed:
            own = f"%{name}.rest.{which}"
            lines += self.printer.meeting(own, type_, [otherwise, value, own], blocks)
        return lines

    def over(self) -> list[str]:
        """The block after rest: main is next if it was in front."""
        name = self.name
        return [
            f"{name}.over:",
            f"  %{name}.front = icmp ne i64 %{name}.rest.begin, {self.loop.stop}",
            f"  br i1 %{name}.front, label %{name}.enter, label %{name}.end",
        ]
