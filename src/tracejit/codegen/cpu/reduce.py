"""Printing full reductions by blocks.

They leave one partial result per block of fixed size, combined in order by a second function, so the result
does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.graph import Value
from ...ops.table import Reduction
from ...passes.fusion.groups import FINAL
from ...sizes import largest
from .. import scalar
from ..grain import elements_per_chunk
from ..kernel import Function, Scratch
from .cpu import BLOCK, Scope, Writer, describe, describe_domain
from .rows import finished, fold_point, row_body, rows_apart
from .running import open_rows
from .short_rows import short_ends, short_kept


def write_blocks(writer: Writer) -> tuple[Function, Function]:
    """Partial results per block, then a function that combines them and does what follows from the result."""
    group, nest = writer.group, writer.nest
    finals = [v for v in group.values if group.level[v] == FINAL and isinstance(v.op, Reduction)]
    accumulators: Scope = {v: f"final{i}" for i, v in enumerate(finals)}
    points, short = not nest.kept, short_kept(writer)
    axes = nest.reduced if points else nest.kept
    ends = short_ends(writer, axes) if points else None if short is None else short[1]
    outer, flat = axes, points and len(axes) <= 1
    if ends is not None:
        outer = axes[: -len(ends[0])]
    elif points and not flat:
        outer = axes[:-1]
    inner = largest(writer.extents_product([a for a in range(len(nest.axes)) if a not in outer]), 1)
    length = writer.extents_product(outer)
    size = BLOCK if flat else largest(1, BLOCK // inner)
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
        _block_points(writer, axes, ends, accumulators)
    elif short is not None:
        rows_apart(writer, *short, accumulators, open_rows(writer, outer, "start", "stop", 2))
    else:
        row_body(writer, ("start", "stop"), 2, accumulators)
    for i, value in enumerate(finals):
        dtype = scalar.combine_of(value).dtype
        name = _partial(writer, i, value, blocks)
        writer.text.add(2, f"{name}[block] = {scalar.store(accumulators[value], dtype)}")
    elements = elements_per_chunk(group.values)
    grain = largest(1, elements // largest(1, size * inner))
    main = writer.finish(
        blocks, grain, writer.name, f"{describe_domain(group)}: one partial result per block"
    )
    return main, _write_combine(writer, finals, blocks)


def _partial(writer: Writer, number: int, value: Value, blocks: int) -> str:
    dtype = scalar.combine_of(value).dtype
    parameter = Scratch(f"partial{number}", dtype, largest(blocks, 1), per_worker=False)
    return writer.text.parameter(f"partial{number}", scalar.storage_type(dtype) + "*", parameter)


def _block_points(
    writer: Writer,
    axes: Sequence[int],
    ends: Sequence[dict[int, str]] | None,
    accumulators: Scope,
) -> None:
    """Elements of a block when every axis is reduced; ``ends`` are the places of those that are printed apart."""
    if ends is not None:
        indent = open_rows(writer, axes[: -len(ends[0])], "start", "stop", 2)
    elif len(axes) <= 1:
        writer.text.add(2, "for i0 in range(start, stop):")
        if axes:
            writer.variables[axes[0]] = "i0"
        indent = 3
    else:
        indent = writer.open_loops(axes[-1:], open_rows(writer, axes[:-1], "start", "stop", 2))
    for place in ends or [{}]:
        writer.variables.update(place)
        fold_point(writer, accumulators, indent)


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
