"""Printing a loop nest as a device kernel in the kernel language: what all shapes of kernel share.

The values, their expressions and the names of everything are the CPU printer's (`cpu.Writer`). What differs is
where an element comes from (an array of the thread that one vector access filled), how a running index is split
into the axes (by multiplication), and that a refused input sets the status word instead of ending the program.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ...dtypes import DType, int64
from ...extents import is_symbolic
from ...ir.graph import Value
from ...passes.fusion.groups import Group, looks_up
from ...sizes import call, smallest
from .. import scalar
from ..cpu.cpu import Scope, Writer, describe
from ..kernel import Number
from ..nest import Access, Layout, index_source
from .functions import divisor
from .launch import BLOCK, Aligned, DeviceText, Launch, Status
from .primitives import WIDTH, vector_alignment

#: Blocks of one launch: enough to fill any device several times over; threads walk on from there.
MOST_BLOCKS = 8192
#: Indices below this are divided by 32-bit multiplication.
NARROW = 1 << 31
#: 32-bit registers that vector accesses of one kernel may fill.
VECTOR_WORDS = 64


@dataclass(frozen=True)
class Vector:
    """Operands that are accessed four elements at a time along the innermost axis, in order."""

    reads: Mapping[Value, None]
    writes: Mapping[Value, None]


class DeviceWriter(Writer):
    """Prints one group for a device."""

    text: DeviceText

    def __init__(
        self,
        group: Group,
        outputs: Sequence[Value],
        layout_of: Callable[[Value], Layout],
        name: str,
        overwrites: Mapping[Value, Value],
    ) -> None:
        super().__init__(group, outputs, layout_of, name, overwrites)
        self.text = DeviceText()
        self.staged: dict[Value, str] = {}
        self.staged_writes: dict[Value, str] = {}
        self.aligned: dict[str, int] = {}
        self.narrow = bool(self.extents_product(range(len(self.nest.axes))) < NARROW)

    # --- numbers ------------------------------------------------------------------------------------------------

    def literal(self, value: bool | int | float, dtype: DType) -> str:
        """A Python number as a runtime scalar: float32 arrives as float32, so that no kernel computes in float64."""
        if scalar.compute_type(dtype) != "f32":
            return super().literal(value, dtype)
        key = (type(value).__name__, id(value) if is_symbolic(value) else float(value).hex(), "f32")
        if key not in self.literals:
            name = f"c{len(self.literals)}"
            (bits,) = call(_f32_bits, value)
            self.literals[key] = self.text.parameter(name, "f32", Number(bits))
        return scalar.rounded(self.literals[key], dtype)

    def quotient(self, index: str, axis: int) -> str:
        """``index`` divided by an axis's extent."""
        if not self.narrow:
            return f"{index} // {self.extent(axis)}"
        numbers = call(_divisor, self.nest.axes[axis].extent)
        names = [
            self.text.parameter(f"n{axis}_{part}", "u32", Number(number))
            for part, number in zip(("multiplier", "shift"), numbers, strict=True)
        ]
        return f"int64(quotient_u32(uint32({index}), {', '.join(names)}))"

    def decompose(self, axes: Sequence[int], index: str, indent: int) -> None:
        """Loop variables of several axes from one running index."""
        rest = index
        for position in range(len(axes) - 1, 0, -1):
            axis = axes[position]
            following = f"{index}_{position}"
            self.text.add(indent, f"{following} = {self.quotient(rest, axis)}")
            self.text.add(indent, f"i{axis} = {rest} - {following} * {self.extent(axis)}")
            self.variables[axis] = f"i{axis}"
            rest = following
        if axes:
            self.variables[axes[0]] = rest

    # --- elements -----------------------------------------------------------------------------------------------

    def read(self, value: Value) -> str:
        """The element of an outside operand at the current point."""
        if value in self.staged:
            return scalar.load(self.staged[value], value.spec.dtype)
        return super().read(value)

    def write(self, value: Value, text: str, indent: int) -> None:
        """Store an output at the current point."""
        if value not in self.staged_writes:
            super().write(value, text, indent)
            return
        stored = scalar.store(text, value.spec.dtype)
        self.text.add(indent, f"{self.staged_writes[value]} = {stored}")

    def look_up(self, value: Value, scopes: Sequence[Scope], indent: int) -> None:
        """An element at a position that is read; one out of range sets the status word."""
        position, result = self.position(value, scopes, indent), self.fresh()
        size = self.table_size(value)
        zero = f"{scalar.cast_name(value.spec.dtype)}(0)"
        self.text.add(indent, f"{result} = {zero}", describe(value))
        self.text.add(indent, f"if ({position} >= int64(0)) and ({position} < {size}):")
        found = position if len(value.value_operands) == 1 else self.table_element(value, position)
        self.text.add(indent + 1, f"{result} = {found}")
        self.refuse(indent)
        scopes[0][value] = result

    def refuse(self, indent: int) -> None:
        """Else: set the status word."""
        self.text.add(indent, "else:")
        status = self.text.parameter("status", "i32*", Status())  # type: ignore[arg-type]
        self.text.add(indent + 1, f"{status}[0] = int32(1)")

    def pick(self, value: Value, scopes: Sequence[Scope], indent: int) -> None:
        """Evaluate a row's expression at one computed position; one outside the row sets the status word."""
        row, index = value.value_operands
        (axis,) = self.nest.reduced
        position, result = self.fresh(), self.fresh()
        number = scalar.convert(self.value(index, scopes, indent), index.spec.dtype, int64)
        self.text.add(indent, f"{position} = {number}")
        self.text.add(
            indent, f"{result} = {scalar.cast_name(value.spec.dtype)}(0)", describe(value)
        )
        extent = self.extent(axis)
        self.text.add(indent, f"if ({position} >= int64(0)) and ({position} < {extent}):")
        staged, self.staged = self.staged, {}
        self.variables[axis] = position
        there = self.value(row, [{}, *scopes], indent + 1)
        del self.variables[axis]
        self.staged = staged
        self.text.add(indent + 1, f"{result} = {there}")
        self.refuse(indent)
        scopes[0][value] = result

    # --- vector accesses ------------------------------------------------------------------------------------------

    def unit_stride(
        self, values: Iterable[Value], accesses: Mapping[Value, Access]
    ) -> dict[Value, None]:
        """Those of ``values`` that lie densely along the innermost axis, in rows that start at multiples of four."""
        inner = len(self.nest.axes) - 1
        return {
            v: None
            for v in values
            if accesses[v].layout is not None
            and index_source(v) is None
            and accesses[v].strides[inner] == 1
            and all(s % WIDTH == 0 for s in accesses[v].strides[:inner])
        }

    def memory_reads(self) -> list[Value]:
        """Outside operands that are read from memory at the point where the kernel is."""
        tables = self.looked_up()
        return [
            v
            for v, a in self.nest.reads.items()
            if a.layout is not None and index_source(v) is None and v not in tables
        ]

    def looked_up(self) -> set[Value]:
        """Operands of which elements are read at computed positions only."""
        return {
            v.value_operands[0]
            for v in self.group.values
            if looks_up(v) and len(v.value_operands) > 1 and self.looks_up_outside(v)
        }

    def access_alignment(self, value: Value, name: str) -> None:
        """Note what the address of a vector access must be a multiple of."""
        self.aligned[name] = vector_alignment(value.spec.dtype.itemsize)

    def copy_in(self, value: Value, array: str, position: str, indent: int, aligned: bool) -> None:
        """Four elements from memory, the first at the current point, into ``array``."""
        access = self.nest.reads[value]
        name = self.pointer(value, access, written=False)
        at = self.address(access, name)
        if aligned:
            self.access_alignment(value, name)
            self.text.add(indent, f"load4({name}, {at}, {array}, {position})")
            return
        self.text.add(indent, f"for k in range({WIDTH}):")
        self.text.add(indent + 1, f"{array}[{plus(position, 'k')}] = {name}[{plus(at, 'k')}]")

    def copy_out(self, value: Value, array: str, indent: int, aligned: bool) -> None:
        """Four elements from ``array`` to memory, the first at the current point."""
        access = self.nest.writes[value]
        name = self.pointer(value, access, written=True)
        at = self.address(access, name)
        if aligned:
            self.access_alignment(value, name)
            self.text.add(indent, f"store4({name}, {at}, {array}, 0)")
            return
        self.text.add(indent, f"for k in range({WIDTH}):")
        self.text.add(indent + 1, f"{name}[{plus(at, 'k')}] = {array}[k]")

    def local(self, name: str, dtype: DType, count: int) -> str:
        """An array of the thread for elements as they lie in memory."""
        return self.text.array(name, f"local_{scalar.storage_type(dtype)}({count})")

    # --- the end ------------------------------------------------------------------------------------------------

    def launch(self, grid: int, name: str, doc: str) -> Launch:
        """Close the function being written and make room for the next."""
        names = list(self.text.parameters)
        aligned = tuple(Aligned(names.index(n), multiple) for n, multiple in self.aligned.items())
        result = Launch(
            name, self.text.source(name, doc), tuple(self.text.parameters.values()), grid, aligned
        )
        self.text, self.literals, self.variables = DeviceText(), {}, {}
        self.aligned, self.staged, self.staged_writes, self.counter = {}, {}, {}, 0
        return result


