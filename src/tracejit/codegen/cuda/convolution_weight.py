"""Printing the gradient of a convolution's weight for a device: few results, each a sum over all samples and positions.

Where squares of results are too few to keep a device busy, the terms are cut into parts: a first pass leaves the sums
of every part, a second one adds them up in order, without atomics.
"""

from __future__ import annotations

from collections.abc import Callable

from ...dtypes import float32
from ...ir.graph import Value
from ...ops.shapes import numel
from ...sizes import largest, smallest
from .. import scalar
from ..kernel import Scratch
from ..nest import Layout
from .cuda import blocks_for
from .launch import BLOCK, Launch
from .squares import EACH, SQUARE, TERMS, is_narrow
from .tiles import SIDE
from .windows import WindowPrinter

__all__ = ["write_weight"]

#: Blocks a device should have to do, and terms below which a part of a sum is not worth a second pass.
ENOUGH_BLOCKS, PART_TERMS = 512, 256


def write_weight(
    value: Value, out: Layout, layout_of: Callable[[Value], Layout], name: str
) -> tuple[tuple[Launch, ...], ...]:
    """The kernels of the gradient of a weight: one pass, or sums of parts of the terms and their sum.

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f(x: f32[9, 3, 99], y: f32[9, 4, 98]) {
    ...     %0: f32[4, 3, 2] = convolution_weight(
    ...         x, y, kernel=(2,), stride=(1,), padding=((0, 0),), dilation=(1,), groups=1)
    ...     return %0
    ... }''')
    >>> dense = lambda value: Layout(value, 0, value.spec.contiguous_strides())
    >>> steps = write_weight(graph.outputs[0], dense(graph.outputs[0]), dense, "k")
    >>> [launch.name for (launch,) in steps]
    ['k', 'k_combine']
    """
    y = value.value_operands[1].spec.shape
    rows, columns = value.spec.shape[0] // value.attributes["groups"], numel(value.spec.shape[1:])
    terms = y[0] * numel(y[2:])
    tiles = value.attributes["groups"] * -(-rows // SQUARE) * -(-columns // SQUARE)
    if tiles >= ENOUGH_BLOCKS or terms < 2 * PART_TERMS:
        return ((_Weights(value, out, layout_of, 1, terms).write(name),),)
    parts = smallest(-(-ENOUGH_BLOCKS // largest(tiles, 1)), -(-terms // PART_TERMS))
    first = _Weights(value, out, layout_of, parts, terms, parted=True).write(name)
    return (first,), (_Sums(value, out, layout_of).write(f"{name}_combine", parts),)


class _Weights(WindowPrinter):
    """The gradient of a weight: columns are its channels and elements, terms samples and positions."""

    def __init__(
        self,
        value: Value,
        out: Layout,
        layout_of: Callable[[Value], Layout],
        parts: int,
        terms: int,
        parted: bool = False,
    ) -> None:
        super().__init__(value, out, layout_of)
        self.parts, self.terms, self.parted = parts, terms, parted
        self.rows = value.spec.shape[0] // self.groups
        self.columns = ("channel", *(f"t{axis}" for axis in self.axes))

    def write(self, name: str) -> Launch:
        """The function."""
        columns = numel(self.shape("out")[1:])
        tasks = self.squares(self.rows, columns, self.parts)
        self.text.array("column_at", "local_i64(4)")
        self.text.array("column_seen", "local_i64(4)")
        for axis in self.axes:
            self.text.array(f"offset{axis}", "local_i64(4)")
        self.split_columns(columns)
        self.clear(2)
        self.walk()
        self.store()
        doc = f"{self.value.spec}: squares of channels and elements of the kernel"
        return self.launch(name, doc, blocks_for(tasks, 1))

    def split_columns(self, columns: int) -> None:
        """For the four columns that a thread reads: where the channel lies, and how far the element is from a start."""
        add, x = self.text.add, self.tensors["x"]
        extents = self.shape("out")[1:]
        add(2, f"for i in range({EACH}):")
        add(3, f"wanted = first_column + (thread() >> 4) + {SIDE} * i")
        add(3, "column = minimum_i64(wanted, columns - 1)")
        self.split("column", self.columns, extents, is_narrow(columns + SQUARE), 3)
        add(3, "column_seen[i] = int64(1)")
        add(3, "if wanted >= columns:")
        add(4, "column_seen[i] = int64(0)")
        channels = self.number("channels", extents[0])
        add(3, f"column_at[i] = (group * {channels} + channel) * {x.stride(1)}")
        for axis in self.axes:
            moved = f"t{axis} * {self.attribute('dilation', axis)}"
            add(3, f"offset{axis}[i] = {moved} - {self.attribute('padding', axis)}")

    def walk(self) -> None:
        """Over the terms of a part."""
        add, (x, y) = self.text.add, (self.tensors["x"], self.tensors["y"])
        size = self.number("part_terms", -(-self.terms // self.parts))
        add(2, f"start = part * {size}")
        add(2, f"stop = minimum_i64(start + {size}, {self.number('terms', self.terms)})")
        add(2, f"for first in range(start, stop, {TERMS}):")
        add(3, f"k = thread() & {TERMS - 1}")
        add(3, "term = minimum_i64(first + k, terms - 1)")
        positions = [f"p{axis}" for axis in self.axes]
        extents = (self.shape("y")[0], *self.shape("y")[2:])
        self.split("term", ("sample", *positions), extents, is_narrow(self.terms + TERMS), 3)
        y_at = [f"sample * {y.stride(0)}"]
        y_at += [f"{p} * {y.stride(2 + axis)}" for axis, p in enumerate(positions)]
        add(3, f"y_at = {' + '.join(y_at)} + (group * rows + first_row) * {y.stride(1)}")
        add(3, f"x_at = sample * {x.stride(0)}")
        for axis in self.axes:
            add(3, f"base{axis} = p{axis} * {self.attribute('stride', axis)}")
        add(3, "barrier()", "others may still read")
        add(3, f"for i in range({EACH}):")
        add(4, f"own = (thread() >> 4) + {SIDE} * i")
        there = "(first + k < stop)"
        found = self.element(y, f"y_at + own * {y.stride(1)}")
        self.fill("left", "k", "own", f"{there} and (first_row + own < rows)", found, 4)
        seen, place = [there, "(column_seen[i] != 0)"], ["x_at + column_at[i]"]
        for axis in self.axes:
            add(4, f"q{axis} = base{axis} + offset{axis}[i]")
            seen.append(f"(q{axis} >= 0) and (q{axis} < {self.extent('x', axis)})")
            place.append(f"q{axis} * {x.stride(2 + axis)}")
        self.fill("right", "k", "own", " and ".join(seen), self.element(x, " + ".join(place)), 4)
        add(3, "barrier()")
        self.products(3)

    def store(self) -> None:
        """Sums of the threads to the result, or to their part."""
        add, out = self.text.add, self.out
        columns = numel(self.shape("out")[1:])
        add(2, f"for j in range({EACH}):")
        add(3, f"place = first_column + tx * {EACH} + j")
        if self.parted:
            total = self.number("total", self.value.spec.numel)
            add(3, f"out_at = part * {total} + place")
            pointer, step = _parts(self, self.parts), "columns"
            stored = f"sums[i * {EACH} + j]"
        else:
            add(3, "column = minimum_i64(place, columns - 1)")
            extents = self.shape("out")[1:]
            self.split("column", self.columns, extents, is_narrow(columns + SQUARE), 3)
            terms = [f"{n} * {out.stride(1 + i)}" for i, n in enumerate(self.columns)]
            add(3, f"out_at = {' + '.join(terms)}")
            pointer, step = out.pointer(), out.stride(0)
            stored = scalar.store(f"sums[i * {EACH} + j]", self.dtype)
        add(3, f"for i in range({EACH}):")
        add(4, f"row = first_row + ty * {EACH} + i")
        add(4, "if (row < rows) and (place < columns):")
        add(5, f"{pointer}[out_at + (group * rows + row) * {step}] = {stored}")


def _parts(printer: WindowPrinter, count: int) -> str:
    """The parameter holding the sums of parts."""
    dtype = float32 if printer.dtype.is_half else printer.dtype
    numbers = largest(count * printer.value.spec.numel, 1)
    scratch = Scratch("parts", dtype, numbers, per_worker=False)
    return printer.text.parameter("parts", f"{printer.kind}*", scratch)


class _Sums(WindowPrinter):
    """The sums of parts, in order."""

    def write(self, name: str, parts: int) -> Launch:
        """The function."""
        self.text.arrays.clear()
        add, shape = self.text.add, self.value.spec.shape
        total = self.number("total", numel(shape))
        add(1, f"for cell in range(block() * {BLOCK} + thread(), {total}, blocks() * {BLOCK}):")
        add(2, f"found = {self.cast}(0)")
        pointer = _parts(self, parts)
        add(2, f"for part in range({self.number('count', parts)}):")
        add(3, f"found = found + {pointer}[part * {total} + cell]")
        names = [f"i{axis}" for axis in range(len(shape))]
        self.split("cell", names, shape, is_narrow(numel(shape)), 2)
        terms = [f"{n} * {self.out.stride(axis)}" for axis, n in enumerate(names)]
        stored = scalar.store("found", self.dtype)
        add(2, f"{self.out.pointer()}[{' + '.join(terms)}] = {stored}")
        doc = f"{self.value.spec}: sums of parts"
        return self.launch(name, doc, blocks_for(numel(shape)))
