"""Printing column reductions: the innermost axis kept, others reduced.

A block owns `WARP` neighbouring columns; each of its warps takes every eighth row, so that a warp reads consecutive
elements, and the warps' results meet in shared memory. Where that leaves too few blocks for a device, the rows are
cut into splits: a first pass leaves a partial result for every column and split, a second one combines them in
order.
"""

from __future__ import annotations

from ...ir.graph import Value
from ...ops.table import Reduction
from ...passes.fusion.groups import FULL, ROW
from ...sizes import largest, smallest
from .. import scalar
from ..cpu.cpu import Scope, describe_domain
from ..cpu.rows import finished, update
from .combine import TOGETHER, partial, start, write_level
from .cuda import DeviceWriter, blocks_for
from .launch import BLOCK, WARPS, Launch
from .primitives import WARP

#: Blocks a device should have to do (the largest run about as many at a time), and rows below which a split is not
#: worth a second pass.
ENOUGH_BLOCKS, SPLIT_ROWS = 1024, 64
#: Blocks that are enough where all of them together read so few rows: queueing a second pass would take longer.
SOME_BLOCKS, FEW_ROWS = 256, 1 << 18


def write_columns(writer: DeviceWriter) -> tuple[tuple[Launch, ...], ...]:
    """One pass over blocks of columns, or two with splits of the rows."""
    nest = writer.nest
    inner = len(nest.axes) - 1
    tiles = -(-nest.axes[inner].extent // WARP) * writer.extents_product(nest.kept[:-1])
    rows = writer.extents_product(nest.reduced)
    few = tiles >= SOME_BLOCKS and tiles * rows <= FEW_ROWS
    if few or tiles >= ENOUGH_BLOCKS or rows < 2 * SPLIT_ROWS:
        return ((_ColumnPrinter(writer, tiles, 1, rows).write(),),)
    splits = smallest(-(-ENOUGH_BLOCKS // largest(tiles, 1)), -(-rows // SPLIT_ROWS))
    first = _ColumnPrinter(writer, tiles, splits, rows, split=True).write()
    return (first,), (_write_second(writer, splits),)


class _ColumnPrinter:
    """Prints the function that serves blocks of columns."""

    def __init__(
        self, writer: DeviceWriter, tiles: int, splits: int, rows: int, split: bool = False
    ) -> None:
        self.writer, self.tiles, self.splits, self.rows, self.split = (
            writer,
            tiles,
            splits,
            rows,
            split,
        )
        self.inner = len(writer.nest.axes) - 1
        self.reductions = [v for v in writer.group.values if isinstance(v.op, Reduction)]

    def write(self) -> Launch:
        """The function."""
        writer = self.writer
        writer.text.together = TOGETHER
        work = self.tiles * self.splits
        writer.text.add(1, f"lane = thread() & {WARP - 1}")
        writer.text.add(1, f"for tile in range(block(), {writer.number('work', work)}, blocks()):")
        self._place()
        accumulators = {v: f"acc{i}" for i, v in enumerate(self.reductions)}
        start(writer, accumulators, 2)
        self._rows(accumulators)
        self._meet(accumulators)
        doc = f"{describe_domain(writer.group)}: reduces outer axes, a block per {WARP} columns"
        return writer.launch(blocks_for(work, 1), writer.name, doc)

    def _place(self) -> None:
        """Which columns, which outer position and which rows are this block's."""
        writer = self.writer
        outer = writer.nest.kept[:-1]
        width = writer.nest.axes[self.inner].extent
        across = writer.number("across", -(-width // WARP))
        position = "tile"
        if self.split:
            tiles = writer.number("tiles", self.tiles)
            writer.text.add(2, f"split = tile // {tiles}")
            writer.text.add(2, f"position = tile - split * {tiles}")
            position = "position"
        if outer:
            writer.text.add(2, f"outer = {position} // {across}")
            writer.text.add(2, f"column = ({position} - outer * {across}) * {WARP} + lane")
            writer.decompose(outer, "outer", 2)
        else:
            writer.text.add(2, f"column = {position} * {WARP} + lane")
        writer.variables[self.inner] = "column"

    def _rows(self, accumulators: Scope) -> None:
        """Every eighth row of this warp's columns."""
        writer = self.writer
        rows = writer.number("rows", self.rows)
        first, stop = "thread() >> 5", rows
        if self.split:
            size = writer.number("split_rows", -(-self.rows // self.splits))
            writer.text.add(2, f"start = split * {size}")
            writer.text.add(2, f"stop = minimum_i64(start + {size}, {rows})")
            first, stop = "start + (thread() >> 5)", "stop"
        writer.text.add(2, f"if column < {writer.extent(self.inner)}:")
        writer.text.add(3, f"for row in range({first}, {stop}, {WARPS}):")
        reduced = writer.nest.reduced
        writer.decompose(reduced, "row", 4)
        scope: Scope = {}
        for value in writer.group.values:
            if writer.group.level[value] == FULL and value in writer.nest.writes:
                writer.write(value, writer.value(value, [scope], 4), 4)
        for value, name in accumulators.items():
            update(writer, value, name, writer.value(value.value_operands[0], [scope], 4), 4)
        for axis in reduced:
            writer.variables.pop(axis)

    def _meet(self, accumulators: Scope) -> None:
        """The warps' results in shared memory; the first warp combines them and goes on."""
        writer = self.writer
        cells: dict[Value, str] = {}
        for value, name in accumulators.items():
            dtype = scalar.combine_of(value).dtype
            declaration = f"shared_{scalar.storage_type(dtype)}({BLOCK})"
            cells[value] = writer.text.array(f"{name}_warps", declaration)
            writer.text.add(2, f"{cells[value]}[thread()] = {scalar.store(name, dtype)}")
        writer.text.add(2, "barrier()")
        inside = f"(thread() < {WARP}) and (column < {writer.extent(self.inner)})"
        writer.text.add(2, f"if {inside}:")
        writer.text.add(3, f"for other in range(1, {WARPS}):")
        for value, name in accumulators.items():
            combine = scalar.combine_of(value)
            cell = scalar.load(f"{cells[value]}[other * {WARP} + lane]", combine.dtype)
            writer.text.add(4, combine.merge.format(acc=name, x=cell))
        self._results(accumulators)
        writer.text.add(2, "barrier()", "before the next columns' partial results are written")

    def _results(self, accumulators: Scope) -> None:
        writer = self.writer
        if not self.split:
            scope: Scope = {v: finished(writer, v, n, 3) for v, n in accumulators.items()}
            write_level(writer, ROW, [scope], 3)
            return
        columns = writer.extents_product(writer.nest.kept)
        width = writer.extent(self.inner)
        outer = f"outer * {width} + " if writer.nest.kept[:-1] else ""
        place = f"split * {writer.number('cells', columns)} + {outer}column"
        for number, (value, name) in enumerate(accumulators.items()):
            stored = scalar.store(name, scalar.combine_of(value).dtype)
            cell = f"{partial(writer, number, value, self.splits * columns)}[{place}]"
            writer.text.add(3, f"{cell} = {stored}")


def _write_second(writer: DeviceWriter, splits: int) -> Launch:
    """Combine the splits of every column, and compute what follows."""
    kept = writer.nest.kept
    columns = writer.extents_product(kept)
    count = writer.number("cells", columns)
    reductions = [v for v in writer.group.values if isinstance(v.op, Reduction)]
    accumulators = {v: f"acc{i}" for i, v in enumerate(reductions)}
    writer.text.add(
        1, f"for cell in range(block() * {BLOCK} + thread(), {count}, blocks() * {BLOCK}):"
    )
    writer.decompose(kept, "cell", 2)
    start(writer, accumulators, 2)
    writer.text.add(2, f"for split in range({writer.number('splits', splits)}):")
    for number, (value, name) in enumerate(accumulators.items()):
        combine = scalar.combine_of(value)
        cell = f"{partial(writer, number, value, splits * columns)}[split * {count} + cell]"
        writer.text.add(3, combine.merge.format(acc=name, x=scalar.load(cell, combine.dtype)))
    scope: Scope = {v: finished(writer, v, name, 2) for v, name in accumulators.items()}
    write_level(writer, ROW, [scope], 2)
    return writer.launch(blocks_for(columns), f"{writer.name}_combine", "combines the splits")
