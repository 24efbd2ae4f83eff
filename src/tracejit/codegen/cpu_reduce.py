"""Printing reductions: rows (innermost axis reduced), columns (innermost axis kept), and full reductions by blocks.

Rows run in *stages*: one loop over the reduced axes for every reduction that waits for an earlier one. Values that are
dear and needed by several stages are kept in a row of scratch memory. Full reductions leave one partial result per
block of fixed size, combined in order by a second function, so the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import config
from ..ir.graph import Value
from ..ops.table import Reduction
from ..passes.fusion import FINAL, FULL, ROW
from . import scalar
from .cpu import BLOCK, TILE, Function, Scope, Scratch, Writer, describe, describe_domain, expensive_in_several


def write_rows(writer: Writer) -> Function:
    """One row of kept axes at a time; stages over the reduced axes."""
    nest = writer.nest
    writer.text.add(1, "for row in range(lo, hi):")
    writer.decompose(nest.kept, "row", 2)
    _row_body(writer, 2, {})
    rows, inner = writer.extents_product(nest.kept), max(writer.extents_product(nest.reduced), 1)
    grain = max(1, config.grain_elements // inner)
    return writer.finish(rows, grain, writer.name, f"{describe_domain(writer.group)}: reduces the inner axes")


def _row_body(writer: Writer, indent: int, finals: Scope) -> Scope:
    """Everything that happens for one row; ``finals`` maps final reductions to their accumulators."""
    group = writer.group
    stages = _stages(writer)
    last = max([stages[v] for v in group.values if _needs_loop(writer, v)], default=0)
    targets = [_loop_targets(writer, stages, stage) for stage in range(last + 1)]
    loops = [_needed(writer, found) for found in targets]
    kept = expensive_in_several(writer, loops) if len(loops) > 1 else []
    scratch = {v: f"row{i}" for i, v in enumerate(kept)}
    row: Scope = {}
    stored: set[Value] = set()
    for stage in range(last + 1):
        _row_level(writer, row, stages, stage, indent)
        _stage_loop(writer, row, stages, stage, targets[stage], loops[stage], scratch, stored, indent, finals)
    _row_level(writer, row, stages, last + 1, indent)
    for value in group.values:
        if group.level[value] == ROW and value in writer.nest.writes:
            writer.write(value, row[value], indent)
        if group.level[value] == FINAL and isinstance(value.op, Reduction):
            source = writer.origin(value.value_operands[0])
            if group.level.get(source, ROW) == ROW and value in finals:
                text = writer.value(value.value_operands[0], [row], indent)
                _update(writer, value, finals[value], text, indent)
    return row


def _stages(writer: Writer) -> dict[Value, int]:
    """For every value the loop (full level) or the gap before a loop (row level) that computes it."""
    group = writer.group
    stages: dict[Value, int] = {}
    for value in group.values:
        stage = max([stages.get(writer.origin(x), 0) for x in value.value_operands], default=0)
        source = value.value_operands[0] if isinstance(value.op, Reduction) else None
        if source is not None and _is_full(writer, source):
            stages[value] = stage + 1
        else:
            stages[value] = stage
    return stages


def _is_full(writer: Writer, value: Value) -> bool:
    """Does an operand change along the reduced axes?"""
    origin = writer.origin(value)
    if origin in writer.group.level:
        return writer.group.level[origin] == FULL
    dims = writer.group.externals[value]
    reduced = writer.group.reduced or frozenset()
    everything = {a for a in dims if a is not None}
    return bool(everything & reduced) or not everything


def _needs_loop(writer: Writer, value: Value) -> bool:
    return (writer.group.level[value] == FULL and value in writer.nest.writes) or (
        isinstance(value.op, Reduction) and _is_full(writer, value.value_operands[0])
    )


def _loop_targets(writer: Writer, stages: dict[Value, int], stage: int) -> list[Value]:
    """Reductions and stored values that the loop of ``stage`` computes."""
    found = []
    for value in writer.group.values:
        if isinstance(value.op, Reduction):
            if _is_full(writer, value.value_operands[0]) and stages[value] == stage + 1:
                found.append(value)
        elif writer.group.level[value] == FULL and value in writer.nest.writes and stages[value] == stage:
            found.append(value)
    return found


def _needed(writer: Writer, targets: Sequence[Value]) -> set[Value]:
    """Full-level values a loop evaluates for its targets."""
    group = writer.group
    stack = []
    for target in targets:
        if isinstance(target.op, Reduction):
            stack.append(writer.origin(target.value_operands[0]))
        else:
            stack.append(target)
    seen: set[Value] = set()
    while stack:
        value = stack.pop()
        if value in seen or group.level.get(value) != FULL:
            continue
        seen.add(value)
        stack.extend(writer.origin(x) for x in value.value_operands)
    return seen


def _row_level(writer: Writer, row: Scope, stages: dict[Value, int], stage: int, indent: int) -> None:
    """Row-level elementwise values that became available before the loop of ``stage``."""
    for value in writer.group.values:
        if writer.group.level[value] == ROW and value not in row and stages[value] <= stage:
            if isinstance(value.op, Reduction):
                continue
            writer.compute(value, [row], indent)


def _stage_loop(
    writer: Writer,
    row: Scope,
    stages: dict[Value, int],
    stage: int,
    targets: Sequence[Value],
    needed: set[Value],
    scratch: dict[Value, str],
    stored: set[Value],
    indent: int,
    finals: Scope,
) -> None:
    """One pass over the reduced axes."""
    if not targets:
        return
    accumulators: Scope = {}
    for value in targets:
        if isinstance(value.op, Reduction):
            if value in finals:
                accumulators[value] = finals[value]
                continue
            name = f"acc{writer.counter}"
            writer.counter += 1
            writer.text.add(indent, f"{name} = {scalar.combine_of(value).identity}", describe(value))
            accumulators[value] = name
    inner = writer.open_loops(writer.nest.reduced, indent)
    scope: Scope = {}
    for value in scratch:
        if value in stored and value in needed:
            scope[value] = writer.fresh()
            writer.text.add(inner, f"{scope[value]} = {_scratch_element(writer, value, scratch[value])}")
    for value in scratch:
        if value in needed and value not in stored:
            text = writer.value(value, [scope, row], inner)
            writer.text.add(inner, f"{_scratch_element(writer, value, scratch[value])} = {text}")
            stored.add(value)
    for value in targets:
        if isinstance(value.op, Reduction):
            text = writer.value(value.value_operands[0], [scope, row], inner)
            _update(writer, value, accumulators[value], text, inner)
        else:
            writer.write(value, writer.value(value, [scope, row], inner), inner)
    for axis in writer.nest.reduced:
        writer.variables.pop(axis, None)
    for value, name in accumulators.items():
        if value not in finals:
            row[value] = _finished(writer, value, name, indent)


def _scratch_element(writer: Writer, value: Value, key: str) -> str:
    """Where a row's value is kept: each worker has a row of its own."""
    count = max(writer.extents_product(writer.nest.reduced), 1)
    kind = scalar.compute_type(value.type.dtype)
    name = writer.text.parameter(key, kind + "*", Scratch(key, _scratch_dtype(value), count, per_worker=True))
    size = writer.number("row_size", count)
    index = ""
    for axis in writer.nest.reduced:
        variable = writer.variables[axis]
        index = variable if not index else f"({index}) * {writer.extent(axis)} + {variable}"
    return f"{name}[worker * {size} + {index}]"


