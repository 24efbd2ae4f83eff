"""Printing kernels that visit every point once: elementwise groups, and full reductions without rows.

Threads walk over the points in steps of the whole grid. Where operands lie densely along the innermost axis, a
thread takes four neighbours at a time: one vector access per operand, and each value computed in a loop over four
lanes. The last group of a one-dimensional range may be cut short; its lanes then read the last element again and do
not store.
"""

from __future__ import annotations

from ...passes.fusion.groups import FULL
from ..cpu.cpu import Scope, describe_domain
from ..cpu.rows import update
from .combine import TOGETHER, finals_of, partial_blocks, start, write_combine, write_end
from .cuda import VECTOR_WORDS, DeviceWriter, Vector, blocks_for, plus, staged, words_of
from .launch import BLOCK, Launch
from .primitives import WIDTH


def write_points(writer: DeviceWriter) -> tuple[tuple[Launch, ...], ...]:
    """No reduction: four points at a time where alignment allows, or one."""
    axes = tuple(range(len(writer.nest.axes)))
    total = writer.extents_product(axes)
    vector = _vector(writer)
    choices = [] if vector is None else [_write_elementwise(writer, total, vector)]
    return ((*choices, _write_elementwise(writer, total, None)),)


def write_point_reduction(writer: DeviceWriter) -> tuple[tuple[Launch, ...], ...]:
    """Every axis reduced: partial results of blocks, then their combination.

    The order of summation is the same whether addresses are aligned or not.
    """
    vector = _vector(writer)
    total = writer.extents_product(range(len(writer.nest.axes)))
    groups = total if vector is None else -(-total // WIDTH)
    blocks = partial_blocks(groups)
    first = [_write_partials(writer, vector, blocks, aligned=True)]
    if vector is not None:
        first.append(_write_partials(writer, vector, blocks, aligned=False))
    return tuple(first), *write_combine(writer, blocks)


def _vector(writer: DeviceWriter) -> Vector | None:
    """The operands to access four at a time, None where that is not possible or does not pay."""
    axes = writer.nest.axes
    if not axes or (len(axes) > 1 and axes[-1].extent % WIDTH != 0):
        return None
    reads = writer.unit_stride(writer.memory_reads(), writer.nest.reads)
    outputs = [v for v in writer.outputs if writer.group.level[v] == FULL]
    writes = writer.unit_stride(outputs, writer.nest.writes)
    if len(writes) < len(outputs) or not (reads or writes):
        return None
    words = WIDTH * (words_of(reads) + words_of(writes))
    return Vector(reads, writes) if words <= VECTOR_WORDS else None


def _write_elementwise(writer: DeviceWriter, total: int, vector: Vector | None) -> Launch:
    if vector is None:
        _scalar_points(writer, total, {})
        grid = blocks_for(total)
    else:
        _vector_points(writer, total, vector, {}, aligned=True)
        grid = blocks_for(-(-total // WIDTH))
    how = "" if vector is None else ", four at a time"
    return writer.launch(grid, writer.name, f"{describe_domain(writer.group)}: pointwise{how}")


def _write_partials(
    writer: DeviceWriter, vector: Vector | None, blocks: int, aligned: bool
) -> Launch:
    finals = finals_of(writer)
    total = writer.extents_product(range(len(writer.nest.axes)))
    writer.text.together = TOGETHER
    start(writer, finals, 1)
    if vector is None:
        _scalar_points(writer, total, finals)
    else:
        _vector_points(writer, total, vector, finals, aligned)
    write_end(writer, finals, blocks)
    doc = f"{describe_domain(writer.group)}: one partial result per block"
    return writer.launch(blocks, writer.name, doc)


def _scalar_points(writer: DeviceWriter, total: int, finals: Scope) -> None:
    """One point at a time."""
    axes = tuple(range(len(writer.nest.axes)))
    count = writer.number("total", total)
    writer.text.add(
        1, f"for point in range(block() * {BLOCK} + thread(), {count}, blocks() * {BLOCK}):"
    )
    writer.decompose(axes, "point", 2)
    _body(writer, finals, 2)


def _vector_points(
    writer: DeviceWriter, total: int, vector: Vector, finals: Scope, aligned: bool
) -> None:
    """Four neighbours along the innermost axis at a time."""
    axes = tuple(range(len(writer.nest.axes)))
    inner = axes[-1]
    flat = len(axes) == 1
    groups = writer.number("groups", -(-total // WIDTH))
    writer.text.add(
        1, f"for group in range(block() * {BLOCK} + thread(), {groups}, blocks() * {BLOCK}):"
    )
    writer.text.add(2, f"first = group * {WIDTH}")
    writer.decompose(axes, "first", 2)
    count = writer.extent(inner)
    at = writer.variables[inner]
    arrays = {v: writer.local(f"{writer.names[v]}_four", v.spec.dtype, WIDTH) for v in vector.reads}
    if flat:
        writer.text.add(2, f"whole = first + {WIDTH} <= {count}")
    _copy_in(writer, arrays, flat, aligned)
    new = {
        v: writer.local(f"out_{writer.names[v]}_four", v.spec.dtype, WIDTH) for v in vector.writes
    }
    writer.text.add(2, f"for lane in range({WIDTH}):")
    writer.variables[inner] = lane = f"i{inner}_lane"
    index = plus(at, "lane")
    if flat and (writer.looked_up() or set(writer.memory_reads()) - set(vector.reads)):
        index = f"minimum_i64({index}, {count} - 1)"
    writer.text.add(3, f"{lane} = {index}")
    reads = {v: f"{array}[lane]" for v, array in arrays.items()}
    writes = {v: f"{array}[lane]" for v, array in new.items()}
    with staged(writer, reads, writes):
        _body(writer, finals, 3, f"first + lane < {count}" if flat else "")
    writer.variables[inner] = at
    _copy_out(writer, new, flat, aligned)


def _copy_in(writer: DeviceWriter, arrays: Scope, flat: bool, aligned: bool) -> None:
    """Fill the arrays of a group."""
    if not arrays:
        return
    indent = 2
    if flat:
        writer.text.add(2, "if whole:")
        indent = 3
    for value, array in arrays.items():
        writer.copy_in(value, array, "0", indent, aligned)
    if flat:
        writer.text.add(2, "else:")
        writer.text.add(3, f"for lane in range({WIDTH}):")
        last = f"minimum_i64(first + lane, {writer.extent(0)} - 1)"
        for value, array in arrays.items():
            writer.text.add(4, f"{array}[lane] = {writer.names[value]}[{last}]")


def _copy_out(writer: DeviceWriter, arrays: Scope, flat: bool, aligned: bool) -> None:
    """Store the arrays of a group."""
    if not arrays:
        return
    indent = 2
    if flat:
        writer.text.add(2, "if whole:")
        indent = 3
    for value, array in arrays.items():
        writer.copy_out(value, array, indent, aligned)
    if flat:
        writer.text.add(2, "else:")
        writer.text.add(3, f"for lane in range({WIDTH}):")
        writer.text.add(4, f"if first + lane < {writer.extent(0)}:")
        for value, array in arrays.items():
            writer.text.add(5, f"{writer.names[value]}[first + lane] = {array}[lane]")


def _body(writer: DeviceWriter, finals: Scope, indent: int, guard: str = "") -> None:
    """The values of one point: outputs stored, reductions accumulated where ``guard`` holds."""
    scope: Scope = {}
    for value in writer.group.values:
        if writer.group.level[value] == FULL and value in writer.nest.writes:
            writer.write(value, writer.value(value, [scope], indent), indent)
    texts = {v: writer.value(v.value_operands[0], [scope], indent) for v in finals}
    if guard and finals:
        writer.text.add(indent, f"if {guard}:")
        indent += 1
    for value, name in finals.items():
        update(writer, value, name, texts[value], indent)
