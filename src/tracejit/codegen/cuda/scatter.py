"""Printing scatters for a device: values written, or combined, at positions that a tensor holds.

What is written to one place is written in the order of the positions, by one thread: no atomics, and the bits of eager
execution on the host. A thread owns a line along the scattered dimension, or a part of one; it looks at every position
and writes those in its part.
"""

from __future__ import annotations

from collections.abc import Callable

from ...dtypes import int64
from ...ir.graph import Value
from ...ops.shapes import numel
from ...sizes import largest, smallest
from .. import scalar
from ..cpu.scatter import Walk, combined, place_of, verb, walk_of
from ..kernel import Number, Pointer
from ..nest import Layout, counts_from_end
from .cuda import blocks_for
from .launch import BLOCK, DeviceCode, DeviceText, Launch, Status

__all__ = ["write_device_scatter"]

#: Threads that a scatter should keep busy: lines are cut into parts until there are as many.
ENOUGH_THREADS = 1 << 16


def write_device_scatter(
    value: Value, out: Layout, layout_of: Callable[[Value], Layout]
) -> DeviceCode:
    """The kernel that writes the new values of a scatter into memory that lies like ``out``.

    >>> from tracejit.ir import parse
    >>> from tracejit.codegen.nest import Layout
    >>> graph = parse('''graph f(x: f32[9, 5], i: i64[4], y: f32[4, 5]) {
    ...     %0: f32[9, 5] = put(x, i, y, dim=0, accumulate=True)
    ...     return %0
    ... }''')
    >>> dense = lambda value: Layout(value, 0, value.spec.contiguous_strides())
    >>> code = write_device_scatter(graph.outputs[0], dense(graph.outputs[0]), dense)
    >>> print("\\n".join(code.launches[0].source.splitlines()[-9:]))
            for i0 in range(n0):
                p = index[i0 * index_s0]
                if p < int64(0):
                    p = p + size
                if (p >= low) and (p < high):
                    out[p * out_at + i1] = out[p * out_at + i1] + new[i0 * new_s0 + i1]
                if (p < int64(0)) or (p >= size):
                    status[0] = int32(1)
        return 0
    """
    assert value.op is not None
    name = f"k_{value.op.name}"
    printer = _Printer(value, walk_of(value, out, layout_of), out, layout_of)
    return DeviceCode(name, ((printer.write(name),),), None, (value,))


class _Printer:
    """Prints one scatter."""

    def __init__(
        self, value: Value, walk: Walk, out: Layout, layout_of: Callable[[Value], Layout]
    ) -> None:
        self.value, self.walk, self.out, self.layout_of = value, walk, out, layout_of
        self.text = DeviceText()
        axes = range(len(walk.extents))
        self.positions = [a for a in axes if walk.first <= a < walk.last]
        self.along = [a for a in axes if not walk.first <= a < walk.last]
        self.size = value.spec.shape[value.attributes["dim"]]
        self.lines = numel([walk.extents[a] for a in self.along])
        self.parts = smallest(self.size, -(-ENOUGH_THREADS // largest(self.lines, 1)))
        self.part_size = -(-self.size // self.parts)

    def write(self, name: str) -> Launch:
        """The function."""
        text, value = self.text, self.value
        tasks = self.lines * self.parts
        count, lines = self.number("tasks", tasks), self.number("lines", self.lines)
        text.add(
            1, f"for task in range(block() * {BLOCK} + thread(), {count}, blocks() * {BLOCK}):"
        )
        text.add(2, f"part = task // {lines}")
        text.add(2, f"line = task - part * {lines}")
        text.add(2, f"low = part * {self.number('part_size', self.part_size)}")
        text.add(2, f"high = minimum_i64(low + part_size, {self.number('size', self.size)})")
        self.decompose(2)
        indent = 2
        for axis in self.positions:
            text.add(
                indent, f"for i{axis} in range({self.number(f'n{axis}', self.walk.extents[axis])}):"
            )
            indent += 1
        self.find(indent)
        text.add(indent, "if (p >= low) and (p < high):")
        self.store(indent + 1)
        text.add(indent, "if (p < int64(0)) or (p >= size):")
        status = text.parameter("status", "i32*", Status())  # type: ignore[arg-type]
        text.add(indent + 1, f"{status}[0] = int32(1)")
        dim = value.attributes["dim"]
        doc = f"{value.spec}: {verb(value)} at positions along {dim}"
        source = text.source(name, doc)
        return Launch(name, source, tuple(text.parameters.values()), blocks_for(tasks))

    def number(self, name: str, value: int) -> str:
        """A parameter holding an integer."""
        return self.text.parameter(name, "i64", Number(value))

    def pointer(self, name: str, shown: Value, layout: Layout) -> None:
        """A parameter holding the address that a layout starts at."""
        dtype = shown.spec.dtype
        parameter = Pointer(layout.root, layout.offset * dtype.itemsize, name == "out")
        self.text.parameter(name, scalar.storage_type(dtype) + "*", parameter)

    def decompose(self, indent: int) -> None:
        """Loop variables along and across the lines."""
        rest = "line"
        for axis in reversed(self.along[1:]):
            extent = self.number(f"n{axis}", self.walk.extents[axis])
            self.text.add(indent, f"line_{axis} = {rest} // {extent}")
            self.text.add(indent, f"i{axis} = {rest} - line_{axis} * {extent}")
            rest = f"line_{axis}"
        if self.along:
            self.text.add(indent, f"i{self.along[0]} = {rest}")

    def find(self, indent: int) -> None:
        """The position."""
        _, index, _ = self.value.value_operands
        self.pointer("index", index, self.layout_of(index))
        found = f"index[{place_of(self.text, 'index', self.walk.index)}]"
        self.text.add(indent, f"p = {scalar.convert(found, index.spec.dtype, int64)}")
        if counts_from_end(self.value):
            self.text.add(indent, "if p < int64(0):")
            self.text.add(indent + 1, "p = p + size")

    def store(self, indent: int) -> None:
        """The new value to its place."""
        value, text = self.value, self.text
        new = value.value_operands[2]
        self.pointer("out", value, self.out)
        self.pointer("new", new, self.layout_of(new))
        self.number("out_at", self.out.strides[value.attributes["dim"]])
        target = f"out[{place_of(text, 'out', self.walk.out, 'p * out_at')}]"
        element = scalar.load(f"new[{place_of(text, 'new', self.walk.new)}]", new.spec.dtype)
        element = combined(value, target, element)
        text.add(indent, f"{target} = {scalar.store(element, value.spec.dtype)}")