def _scratch_dtype(value: Value):  # type: ignore[no-untyped-def]
    from ..dtypes import float32

    dtype = value.type.dtype
    return float32 if dtype.is_floating_point and dtype.itemsize == 2 else dtype


def _update(writer: Writer, value: Value, accumulator: str, text: str, indent: int) -> None:
    """Fold one element into an accumulator."""
    source = value.value_operands[0].type.dtype
    combine = scalar.combine_of(value)
    element = scalar.convert(text, source, combine.dtype)
    writer.text.add(indent, combine.update.format(acc=accumulator, x=element))


def _finished(writer: Writer, value: Value, accumulator: str, indent: int) -> str:
    """An accumulator in the dtype of the result."""
    combine = scalar.combine_of(value)
    text = scalar.convert(accumulator, combine.dtype, value.type.dtype)
    if text == accumulator:
        return accumulator
    name = writer.fresh()
    writer.text.add(indent, f"{name} = {text}")
    return name


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
        writer.text.add(3, f"{cells[value]} = {scalar.store(combine.identity, combine.dtype)}", describe(value))
    indent = writer.open_loops(nest.reduced, 2)
    writer.text.add(indent, loop)
    writer.variables[inner] = f"i{inner}"
    _column_points(writer, cells, indent + 1)
    for axis in nest.reduced:
        writer.variables.pop(axis)
    writer.text.add(2, loop)
    _column_results(writer, cells, 3)
    grain = max(1, config.grain_elements // max(1, TILE * writer.extents_product(nest.reduced)))
    extent = tiles * writer.extents_product(outer)
    return writer.finish(extent, grain, writer.name, f"{describe_domain(group)}: reduces outer axes")


def _column_cell(writer: Writer, value: Value, number: int, inner: int) -> str:
    """The accumulator of the current column: each worker has a tile of its own."""
    dtype = scalar.combine_of(value).dtype
    name = writer.text.parameter(
        f"acc{number}", scalar.storage_type(dtype) + "*", Scratch(f"acc{number}", dtype, TILE, per_worker=True)
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
        update = combine.update.format(acc=name, x=element).replace(f"{name} += ", f"{name} = {name} + ")
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
        scope[value] = _finished(writer, value, name, indent)
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
    inner = max(writer.extents_product(nest.reduced[-1:] if points else nest.reduced), 1)
    length = writer.extents_product(axes if len(axes) <= 1 and points else outer)
    size = BLOCK if points and len(axes) <= 1 else max(1, BLOCK // inner)
    blocks = -(-length // size)
    block_size, total = writer.number("block_size", size), writer.number("length", length)
    writer.text.add(1, "for block in range(lo, hi):")
    for value in finals:
        writer.text.add(2, f"{accumulators[value]} = {scalar.combine_of(value).identity}", describe(value))
    writer.text.add(2, f"start = block * {block_size}")
    writer.text.add(2, f"stop = minimum_i64(start + {block_size}, {total})")
    if points:
        _block_points(writer, axes, accumulators)
    else:
        writer.text.add(2, "for row in range(start, stop):")
        writer.decompose(nest.kept, "row", 3)
        _row_body(writer, 3, accumulators)
    for i, value in enumerate(finals):
        dtype = scalar.combine_of(value).dtype
        name = _partial(writer, i, value, blocks)
        writer.text.add(2, f"{name}[block] = {scalar.store(accumulators[value], dtype)}")
    grain = max(1, config.grain_elements // max(1, size * (1 if points and len(axes) <= 1 else inner)))
    main = writer.finish(blocks, grain, writer.name, f"{describe_domain(group)}: one partial result per block")
    return main, _write_combine(writer, finals, blocks)


def _partial(writer: Writer, number: int, value: Value, blocks: int) -> str:
    dtype = scalar.combine_of(value).dtype
    parameter = Scratch(f"partial{number}", dtype, max(blocks, 1), per_worker=False)
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
        _update(writer, value, name, writer.value(value.value_operands[0], [scope], indent), indent)


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
        scope[value] = _finished(writer, value, name, 1)
    for value in writer.group.values:
        if writer.group.level[value] == FINAL and value in writer.nest.writes:
            writer.write(value, writer.value(value, [scope], 1), 1)
    return writer.finish(1, 1, f"{writer.name}_combine", "combines the blocks")
