"""Printing points whose operands lie across them: neighbours along the last axis are far apart in memory.

Read where they lie, one element at a time, such operands keep the whole computation from being done in vectors. So a
square of them at a time is first copied, turned round, to memory of each worker's own, which stays in the first-level
cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.graph import Value
from .. import scalar
from ..nest import index_source, is_one
from .cpu import Scope, Writer
from .turned import Turned, copy_turned, declare

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
    """Open loops over the squares from ``lo`` to ``hi``; the indent inside, and the names of what was turned round."""
    text, inner, across = writer.text, axes[-1], axes[-2]
    begin, end, base = f"i{inner}_begin", f"i{inner}_end", f"worker * {SIDE * SIDE}"
    pieces = [
        Turned(v, f"{writer.names[v]}_square", across, inner, str(SIDE), ("top", begin), base)
        for v in crossed
    ]
    for axis in (across, inner):
        text.add(1, f"squares{axis} = ({writer.extent(axis)} + {SIDE - 1}) // {SIDE}")
    text.add(1, "for square in range(lo, hi):")
    text.add(2, f"{begin} = square % squares{inner} * {SIDE}")
    text.add(2, f"{end} = minimum_i64({begin} + {SIDE}, {writer.extent(inner)})")
    text.add(2, f"above = square // squares{inner}")
    text.add(2, f"top = above % squares{across} * {SIDE}")
    text.add(2, f"bottom = minimum_i64(top + {SIDE}, {writer.extent(across)})")
    if axes[:-2]:
        text.add(2, f"run = above // squares{across}")
        writer.decompose(axes[:-2], "run", 2)
    for piece in pieces:
        declare(writer, piece, SIDE * SIDE)
        copy_turned(writer, piece, ("bottom", end), 2)
    text.add(2, f"for i{across} in range(top, bottom):")
    text.add(3, f"for i{inner} in range({begin}, {end}):")
    writer.variables |= {across: f"i{across}", inner: f"i{inner}"}
    scope: Scope = {}
    for piece in pieces:
        cell = f"{piece.name}[{piece.place(f'i{across}', f'i{inner}')}]"
        writer.define(piece.value, scalar.load(cell, piece.value.spec.dtype), scope, 4)
    return 4, scope


def squares_of(writer: Writer, axes: Sequence[int]) -> int:
    """How many squares there are."""
    count = writer.extents_product(axes[:-2])
    for axis in axes[-2:]:
        count *= (writer.nest.axes[axis].extent + (SIDE - 1)) // SIDE
    return count


def _is_far(stride: int) -> bool:
    return not (stride == 0 or is_one(stride))
