"""Printing column reductions: the innermost axis is kept, axes outside of it are reduced.

Rows are cut into blocks, each of which leaves a partial result per column; a second function adds the blocks up in
order and does what follows from the result. So threads share the rows of a tall matrix, memory is read along its rows,
and the result does not depend on the number of threads. Rows too narrow to fill vectors are read several at a time, as
one wide row with partial results of its own for each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ... import config, dtypes
from ...extents import hint
from ...ir.graph import Value
from ...ops.table import Reduction
from ...passes.fusion.groups import FULL, ROW, is_random
from ...sizes import is_zero, largest, smallest
from .. import scalar
from ..identity import features
from ..kernel import Function, Scratch
from ..nest import is_one
from .cpu import Scope, Writer, describe, describe_domain
from .rows import finished, fold_into, fold_point, start, step_in_order
from .short_rows import short_ends

#: Columns per tile: partial results of a tile stay in the first-level cache.
TILE = 1024
#: Elements per block of rows, at least: enough to be worth a hand-over, few enough to share evenly.
BLOCK_ELEMENTS = 1 << 14
#: Blocks are as long as leaves so many to share, up to so many rows: each writes partial results that are read again.
MANY_TILES, LONGEST = 64, 256
#: Columns that several narrow rows are to fill, and that registers hold the results of.
WIDE = 128
#: Registers are made ready for a multiple of so many columns, so that kernels differ little.
REGISTER_STEP = 32
#: A wide row that is folded in memory has as many elements as a tile, half as many where so many of them are all there
#: are: what lies in the caches is read as well in shorter ones, which leave the first level more room.
CACHED_ROWS = 1024
#: So often at least wide rows come, for the partial results of all their lanes are added up in the end.
LEAST_TIMES = 4
#: Rows that are folded into the partial results at a time, where few values are computed.
ROWS, SHORT = 4, 6
#: What vector code of columns reads and folds.
_WHOLE = frozenset((dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64))


class Columns:
    """The extents of a column reduction, and where its partial results are kept."""

    def __init__(self, writer: Writer) -> None:
        nest = writer.nest
        self.writer = writer
        self.inner = len(nest.axes) - 1
        self.outer = nest.kept[:-1]
        self.columns = nest.axes[self.inner].extent
        self.tiles = -(-self.columns // TILE)
        self.rows = nest.axes[nest.reduced[0]].extent
        around = writer.extents_product(nest.reduced[1:])
        work = largest(1, around * smallest(self.columns, TILE))
        self.outer_count = writer.extents_product(self.outer)
        needed = -(-MANY_TILES // largest(1, self.tiles * self.outer_count))
        long = smallest(LONGEST, -(-self.rows // needed))
        self.block_rows = largest(largest(1, BLOCK_ELEMENTS // largest(1, work)), long)
        self.blocks = largest(1, -(-self.rows // self.block_rows))
        full = sum(level == FULL for level in writer.group.level.values())
        self.short = len(nest.reduced) == 1 and full <= SHORT
        self.folds = self._goes_on()
        self.reductions = [v for v in writer.group.values if isinstance(v.op, Reduction)]
        self.in_registers = self._fits_in_registers()
        #: How many rows fill the registers.
        self.abreast = largest(1, WIDE // largest(1, self.columns)) if self.folds else 1
        self.lanes = self._lanes() if self.folds else 1

    def _lanes(self) -> int:
        """How many narrow rows go as one wide one: few fill registers; main memory is best read in long streams."""
        rows = smallest(self.rows, self.block_rows)
        if self.in_registers:
            few: int = largest(1, smallest(self.abreast, rows))
            return few
        long = self.outer_count * self.rows * self.columns // CACHED_ROWS
        wide = largest(TILE // 2, smallest(TILE, long))
        most = largest(1, wide // largest(1, self.columns))
        several = rows // ROWS
        times = largest(LEAST_TIMES, -(-several // most))
        lanes: int = largest(1, smallest(most, several // times))
        return lanes

    def _goes_on(self) -> bool:
        """Does every row begin where the one before it ends, in all that is walked?"""
        group, nest = self.writer.group, self.writer.nest
        if len(nest.reduced) != 1 or group.tables or any(map(is_random, group.values)):
            return False
        walked = [a.strides for v, a in nest.writes.items() if group.level[v] == FULL]
        walked += [a.strides for a in nest.reads.values()]
        ends = ((strides[nest.reduced[0]], strides[self.inner]) for strides in walked)
        return all(
            (is_zero(row) and is_zero(step)) or (is_one(step) and bool(row == self.columns))
            for row, step in ends
        )

    def _fits_in_registers(self) -> bool:
        """Are columns few by now, and little is done with them? More of them are folded in memory by the same text.

        Vectors of 256 bits have 16 registers and no masks beside them: rows would be read in strips, with gaps.
        """
        group, nest = self.writer.group, self.writer.nest
        if "avx512bw" not in features() or hint(self.columns) > WIDE or not self.short:
            return False
        if group.tables or any(map(is_random, group.values)):
            return False
        full = [v for v in group.values if group.level[v] == FULL]
        accesses = [*nest.reads.items(), *((v, nest.writes[v]) for v in full if v in nest.writes)]
        beside = all(
            is_one(a.strides[self.inner]) or is_zero(a.strides[self.inner]) for _, a in accesses
        )
        kinds = {v.spec.dtype for v in (*full, *nest.reads)}
        kinds |= {scalar.combine_of(v).dtype for v in self.reductions}
        return beside and kinds <= _WHOLE and not any(map(scalar.is_expensive, full))

    def ends(self) -> list[dict[int, str]] | None:
        """The places of columns that are so few that they are printed apart; None where they are not."""
        axes = self.writer.nest.axes
        return None if self.folds or len(axes) != 2 else short_ends(self.writer, (0, 1))

    @property
    def grain(self) -> int:
        """A block is worth a thread when it has enough elements."""
        around = self.writer.extents_product(self.writer.nest.reduced[1:])
        work = smallest(self.rows, self.block_rows) * around * smallest(self.columns, TILE)
        found: int = largest(1, config.grain_elements // largest(1, work))
        return found

    def cells(self, index: str) -> dict[Value, str]:
        """The partial result of each reduction at ``index``."""
        writer = self.writer
        count = self.outer_count * self.blocks * self.lanes * self.columns
        found = {}
        for number, value in enumerate(self.reductions):
            dtype = scalar.combine_of(value).dtype
            key = f"partial{number}"
            scratch = Scratch(key, dtype, largest(count, 1), per_worker=False)
            name = writer.text.parameter(key, scalar.storage_type(dtype) + "*", scratch)
            found[value] = f"{name}[{index}]"
        return found

    def open_tile(self, rest: str, indent: int) -> None:
        """From the running number: the tile of columns, and the number of what is left."""
        text, writer = self.writer.text, self.writer
        tiles = writer.number("tiles", self.tiles)
        text.add(indent, f"start = (task % {tiles}) * {TILE}")
        text.add(indent, f"stop = minimum_i64(start + {TILE}, {writer.extent(self.inner)})")
        text.add(indent, f"{rest} = task // {tiles}")


def write_columns(writer: Writer) -> tuple[Function, Function]:
    """Partial results per block of rows, then their sum and what follows."""
    columns = Columns(writer)
    ends = columns.ends()
    if ends is None:
        return _write_partials(writer, columns), _write_sums(writer, columns)
    return _write_few(writer, columns, ends), _write_sums(writer, columns)


def _write_few(writer: Writer, columns: Columns, ends: Sequence[dict[int, str]]) -> Function:
    """Partial results of few columns, which are printed apart: lanes are rows."""
    text, axis, inner = writer.text, writer.nest.reduced[0], columns.inner
    size = writer.number("block_rows", columns.block_rows)
    text.add(1, "for task in range(lo, hi):")
    text.add(2, f"first = task * {size}")
    text.add(2, f"last = minimum_i64(first + {size}, {writer.extent(axis)})")
    so_far: list[Scope] = []
    for place in ends:
        names = {v: f"acc{number}_{place[inner]}" for number, v in enumerate(columns.reductions)}
        so_far.append(names)
        for value, name in names.items():
            text.add(2, f"{name} = {scalar.combine_of(value).identity}", describe(value))
    text.add(2, f"for i{axis} in range(first, last):")
    writer.variables[axis] = f"i{axis}"
    for place, names in zip(ends, so_far, strict=True):
        writer.variables.update(place)
        fold_point(writer, names, 3)
    for place, names in zip(ends, so_far, strict=True):
        for value, cell in columns.cells(f"task * {len(ends)} + {place[inner]}").items():
            text.add(2, f"{cell} = {scalar.store(names[value], scalar.combine_of(value).dtype)}")
    doc = f"{describe_domain(writer.group)}: reduces outer axes by blocks"
    return writer.finish(columns.blocks, columns.grain, writer.name, doc)


def _write_partials(writer: Writer, columns: Columns) -> Function:
    text, nest, inner = writer.text, writer.nest, columns.inner
    first_axis = nest.reduced[0]
    text.add(1, "for task in range(lo, hi):")
    columns.open_tile("part", 2)
    blocks = writer.number("blocks", columns.blocks)
    size = writer.number("block_rows", columns.block_rows)
    text.add(2, f"first = (part % {blocks}) * {size}")
    text.add(2, f"last = minimum_i64(first + {size}, {writer.extent(first_axis)})")
    if columns.outer:
        text.add(2, f"row = part // {blocks}")
        writer.decompose(columns.outer, "row", 2)
    lanes, wide = "1", "stop"
    text.add(2, f"base = part * {writer.extent(inner)}")
    if columns.folds:
        lanes, wide = writer.number("lanes", columns.lanes), "wide"
        text.add(2, f"base = base * {lanes}")
        text.add(2, f"wide = start + (stop - start) * {lanes}")
    rest = (_fold_in_registers if columns.in_registers else _fold_in_memory)(
        writer, columns, wide, lanes
    )
    text.add(2, f"for i{first_axis} in range({rest}, last):")
    indent = writer.open_loops(nest.reduced[1:], 3)
    text.add(indent, f"for i{inner} in range(start, stop):")
    _points_of_rows(writer, columns, [f"i{first_axis}"], indent + 1)
    if columns.folds:
        _add_up_lanes(writer, columns, lanes)
    extent = columns.outer_count * columns.blocks * columns.tiles
    doc = f"{describe_domain(writer.group)}: reduces outer axes by blocks"
    return writer.finish(extent, columns.grain, writer.name, doc)


def _fold_in_registers(writer: Writer, columns: Columns, wide: str, lanes: str) -> str:
    """Rows with results in registers, if those are enough; the first row that is left."""
    text, inner, axis = writer.text, columns.inner, writer.nest.reduced[0]
    text.add(2, f"narrow = last - (last - first) % {lanes}" if columns.folds else "narrow = last")
    text.add(2, f"narrow = select({wide} - start > {WIDE}, first, narrow)")
    # However few rows there are: kernels of other sizes are the same.
    expected = max(hint(columns.columns) * hint(columns.abreast), 1)
    expected = -(-expected // REGISTER_STEP) * REGISTER_STEP
    text.add(2, f"for i{inner} in columns(start, {wide}, {expected}):")
    accumulators = {value: start(writer, value, 3) for value in columns.reductions}
    text.add(3, f"for i{axis} in range(first, narrow, {lanes}):")
    writer.variables |= {inner: f"i{inner}", axis: f"i{axis}"}
    fold_point(writer, accumulators, 4)
    del writer.variables[axis], writer.variables[inner]
    for value, cell in columns.cells(f"base + i{inner}").items():
        text.add(3, f"{cell} = {accumulators[value]}")
    return "narrow"


def _fold_in_memory(writer: Writer, columns: Columns, wide: str, lanes: str) -> str:
    """Several rows at a time with results in memory, narrow ones as a wide one; the first that is left."""
    text, inner, axis = writer.text, columns.inner, writer.nest.reduced[0]
    text.add(2, f"for i{inner} in range(start, {wide}):")
    for value, cell in columns.cells(f"base + i{inner}").items():
        combine = scalar.combine_of(value)
        identity = scalar.store(combine.identity, combine.dtype)
        text.add(3, f"{cell} = {identity}", describe(value))
    if not columns.short and not columns.folds:
        return "first"
    # What is added up in which order does not depend on how much is done at a time.
    all_rows = str(ROWS) if lanes == "1" else f"({ROWS} * {lanes})"
    text.add(2, f"several = last - (last - first) % {all_rows}")
    text.add(2, f"for i{axis} in range(first, several, {all_rows if columns.short else lanes}):")
    rows = [f"i{axis}"] + [f"i{axis}_{n}" for n in range(1, ROWS if columns.short else 1)]
    for before, row in pairwise(rows):
        text.add(3, f"{row} = {before} + {lanes}")
    text.add(3, f"for i{inner} in range(start, {wide}):")
    _points_of_rows(writer, columns, rows, 4)
    return "several"


def _points_of_rows(writer: Writer, columns: Columns, rows: Sequence[str], indent: int) -> None:
    """The element work of some rows of a tile, in order: cells are read and written once for all of them."""
    axis, inner = writer.nest.reduced[0], columns.inner
    cells = columns.cells(f"base + i{inner}")
    writer.variables[inner] = f"i{inner}"
    group, text = writer.group, writer.text
    running: dict[Value, tuple[str, scalar.Combine]] = {}
    for number, row in enumerate(rows):
        writer.variables[axis] = row
        scope: Scope = {}
        for value in group.values:
            if group.level[value] == FULL and value in writer.nest.writes:
                writer.write(value, writer.value(value, [scope], indent), indent)
        for value, cell in cells.items():
            element = writer.value(value.value_operands[0], [scope], indent)
            combine = scalar.combine_of(value)
            element = scalar.convert(element, value.value_operands[0].spec.dtype, combine.dtype)
            if not number:
                name = f"acc{writer.counter}_now"
                writer.counter += 1
                text.add(indent, f"{name} = {scalar.load(cell, combine.dtype)}")
                running[value] = name, combine
            step_in_order(writer, running[value][0], combine.update, element, indent)
    for value, (name, combine) in running.items():
        text.add(indent, f"{cells[value]} = {scalar.store(name, combine.dtype)}")
    del writer.variables[axis], writer.variables[inner]


def _add_up_lanes(writer: Writer, columns: Columns, lanes: str) -> None:
    """Add the partial results of all rows of a wide one, the later half to the earlier one at a time."""
    text, extent = writer.text, writer.extent(columns.inner)
    text.add(2, f"left = {lanes}")
    text.add(2, "while left > 1:")
    text.add(3, "kept = (left + 1) // 2")
    text.add(3, f"later = base + kept * {extent}")
    text.add(3, f"end = start + (left - kept) * {extent}")
    _add_up(writer, columns, "later", 3, "end")
    text.add(3, "left = kept")


def _add_up(writer: Writer, columns: Columns, later: str, indent: int, stop: str = "stop") -> None:
    """Add the partial results that begin at ``later`` to those at ``base``."""
    text, inner = writer.text, columns.inner
    text.add(indent, f"for i{inner} in range(start, {stop}):")
    cells = columns.cells(f"base + i{inner}")
    for value, other in columns.cells(f"{later} + i{inner}").items():
        combine = scalar.combine_of(value)
        part = scalar.load(other, combine.dtype)
        fold_into(writer, cells[value], combine.dtype, combine.merge, part, indent + 1)


def _write_sums(writer: Writer, columns: Columns) -> Function:
    """Add later blocks to the first, then the results of the columns."""
    text, inner = writer.text, columns.inner
    text.add(1, "for task in range(lo, hi):")
    columns.open_tile("row", 2)
    writer.decompose(columns.outer, "row", 2)
    blocks, width = writer.number("blocks", columns.blocks), writer.extent(inner)
    if columns.folds:
        width = writer.number("width", columns.columns * columns.lanes)
    text.add(2, f"base = row * {blocks} * {width}")
    text.add(2, f"for block in range(1, {blocks}):")
    text.add(3, f"later = base + block * {width}")
    _add_up(writer, columns, "later", 3)
    cells = columns.cells(f"base + i{inner}")
    text.add(2, f"for i{inner} in range(start, stop):")
    writer.variables[inner] = f"i{inner}"
    _results(writer, cells, 3)
    extent = columns.tiles * columns.outer_count
    grain = largest(1, config.grain_elements // largest(1, columns.blocks * TILE))
    return writer.finish(extent, grain, f"{writer.name}_combine", "adds the blocks up")


def _results(writer: Writer, cells: dict[Value, str], indent: int) -> None:
    """What follows from the finished columns."""
    scope: Scope = {}
    group = writer.group
    for value, cell in cells.items():
        combine = scalar.combine_of(value)
        name = writer.fresh()
        writer.text.add(indent, f"{name} = {scalar.load(cell, combine.dtype)}")
        scope[value] = finished(writer, value, name, indent)
    for value in group.values:
        if group.level[value] == ROW and value in writer.nest.writes:
            writer.write(value, writer.value(value, [scope], indent), indent)
