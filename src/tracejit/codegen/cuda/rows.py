"""Printing row kernels: the innermost axes reduced, each row of kept axes by a warp or by a block.

A row of up to `WARP_COLUMNS` elements belongs to a warp, a short one to a part of it; what several stages need stays
in arrays of its threads, which are registers. A longer row belongs to a block, whose threads walk over it once per
stage. Stages are the CPU printer's: one loop over the reduced axes for every reduction that waits for an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...ir.graph import Value
from ...ops.table import Reduction
from ...passes.fusion.groups import FINAL, FULL, ROW
from .. import scalar
from ..cpu.cpu import Scope, describe_domain
from ..cpu.rows import finished, update
from ..row_stages import compute_row_level, expensive_in_several, find_stages, find_targets, needed
from .combine import (
    combine_block,
    combine_warp,
    finals_of,
    partial_blocks,
    start,
    write_combine,
    write_end,
)
from .cuda import VECTOR_WORDS, DeviceWriter, Vector, blocks_for, staged, words_of
from .launch import BLOCK, Launch
from .primitives import WARP, WIDTH

#: Longest row of a warp, and registers of 32 bits that a thread may spend on keeping its part of rows.
WARP_COLUMNS, KEPT_WORDS = 1024, 96
_PARTS = (1, 2, 4, 8, 16, 32)
#: Threads that share a row, fewest first.
_LANES = (8, 16, WARP)


def write_rows(writer: DeviceWriter) -> tuple[tuple[Launch, ...], ...]:
    """Rows, and what is reduced over all rows: partial results of blocks and their combination."""
    nest = writer.nest
    rows = writer.extents_product(nest.kept)
    by_warp = writer.extents_product(nest.reduced) <= WARP_COLUMNS
    final = writer.group.ends_in_final
    vector = _vector(writer)
    alignments = (True,) if vector is None else (True, False)
    printers = [RowPrinter(writer, vector, by_warp, aligned) for aligned in alignments]
    each = printers[0].rows_of_block
    blocks = partial_blocks(rows, each, not by_warp) if final else blocks_for(rows, each)
    first = tuple(printer.write(rows, blocks) for printer in printers)
    return (first, *write_combine(writer, blocks)) if final else (first,)


def _vector(writer: DeviceWriter) -> Vector | None:
    """The operands to access four at a time along a row."""
    nest = writer.nest
    if len(nest.reduced) != 1 or nest.axes[-1].extent % WIDTH != 0:
        return None
    reads = writer.unit_stride(writer.memory_reads(), nest.reads)
    outputs = [v for v in writer.outputs if writer.group.level[v] == FULL]
    writes = writer.unit_stride(outputs, nest.writes)
    if len(writes) < len(outputs) or not (reads or writes):
        return None
    words = WIDTH * (words_of(reads) + words_of(writes))
    return Vector(reads, writes) if words <= VECTOR_WORDS else None


class RowPrinter:
    """Prints the function that serves rows."""

    def __init__(
        self, writer: DeviceWriter, vector: Vector | None, by_warp: bool, aligned: bool
    ) -> None:
        self.writer, self.vector, self.by_warp, self.aligned = writer, vector, by_warp, aligned
        self.width = 1 if vector is None else WIDTH
        columns = writer.extents_product(writer.nest.reduced)
        few = (lanes for lanes in _LANES if columns <= lanes * self.width)
        self.lanes = next(few, WARP)
        step = self.lanes * self.width
        self.parts = next(p for p in _PARTS if columns <= p * step) if by_warp else 0
        self.rows_of_block = BLOCK // self.lanes if by_warp else 1
        self.stages = find_stages(writer)
        self.targets = find_targets(writer, self.stages)
        self.loops = [needed(writer, found) for found in self.targets]
        self.kept: dict[Value, str] = {}
        self.kept_types: dict[str, str] = {}
        self.filled: set[Value] = set()
        self.rounds = 0
        if by_warp:
            self._choose_kept()

    @property
    def _shares_warp(self) -> bool:
        """Do several rows share a warp? Its threads stay together then, also where rows run out."""
        return self.by_warp and self.lanes < WARP

    # --- what stays in registers ------------------------------------------------------------------------------------

    def _choose_kept(self) -> None:
        """Dear values and operands that several stages need, as far as registers go."""
        values = expensive_in_several(self.writer, self.loops) if len(self.loops) > 1 else []
        reads = [self._reads(stage) for stage in range(len(self.loops))]
        operands = [v for v in self.writer.memory_reads() if sum(v in found for found in reads) > 1]
        count, words = self.parts * self.width, 0
        kinds = {v: _kept_type(v) for v in values}
        kinds |= {v: scalar.storage_type(v.spec.dtype) for v in operands}
        for value, kind in kinds.items():
            words += count * words_of([value])
            if words <= KEPT_WORDS:
                number = len(self.kept)
                self.kept[value] = f"row{number}"
                self.kept_types[f"row{number}"] = f"local_{kind}({count})"

    def _reads(self, stage: int) -> set[Value]:
        """Operands in memory that a stage reads along the row."""
        writer = self.writer
        used = {x for v in self.loops[stage] for x in v.value_operands}
        used |= {v.value_operands[0] for v in self.targets[stage] if isinstance(v.op, Reduction)}
        found = {writer.origin(x) for x in used}
        return {
            v
            for v in writer.memory_reads()
            if v in found and any(writer.nest.reads[v].strides[a] != 0 for a in writer.nest.reduced)
        }

    # --- the function -----------------------------------------------------------------------------------------------

    def write(self, rows: int, blocks: int) -> Launch:
        """One row after another; then, for reductions over all rows, the block's partial results."""
        writer = self.writer
        finals = finals_of(writer)
        for name, declaration in self.kept_types.items():
            writer.text.array(name, declaration)
        start(writer, finals, 1)
        self._open_rows(writer.number("rows", rows))
        writer.decompose(writer.nest.kept, "row", 2)
        self._row(finals)
        if self.rounds == 1:
            writer.text.add(2, "barrier()", "before the next row's partial results are written")
        if finals:
            write_end(writer, finals, blocks)
        who = f"{self.lanes} threads" if self.by_warp else "a block"
        doc = f"{describe_domain(writer.group)}: reduces the inner axes, {who} per row"
        return writer.launch(blocks, writer.name, doc)

    def _open_rows(self, rows: str) -> None:
        """The loop over the rows of this thread."""
        text = self.writer.text
        if not self.by_warp:
            text.add(1, f"for row in range(block(), {rows}, blocks()):")
            return
        each = self.rows_of_block
        first = f"block() * {each} + (thread() >> 5) * {WARP // self.lanes}"
        text.add(1, f"lane = thread() & {self.lanes - 1}")
        if not self._shares_warp:
            text.add(1, f"for row in range({first}, {rows}, blocks() * {each}):")
            return
        text.add(1, f"for base in range({first}, {rows}, blocks() * {each}):")
        shift = self.lanes.bit_length() - 1
        text.add(2, f"own = base + ((thread() & {WARP - 1}) >> {shift})")
        text.add(2, f"row = minimum_i64(own, {rows} - 1)")

    def _when(self, condition: str) -> str:
        """A condition, for a row that exists."""
        if not self._shares_warp:
            return f"if {condition}:"
        return f"if ({condition}) and (own < rows):"

    def _row(self, finals: Scope) -> None:
        """Everything that happens for one row."""
        writer = self.writer
        row: Scope = {}
        for stage in range(len(self.targets)):
            compute_row_level(writer, row, self.stages, stage, 2)
            self._stage(stage, row, finals)
        compute_row_level(writer, row, self.stages, len(self.targets), 2)
        group = writer.group
        stored = [v for v in group.values if group.level[v] == ROW and v in writer.nest.writes]
        totals = [v for v in finals if self._is_total_of_rows(v)]
        if stored or totals:
            writer.text.add(2, self._when(f"{'lane' if self.by_warp else 'thread()'} == 0"))
        for value in stored:
            writer.write(value, row[value], 3)
        for value in totals:
            text = writer.value(value.value_operands[0], [{}, row], 3)
            update(writer, value, finals[value], text, 3)

    def _is_total_of_rows(self, value: Value) -> bool:
        """Is a reduction over everything one of row values?"""
        group = self.writer.group
        source = self.writer.origin(value.value_operands[0])
        return group.level[value] == FINAL and group.level.get(source, ROW) == ROW

    # --- one stage --------------------------------------------------------------------------------------------------

    def _stage(self, stage: int, row: Scope, finals: Scope) -> None:
        """One pass over the columns, and the combination of what it reduced."""
        writer, targets = self.writer, self.targets[stage]
        if not targets:
            return
        found = [v for v in targets if isinstance(v.op, Reduction)]
        accumulators = {v: self._accumulator() for v in found if v not in finals}
        start(writer, accumulators, 2)
        self._columns(stage, row, {**accumulators, **finals})
        for axis in writer.nest.reduced:
            writer.variables.pop(axis, None)
        if self.by_warp:
            combine_warp(writer, accumulators, 2, self.lanes)
        else:
            combine_block(writer, accumulators, 2)
            self.rounds += bool(accumulators)
        for value, name in accumulators.items():
            row[value] = finished(writer, value, name, 2)

    def _accumulator(self) -> str:
        self.writer.counter += 1
        return f"acc{self.writer.counter - 1}"

    def _columns(self, stage: int, row: Scope, accumulators: Mapping[Value, str]) -> None:
        """The loop over the columns of this thread."""
        writer, width = self.writer, self.width
        reduced = writer.nest.reduced
        count = writer.extents_product(reduced)
        columns = (
            writer.extent(reduced[0]) if len(reduced) == 1 else writer.number("columns", count)
        )
        if self.by_warp:
            scaled = "lane" if width == 1 else f"lane * {width}"
            writer.text.add(2, f"for part in range({self.parts}):")
            writer.text.add(3, f"column = part * {self.lanes * width} + {scaled}")
            writer.text.add(3, self._when(f"column < {columns}"))
            indent = 4
        else:
            first = "thread()" if width == 1 else f"thread() * {width}"
            writer.text.add(2, f"for column in range({first}, {columns}, {BLOCK * width}):")
            indent = 3
        writer.decompose(reduced, "column", indent)
        if self.vector is None:
            self._one_column(stage, row, accumulators, indent)
        else:
            self._four_columns(stage, row, accumulators, indent)

    def _one_column(
        self, stage: int, row: Scope, accumulators: Mapping[Value, str], indent: int
    ) -> None:
        writer = self.writer
        held = self._reads(stage) & set(self.kept)
        for value in self._in_order(held):
            if value not in self.filled:
                name = writer.pointer(value, writer.nest.reads[value], written=False)
                at = writer.address(writer.nest.reads[value], name)
                writer.text.add(indent, f"{self.kept[value]}[part] = {name}[{at}]")
                self.filled.add(value)
        with staged(writer, {v: f"{self.kept[v]}[part]" for v in held}, {}):
            self._element(stage, row, accumulators, "part", indent)

    def _four_columns(
        self, stage: int, row: Scope, accumulators: Mapping[Value, str], indent: int
    ) -> None:
        writer, vector = self.writer, self.vector
        assert vector is not None
        used = self._reads(stage)
        reads: dict[Value, str] = {}
        for value in self._in_order(used):
            if value in self.kept:
                self._fill_four(value, vector, indent)
                reads[value] = f"{self.kept[value]}[part * {WIDTH} + k]"
            elif value in vector.reads:
                array = writer.local(f"{writer.names[value]}_four", value.spec.dtype, WIDTH)
                writer.copy_in(value, array, "0", indent, self.aligned)
                reads[value] = f"{array}[k]"
        new = {
            v: writer.local(f"out_{writer.names[v]}_four", v.spec.dtype, WIDTH)
            for v in vector.writes
            if v in set(self.targets[stage])
        }
        inner = writer.nest.reduced[0]
        writer.text.add(indent, f"for k in range({WIDTH}):")
        writer.text.add(indent + 1, f"i{inner} = column + k")
        writer.variables[inner] = f"i{inner}"
        with staged(writer, reads, {v: f"{array}[k]" for v, array in new.items()}):
            self._element(stage, row, accumulators, f"part * {WIDTH} + k", indent + 1)
        writer.variables[inner] = "column"
        for value, array in new.items():
            writer.copy_out(value, array, indent, self.aligned)

    def _fill_four(self, value: Value, vector: Vector, indent: int) -> None:
        """Take four elements of an operand into the registers that keep its row."""
        if value in self.filled:
            return
        self.filled.add(value)
        writer, array = self.writer, self.kept[value]
        if value in vector.reads:
            writer.copy_in(value, array, f"part * {WIDTH}", indent, self.aligned)
            return
        name = writer.pointer(value, writer.nest.reads[value], written=False)
        inner = writer.nest.reduced[0]
        writer.text.add(indent, f"for k in range({WIDTH}):")
        writer.text.add(indent + 1, f"i{inner} = column + k")
        writer.variables[inner] = f"i{inner}"
        at = writer.address(writer.nest.reads[value], name)
        writer.text.add(indent + 1, f"{array}[part * {WIDTH} + k] = {name}[{at}]")
        writer.variables[inner] = "column"

    def _in_order(self, values: Iterable[Value]) -> Sequence[Value]:
        chosen = set(values)
        return [v for v in self.writer.nest.reads if v in chosen]

    def _element(
        self, stage: int, row: Scope, accumulators: Mapping[Value, str], slot: str, indent: int
    ) -> None:
        """The work of one element: dear values kept or taken back, reductions, outputs."""
        writer = self.writer
        scope: Scope = {}
        dear = [v for v in self.kept if v in self.loops[stage]]
        for value in dear:
            cell = f"{self.kept[value]}[{slot}]"
            if value in self.filled:
                loaded = scalar.load(cell, value.spec.dtype) if _is_bool(value) else cell
                scope[value] = writer.fresh()
                writer.text.add(indent, f"{scope[value]} = {loaded}")
        for value in dear:
            if value not in self.filled:
                text = writer.value(value, [scope, row], indent)
                stored = scalar.store(text, value.spec.dtype) if _is_bool(value) else text
                writer.text.add(indent, f"{self.kept[value]}[{slot}] = {stored}")
                self.filled.add(value)
        for value in self.targets[stage]:
            if isinstance(value.op, Reduction):
                text = writer.value(value.value_operands[0], [scope, row], indent)
                update(writer, value, accumulators[value], text, indent)
            else:
                writer.write(value, writer.value(value, [scope, row], indent), indent)


def _is_bool(value: Value) -> bool:
    return value.spec.dtype.short == "bool"


def _kept_type(value: Value) -> str:
    """The element type of an array of computed values: half precision is kept as computed."""
    return "u8" if _is_bool(value) else scalar.compute_type(value.spec.dtype)