@contextmanager
def staged(
    writer: DeviceWriter, reads: Mapping[Value, str], writes: Mapping[Value, str]
) -> Iterator[None]:
    """Within the block, elements of these operands and outputs are those of arrays of the thread."""
    before = writer.staged, writer.staged_writes
    writer.staged, writer.staged_writes = {**before[0], **reads}, {**before[1], **writes}
    try:
        yield
    finally:
        writer.staged, writer.staged_writes = before


def plus(first: str, second: str) -> str:
    """The sum of two index expressions."""
    return second if first == "0" else first if second == "0" else f"{first} + {second}"


def words_of(values: Iterable[Value]) -> int:
    """Registers of 32 bits that one element of each value takes."""
    return sum(max(v.spec.dtype.itemsize // 4, 1) for v in values)


def blocks_for(items: int, per_block: int = BLOCK) -> int:
    """Blocks of a launch in which each serves ``per_block`` items before threads walk on."""
    blocks: int = smallest(-(-items // per_block), MOST_BLOCKS)
    return blocks


def _divisor(extent: int) -> tuple[int, ...]:
    return divisor(max(extent, 1))


def _f32_bits(number: int | float) -> tuple[int]:
    try:
        return struct.unpack("<I", struct.pack("<f", float(number)))
    except OverflowError:
        return (0x7F800000 if number > 0 else 0xFF800000,)
