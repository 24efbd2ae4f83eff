"""Printing reductions of rows, and beside them those of columns: what goes over all rows at one place in each.

Rows are cut into blocks. While a row of a block is in the cache, its elements are folded into a row of partial results
that belongs to the block; a second function folds the blocks together in order. So what both kinds of reductions read
is read once, what only they need is never stored, and the result does not depend on the number of threads.
"""

from __future__ import annotations

from ... import config
from ...ir.graph import Value
from ...passes.fusion.groups import BLOCK_ELEMENTS, COLUMN, MOST_BLOCKS
from ...sizes import largest
from .. import scalar
from ..kernel import Function, Scratch
from .cpu import Scope, Writer, describe, describe_domain
from .rows import finished, flat_index, fold_into, row_body

#: Columns that one thread folds together at a time.
TILE = 1024


class Partials:
    """The partial results: how many there are, and where."""

    def __init__(self, writer: Writer) -> None:
        nest = writer.nest
        self.writer = writer
        self.width = writer.extents_product(nest.reduced)
        self.rows = writer.extents_product(nest.kept)
        fitting = BLOCK_ELEMENTS // largest(1, self.width)
        self.block_rows = largest(largest(1, fitting), -(-self.rows // MOST_BLOCKS))
        self.blocks = largest(1, -(-self.rows // self.block_rows))
        found = [v for v in writer.group.values if writer.group.level[v] == COLUMN]
        self.reductions = {v: f"partial{number}" for number, v in enumerate(found)}

    def cell(self, value: Value, index: str) -> str:
        """The partial result of a reduction at ``index``."""
        dtype = scalar.combine_of(value).dtype
        key = self.reductions[value]
        scratch = Scratch(key, dtype, largest(self.blocks * self.width, 1), per_worker=False)
        name = self.writer.text.parameter(key, scalar.storage_type(dtype) + "*", scratch)
        return f"{name}[{index}]"


def write_rows_and_columns(writer: Writer) -> tuple[Function, Function]:
    """Rows by blocks with partial results for the columns, then their sum."""
    partials = Partials(writer)
    return _write_rows(writer, partials), _write_columns(writer, partials)


def _write_rows(writer: Writer, partials: Partials) -> Function:
    text = writer.text
    size, width = (
        writer.number("block_rows", partials.block_rows),
        writer.number("width", partials.width),
    )
    text.add(1, "for block in range(lo, hi):")
    text.add(2, f"first = block * {size}")
    text.add(2, f"last = minimum_i64(first + {size}, {writer.number('rows', partials.rows)})")
    text.add(2, f"base = block * {width}")
    text.add(2, f"for column in range({width}):")
    for value in partials.reductions:
        combine = scalar.combine_of(value)
        identity = scalar.store(combine.identity, combine.dtype)
        text.add(3, f"{partials.cell(value, 'base + column')} = {identity}", describe(value))

    def cell(value: Value) -> str:
        return partials.cell(value, f"base + {flat_index(writer)}")

    row_body(writer, ("first", "last"), 2, {}, cell)
    work = partials.block_rows * largest(1, partials.width)
    doc = f"{describe_domain(writer.group)}: reduces the inner axes, and the outer ones by blocks"
    return writer.finish(
        partials.blocks, largest(1, config.grain_elements // work), writer.name, doc
    )


def _write_columns(writer: Writer, partials: Partials) -> Function:
    """Fold the later blocks into the first, then store the results."""
    text = writer.text
    width, blocks = writer.number("width", partials.width), writer.number("blocks", partials.blocks)
    text.add(1, "for tile in range(lo, hi):")
    text.add(2, f"start = tile * {TILE}")
    text.add(2, f"stop = minimum_i64(start + {TILE}, {width})")
    text.add(2, f"for block in range(1, {blocks}):")
    text.add(3, f"base = block * {width}")
    text.add(3, "for column in range(start, stop):")
    for value in partials.reductions:
        combine, cell = scalar.combine_of(value), partials.cell(value, "column")
        part = scalar.load(partials.cell(value, "base + column"), combine.dtype)
        fold_into(writer, cell, combine.dtype, combine.merge, part, 4)
    text.add(2, "for column in range(start, stop):")
    writer.decompose(writer.nest.reduced, "column", 3)
    scope: Scope = {}
    for value in partials.reductions:
        combine, name = scalar.combine_of(value), writer.fresh()
        text.add(3, f"{name} = {scalar.load(partials.cell(value, 'column'), combine.dtype)}")
        scope[value] = finished(writer, value, name, 3)
        if value in writer.nest.writes:
            writer.write(value, scope[value], 3)
    grain = largest(1, config.grain_elements // largest(1, partials.blocks * TILE))
    tiles = -(-partials.width // TILE)
    return writer.finish(tiles, grain, f"{writer.name}_combine", "folds the blocks together")
