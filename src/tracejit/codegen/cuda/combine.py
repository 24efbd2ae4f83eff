"""Reductions across threads: by shuffles in a warp, through shared memory in a block, in two passes across blocks.

Every thread gets the result, always by the same tree, so sums have the same bits on every run and every device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...extents import is_symbolic
from ...ir.graph import Value
from ...ops.table import Reduction
from ...passes.fusion.groups import FINAL
from ...sizes import call
from .. import scalar
from ..cpu.cpu import Scope, describe
from ..cpu.rows import finished
from ..kernel import Scratch
from .cuda import DeviceWriter
from .launch import BLOCK, WARPS, Launch
from .primitives import WARP

#: Blocks that leave partial results: a fixed number, so that results do not depend on the device.
PARTIAL_BLOCKS = 1024
#: Times that the threads of one block may go round before there are several, and a second launch to combine them: a
#: launch takes longer than that.
ALONE = 4
#: Blocks that a multiprocessor shall run at a time where a device is to run about so many: none is left for later.
TOGETHER = 8


def start(writer: DeviceWriter, accumulators: Mapping[Value, str], indent: int) -> None:
    """Give accumulators their identities."""
    for value, name in accumulators.items():
        writer.text.add(indent, f"{name} = {scalar.combine_of(value).identity}", describe(value))


def combine_warp(
    writer: DeviceWriter, accumulators: Mapping[Value, str], indent: int, width: int = WARP
) -> None:
    """All of a warp's threads get the combined accumulators of groups of ``width`` neighbours."""
    if not accumulators:
        return
    writer.text.add(indent, f"for step in range({width.bit_length() - 1}):")
    for value, name in accumulators.items():
        other = f"shuffle_xor({name}, {width // 2} >> step)"
        merge = scalar.combine_of(value).merge.format(acc=name, x=other)
        writer.text.add(indent + 1, merge)


def combine_block(writer: DeviceWriter, accumulators: Mapping[Value, str], indent: int) -> None:
    """All of a block's threads get the combined accumulators.

    Each warp repeats the last step, so one barrier is enough.
    """
    if not accumulators:
        return
    combine_warp(writer, accumulators, indent)
    cells = {}
    for value, name in accumulators.items():
        kind = scalar.storage_type(scalar.combine_of(value).dtype)
        cells[value] = writer.text.array(f"{name}_warps", f"shared_{kind}({WARPS})")
    writer.text.add(indent, f"if thread() & {WARP - 1} == 0:")
    for value, name in accumulators.items():
        stored = scalar.store(name, scalar.combine_of(value).dtype)
        writer.text.add(indent + 1, f"{cells[value]}[thread() >> 5] = {stored}")
    writer.text.add(indent, "barrier()")
    for value, name in accumulators.items():
        cell = f"{cells[value]}[thread() & {WARPS - 1}]"
        loaded = scalar.load(cell, scalar.combine_of(value).dtype)
        writer.text.add(indent, f"{name} = {loaded}")
    combine_warp(writer, accumulators, indent, WARPS)


def finals_of(writer: DeviceWriter) -> Scope:
    """Accumulators of the reductions over everything."""
    found = [
        v
        for v in writer.group.values
        if writer.group.level[v] == FINAL and isinstance(v.op, Reduction)
    ]
    return {v: f"final{i}" for i, v in enumerate(found)}


def partial_blocks(items: int, per_block: int = BLOCK, long: bool = False) -> int:
    """Blocks that reduce so many items: one, as long as its threads go round a few times at most; once where items
    are ``long``.

    >>> [partial_blocks(items) for items in (0, 1024, 1025, 1 << 30)]
    [1, 1, 5, 1024]
    """
    (found,) = call(_partial_blocks, items, per_block, 1 if long else ALONE)
    return found


def _partial_blocks(items: int, per_block: int, alone: int) -> tuple[int]:
    rounds = -(-items // per_block)
    return (1 if rounds <= alone else min(rounds, PARTIAL_BLOCKS),)


def write_end(writer: DeviceWriter, finals: Mapping[Value, str], blocks: int) -> None:
    """The end of a first pass: one partial result per block, or all that there is to do where the block is alone."""
    combine_block(writer, finals, 1)
    writer.text.add(1, "if blocks() == 1:")
    _write_results(writer, finals, 2)
    if _is_alone(blocks):
        return
    writer.text.add(1, "else:")
    writer.text.add(2, "if thread() == 0:")
    for number, (value, name) in enumerate(finals.items()):
        stored = scalar.store(name, scalar.combine_of(value).dtype)
        cell = f"{partial(writer, number, value, blocks)}[block()]"
        writer.text.add(3, f"{cell} = {stored}")


def _write_results(writer: DeviceWriter, finals: Mapping[Value, str], indent: int) -> None:
    """What follows from reductions over everything."""
    scope: Scope = {v: finished(writer, v, name, indent) for v, name in finals.items()}
    writer.text.add(indent, "if thread() == 0:")
    write_level(writer, FINAL, [scope], indent + 1)


def partial(writer: DeviceWriter, number: int, value: Value, count: int) -> str:
    """The parameter holding partial results."""
    dtype = scalar.combine_of(value).dtype
    parameter = Scratch(f"partial{number}", dtype, count, per_worker=False)
    return writer.text.parameter(f"partial{number}", scalar.storage_type(dtype) + "*", parameter)


def write_combine(writer: DeviceWriter, blocks: int) -> tuple[tuple[Launch, ...], ...]:
    """The second pass: one block combines the partial results and computes what follows from them.

    It is not launched where there was one block only.
    """
    if _is_alone(blocks):
        return ()
    finals = finals_of(writer)
    count = writer.number("parts", blocks)
    start(writer, finals, 1)
    writer.text.add(1, f"for part in range(thread(), {count}, {BLOCK}):")
    for number, (value, name) in enumerate(finals.items()):
        combine = scalar.combine_of(value)
        cell = scalar.load(f"{partial(writer, number, value, blocks)}[part]", combine.dtype)
        writer.text.add(2, combine.merge.format(acc=name, x=cell))
    combine_block(writer, finals, 1)
    _write_results(writer, finals, 1)
    (grid,) = call(_several, blocks)
    return ((writer.launch(grid, f"{writer.name}_combine", "combines the blocks"),),)


def _is_alone(blocks: int) -> bool:
    """Is there one block, whatever the sizes are?"""
    return not is_symbolic(blocks) and blocks == 1


def _several(blocks: int) -> tuple[int]:
    return (int(blocks > 1),)


def write_level(writer: DeviceWriter, level: str, scopes: Sequence[Scope], indent: int) -> None:
    """Compute and store the outputs of a level, in a block of their own."""
    scopes = [{}, *scopes]
    for value in writer.group.values:
        if writer.group.level[value] == level and value in writer.nest.writes:
            writer.write(value, writer.value(value, scopes, indent), indent)
