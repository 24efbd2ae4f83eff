"""Printing column reductions (innermost axis kept) and full reductions by blocks.

Full reductions leave one partial result per block of fixed size, combined in order by a second function, so the result
does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import config
from ..ir.graph import Value
from ..ops.table import Reduction
from ..passes.groups import FINAL, FULL, ROW
from ..sizes import largest
from . import scalar
from .cpu import BLOCK, TILE, Scope, Writer, describe, describe_domain
from .cpu_rows import finished, row_body, update
from .kernel import Function, Scratch

# --- columns ---------------------------------------------------------------------------------------------------------


def write_columns(writer: Writer) -> Function:
    """Tiles of the innermost (kept) axis with one accumulator per column."""
    nest, group = writer.nest, writer.group
    inner = len(nest.axes) - 1
    outer = nest.kept[:-1]
    columns = nest.axes[inner].extent
    tiles = -(-columns // TILE)
    width = writer.extent(inner)
    writer.text.add(1, "for tile in range(lo, hi):")
    if outer:
        count = writer.number("tiles", tiles)
        writer.text.add(2, f"start = (tile % {count}) * {TILE}")
        writer.text.add(2, f"row = tile // {count}")
        writer.decompose(outer, "row", 2)
    else:
        writer.text.add(2, f"start = tile * {TILE}")
    writer.text.add(2, f"stop = minimum_i64(start + {TILE}, {width})")
    reductions = [v for v in group.values if isinstance(v.op, Reduction)]
    loop = f"for i{inner} in range(start, stop):"
    cells = {v: _column_cell(writer, v, i, inner) for i, v in enumerate(reductions)}
    writer.text.add(2, loop)
    for value in reductions:
        combine = scalar.combine_of(value)
        writer.text.add(
            3, f"{cells[value]} = {scalar.store(combine.identity, combine.dtype)}", describe(value)
        )
    indent = writer.open_loops(nest.reduced, 2)
    writer.text.add(indent, loop)
    writer.variables[inner] = f"i{inner}"
    _column_points(writer, cells, indent + 1)
    for axis in nest.reduced:
        writer.variables.pop(axis)
    writer.text.add(2, loop)
    _column_results(writer, cells, 3)
    grain = largest(
        1, config.grain_elements // largest(1, TILE * writer.extents_product(nest.reduced))
    )
    extent = tiles * writer.extents_product(outer)
    return writer.finish(
        extent, grain, writer.name, f"{describe_domain(group)}: reduces outer axes"
    )


def _column_cell(writer: Writer, value: Value, number: int, inner: int) -> str:
    """The accumulator of the current column: each worker has a tile of its own."""
    dtype = scalar.combine_of(value).dtype
    name = writer.text.parameter(
        f"acc{number}",
        scalar.storage_type(dtype) + "*",
        Scratch(f"acc{number}", dtype, TILE, per_worker=True),
    )
    return f"{name}[worker * {TILE} + i{inner} - start]"


def _column_points(writer: Writer, cells: dict[Value, str], indent: int) -> None:
    """The element work of one row of a tile."""
    scope: Scope = {}
    group = writer.group
    for value in group.values:
        if group.level[value] == FULL and value in writer.nest.writes:
            writer.write(value, writer.value(value, [scope], indent), indent)
    for value, cell in cells.items():
        text = writer.value(value.value_operands[0], [scope], indent)
        combine = scalar.combine_of(value)
        element = scalar.convert(text, value.value_operands[0].type.dtype, combine.dtype)
        name = f"acc{writer.counter}_now"
        writer.counter += 1
        writer.text.add(indent, f"{name} = {scalar.load(cell, combine.dtype)}")
        update = combine.update.format(acc=name, x=element).replace(
            f"{name} += ", f"{name} = {name} + "
        )
        writer.text.add(indent, update)
        writer.text.add(indent, f"{cell} = {scalar.store(name, combine.dtype)}")


def _column_results(writer: Writer, cells: dict[Value, str], indent: int) -> None:
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


# --- full reductions -------------------------------------------------------------------------------------------------


def write_blocks(writer: Writer) -> tuple[Function, Function]:
    """Partial results per block, then a function that combines them and does what follows from the result."""
    group, nest = writer.group, writer.nest
    finals = [v for v in group.values if group.level[v] == FINAL and isinstance(v.op, Reduction)]
    accumulators: Scope = {v: f"final{i}" for i, v in enumerate(finals)}
    points = not nest.kept
    axes = nest.reduced if points else nest.kept
    outer = axes[:-1] if points else axes
    inner = largest(writer.extents_product(nest.reduced[-1:] if points else nest.reduced), 1)
    length = writer.extents_product(axes if len(axes) <= 1 and points else outer)
    size = BLOCK if points and len(axes) <= 1 else largest(1, BLOCK // inner)
    blocks = -(-length // size)
    block_size, total = writer.number("block_size", size), writer.number("length", length)
    writer.text.add(1, "for block in range(lo, hi):")
    for value in finals:
        writer.text.add(
            2, f"{accumulators[value]} = {scalar.combine_of(value).identity}", describe(value)
        )
    writer.text.add(2, f"start = block * {block_size}")
    writer.text.add(2, f"stop = minimum_i64(start + {block_size}, {total})")
    if points:
        _block_points(writer, axes, accumulators)
    else:
        writer.text.add(2, "for row in range(start, stop):")
        writer.decompose(nest.kept, "row", 3)
        row_body(writer, 3, accumulators)
    for i, value in enumerate(finals):
        dtype = scalar.combine_of(value).dtype
        name = _partial(writer, i, value, blocks)
        writer.text.add(2, f"{name}[block] = {scalar.store(accumulators[value], dtype)}")
    grain = largest(
        1, config.grain_elements // largest(1, size * (1 if points and len(axes) <= 1 else inner))
    )
    main = writer.finish(
        blocks, grain, writer.name, f"{describe_domain(group)}: one partial result per block"
    )
    return main, _write_combine(writer, finals, blocks)


def _partial(writer: Writer, number: int, value: Value, blocks: int) -> str:
    dtype = scalar.combine_of(value).dtype
    parameter = Scratch(f"partial{number}", dtype, largest(blocks, 1), per_worker=False)
    return writer.text.parameter(f"partial{number}", scalar.storage_type(dtype) + "*", parameter)


def _block_points(writer: Writer, axes: Sequence[int], accumulators: Scope) -> None:
    """Elements of a block when every axis is reduced."""
    if len(axes) <= 1:
        writer.text.add(2, "for i0 in range(start, stop):")
        if axes:
            writer.variables[axes[0]] = "i0"
        indent = 3
    else:
        writer.text.add(2, "for row in range(start, stop):")
        writer.decompose(axes[:-1], "row", 3)
        indent = writer.open_loops(axes[-1:], 3)
    scope: Scope = {}
    for value in writer.group.values:
        if writer.group.level[value] == FULL and value in writer.nest.writes:
            writer.write(value, writer.value(value, [scope], indent), indent)
    for value, name in accumulators.items():
        update(writer, value, name, writer.value(value.value_operands[0], [scope], indent), indent)


def _write_combine(writer: Writer, finals: Sequence[Value], blocks: int) -> Function:
    """Combine the partial results in order, and compute what follows."""
    count = writer.number("blocks", blocks)
    scope: Scope = {}
    for i, value in enumerate(finals):
        combine = scalar.combine_of(value)
        name = f"final{i}"
        writer.text.add(1, f"{name} = {combine.identity}", describe(value))
        part = scalar.load(f"{_partial(writer, i, value, blocks)}[block]", combine.dtype)
        writer.text.add(1, f"for block in range({count}):")
        writer.text.add(2, combine.merge.format(acc=name, x=part))
        scope[value] = finished(writer, value, name, 1)
    for value in writer.group.values:
        if writer.group.level[value] == FINAL and value in writer.nest.writes:
            writer.write(value, writer.value(value, [scope], 1), 1)
    return writer.finish(1, 1, f"{writer.name}_combine", "combines the blocks")
