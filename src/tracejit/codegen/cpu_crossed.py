"""Printing points whose operands lie across them: neighbours along the last axis are far apart in memory.

Read where they lie, one element at a time, such operands keep the whole computation from being done in vectors. So a
square of them at a time is first copied, turned round, to memory of each worker's own, which stays in the first-level
cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.graph import Value
from . import scalar
from .cpu import Scope, Writer
from .cpu_running import open_rows
from .cpu_turned import Turned, copy_turned, declare
from .nest import index_source, is_one

#: The side of a square.
SIDE = 64


def crossed_reads(writer: Writer, axes: Sequence[int]) -> list[Value]:
    """The operands that lie across the results; none where a result lies so too, or nothing is computed."""
    nest = writer.nest
    if len(axes) < 2:
        return []
    across, inner = axes[-2:]
    if not all(is_one(access.strides[inner]) for access in nest.writes.values()):
        return []
    return [
        value
        for value, access in nest.reads.items()
        if access.layout is not None
        and index_source(value) is None
        and is_one(access.strides[across])
        and _is_far(access.strides[inner])
    ]


def open_squares(
    writer: Writer, axes: Sequence[int], crossed: Sequence[Value]
) -> tuple[int, Scope]:
    """Open loops over all points, square by square; the indent inside, and the names of what was turned round."""
    text, inner, across = writer.text, axes[-1], axes[-2]
    count, begin, end = writer.extent(inner), f"i{inner}_begin", f"i{inner}_end"
    base = f"worker * {SIDE * SIDE}"
    pieces = [
        Turned(v, f"{writer.names[v]}_square", across, inner, str(SIDE), ("top", begin), base)
        for v in crossed
    ]

    def squares(indent: int, first: str, last: str) -> tuple[int, str, str]:
        text.add(indent, f"for {begin} in range(0, {count}, {SIDE}):")
        text.add(indent + 1, f"{end} = minimum_i64({begin} + {SIDE}, {count})")
        text.add(indent + 1, f"for top in range({first}, {last}, {SIDE}):")
        text.add(indent + 2, f"bottom = minimum_i64(top + {SIDE}, {last})")
        for piece in pieces:
            declare(writer, piece, SIDE * SIDE)
            copy_turned(writer, piece, ("bottom", end), indent + 2)
        return indent + 2, "top", "bottom"

    scope: Scope = {}
    indent = open_rows(writer, axes[:-1], "lo", "hi", 1, squares)
    text.add(indent, f"for i{inner} in range({begin}, {end}):")
    writer.variables[inner] = f"i{inner}"
    for piece in pieces:
        cell = f"{piece.name}[{piece.place(writer.variables[across], f'i{inner}')}]"
        writer.define(piece.value, scalar.load(cell, piece.value.spec.dtype), scope, indent + 1)
    return indent + 1, scope


def _is_far(stride: int) -> bool:
    return not (stride == 0 or is_one(stride))
