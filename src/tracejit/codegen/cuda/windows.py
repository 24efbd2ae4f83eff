"""What the kernels of convolutions share: operands, attributes, and the squares of results that a block walks over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.graph import Value
from ...types import Shape
from .. import scalar
from ..nest import Layout
from .squares import LINE, SQUARE, SquareText, is_narrow
from .tiles import SIDE, Tensor

__all__ = ["KINDS", "WindowPrinter"]

#: What is computed here, and how its operands are called.
KINDS = {
    "convolution": ("x", "weight"),
    "convolution_input": ("y", "weight"),
    "convolution_weight": ("x", "y"),
}


class WindowPrinter(SquareText):
    """What the three forms share: operands, attributes and the squares of a block."""

    def __init__(self, value: Value, out: Layout, layout_of: Callable[[Value], Layout]) -> None:
        super().__init__(value.spec.dtype)
        assert value.op is not None
        self.value, self.kind_of = value, value.op.name
        names = KINDS[value.op.name]
        self.operands = dict(zip(names, value.value_operands, strict=True))
        self.tensors = {n: Tensor(self.text, n, x, layout_of(x)) for n, x in self.operands.items()}
        self.out = Tensor(self.text, "out", value, out, written=True)
        self.axes = range(value.spec.ndim - 2)
        self.groups = value.attributes["groups"]
        self.declare()

    def shape(self, name: str) -> Shape:
        """The shape of an operand or of the result."""
        return (self.value if name == "out" else self.operands[name]).spec.shape

    def attribute(self, name: str, axis: int) -> str:
        """The parameter holding a stride, a dilation or the padding before."""
        found = self.value.attributes[name][axis]
        return self.number(f"{name}{axis}", found[0] if name == "padding" else found)

    def extent(self, name: str, axis: int) -> str:
        """The parameter holding an extent of an operand's or of the result's positions."""
        return self.number(f"{name}_n{axis}", self.shape(name)[2 + axis])

    def element(self, tensor: Tensor, place: str) -> str:
        """An element as it is computed with."""
        return scalar.load(f"{tensor.pointer()}[{place}]", tensor.value.spec.dtype)

    def squares(self, rows: int, columns: int, parts: int = 1) -> Any:
        """Begin a block's walk over its squares: ``group``, ``first_row`` and ``first_column``; how many there are."""
        across, down = -(-columns // SQUARE), -(-rows // SQUARE)
        tasks = self.groups * across * down * parts
        add = self.text.add
        add(1, f"tx = thread() & {SIDE - 1}")
        add(1, "ty = thread() >> 4")
        add(1, f"for task in range(block(), {self.number('tasks', tasks)}, blocks()):")
        names = ("part", "group", "down", "across")
        self.split("task", names, (parts, self.groups, down, across), is_narrow(tasks), 2)
        add(2, f"first_row = down * {SQUARE}")
        add(2, f"first_column = across * {SQUARE}")
        self.number("rows", rows)
        self.number("columns", columns)
        return tasks

    def fill(self, side: str, number: str, along: str, seen: str, found: str, indent: int) -> None:
        """One element of a factor, for term ``number`` of row or column ``along``; zero where nothing is seen."""
        add = self.text.add
        add(indent, f"element = {self.cast}(0)")
        add(indent, f"if {seen}:")
        add(indent + 1, f"element = {found}")
        add(indent, f"{side}[({number}) * {LINE} + {along}] = element")
