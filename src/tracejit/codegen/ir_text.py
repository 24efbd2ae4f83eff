"""Writing LLVM assembly statement by statement, for code that is about vectors and so outside the kernel language.

Names that change are memory (`Variable`), which LLVM's first pass turns into registers, so nobody has to write phis.
The text needs no LLVM to be written: it is what the kernel store is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["FunctionText", "Variable"]


class Variable:
    """A name that changes."""

    def __init__(self, text: FunctionText, kind: str, place: str) -> None:
        self.text, self.kind, self.place = text, kind, place

    def get(self) -> str:
        """Its value now."""
        return self.text.make(f"load {self.kind}, ptr {self.place}")

    def set(self, value: str | int) -> None:
        """Give it a value."""
        self.text.add(f"store {self.kind} {value}, ptr {self.place}")


class FunctionText:
    """The text of one function while it is written.

    >>> function = FunctionText("i64 @twice(i64 %x)")
    >>> function.add(f"ret i64 {function.sum('%x', '%x')}")
    >>> print(function.finish())
    define i64 @twice(i64 %x) nounwind {
    entry:
      %t1 = add i64 %x, %x
      ret i64 %t1
    }
    """

    def __init__(self, head: str, attributes: str = "nounwind") -> None:
        self.head, self.attributes = head, attributes
        self.first: list[str] = []
        self.lines: list[str] = []
        self.count = 0

    def finish(self) -> str:
        """The whole function."""
        body = "\n".join([*self.first, *self.lines])
        return f"define {self.head} {self.attributes} {{\nentry:\n{body}\n}}"

    def add(self, statement: str) -> None:
        """A statement without a result."""
        self.lines.append(f"  {statement}")

    def make(self, expression: str) -> str:
        """The name of what a statement computes."""
        self.count += 1
        self.add(f"%t{self.count} = {expression}")
        return f"%t{self.count}"

    def sum(self, a: str | int, b: str | int) -> str:
        """The sum of two words."""
        return self.make(f"add i64 {a}, {b}")

    def difference(self, a: str | int, b: str | int) -> str:
        """The difference of two words."""
        return self.make(f"sub i64 {a}, {b}")

    def product(self, a: str | int, b: str | int) -> str:
        """The product of two words."""
        return self.make(f"mul i64 {a}, {b}")

    def least(self, a: str | int, b: str | int) -> str:
        """The smaller of two words."""
        return self.make(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    def most(self, a: str | int, b: str | int) -> str:
        """The larger of two words."""
        return self.make(f"call i64 @llvm.smax.i64(i64 {a}, i64 {b})")

    def divided(self, a: str | int, b: str | int) -> tuple[str, str]:
        """Quotient and remainder of two words."""
        return self.make(f"sdiv i64 {a}, {b}"), self.make(f"srem i64 {a}, {b}")

    def quotient_up(self, a: str | int, b: str | int) -> str:
        """The quotient of two words, rounded up."""
        return self.divided(self.sum(a, self.difference(b, 1)), b)[0]

    def ones(self, count: str | int) -> str:
        """A word whose lowest bits are one, so many of them."""
        return self.difference(self.make(f"shl i64 1, {count}"), 1)

    def aligned(self, pointer: str) -> str:
        """The first address from ``pointer`` on where a cache line begins."""
        number = self.make(f"ptrtoint ptr {pointer} to i64")
        over = self.make(f"and i64 {self.difference(0, number)}, 63")
        return self.at(pointer, over, "i8")

    def at(self, pointer: str, index: str | int, kind: str) -> str:
        """The address of an element."""
        return self.make(f"getelementptr {kind}, ptr {pointer}, i64 {index}")

    def word(self, pointer: str, index: str | int) -> str:
        """A word of memory."""
        return self.make(f"load i64, ptr {self.at(pointer, index, 'i64')}")

    def put(self, word: str | int, pointer: str) -> None:
        """Write a word."""
        self.add(f"store i64 {word}, ptr {pointer}")

    def variable(self, kind: str, value: str | int | None = None) -> Variable:
        """A new name that changes."""
        self.count += 1
        place = f"%v{self.count}"
        self.first.append(f"  {place} = alloca {kind}")
        found = Variable(self, kind, place)
        if value is not None:
            found.set(value)
        return found

    def label(self, name: str) -> str:
        """A name for a block that nobody else has."""
        self.count += 1
        return f"{name}.{self.count}"

    def start(self, label: str) -> None:
        """Begin a block, into which the one before it runs on."""
        self.lines.extend((f"  br label %{label}", f"{label}:"))

    @contextmanager
    def loop(self, start: str | int, end: str | int, step: str | int = 1) -> Iterator[str]:
        """``for (i = start; i < end; i += step)``; gives i."""
        i = self.variable("i64", start)
        head, body, done = self.label("head"), self.label("body"), self.label("done")
        self.start(head)
        now = i.get()
        self.add(f"br i1 {self.make(f'icmp slt i64 {now}, {end}')}, label %{body}, label %{done}")
        self.lines.append(f"{body}:")
        yield now
        i.set(self.sum(now, step))
        self.add(f"br label %{head}")
        self.lines.append(f"{done}:")

    @contextmanager
    def as_long(self, variable: Variable, end: str | int) -> Iterator[str]:
        """``while (variable < end)``; the body changes the variable. Gives its value at the beginning."""
        head, body, done = self.label("head"), self.label("body"), self.label("done")
        self.start(head)
        now = variable.get()
        self.add(f"br i1 {self.make(f'icmp slt i64 {now}, {end}')}, label %{body}, label %{done}")
        self.lines.append(f"{body}:")
        yield now
        self.add(f"br label %{head}")
        self.lines.append(f"{done}:")

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """``if (condition)``."""
        body, done = self.label("then"), self.label("after")
        self.add(f"br i1 {condition}, label %{body}, label %{done}")
        self.lines.append(f"{body}:")
        yield
        self.add(f"br label %{done}")
        self.lines.append(f"{done}:")

    def compare(self, relation: str, a: str | int, b: str | int) -> str:
        """A condition on two words, as LLVM calls it (``slt``, ``eq``...)."""
        return self.make(f"icmp {relation} i64 {a}, {b}")
