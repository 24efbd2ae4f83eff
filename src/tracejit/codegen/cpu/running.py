"""Printing the loop over a part of all rows, where several axes make one running number.

The number is divided into its axes once for every run along the last of them, not for every row: two divisions take
longer than a short row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...extents import is_symbolic
from ...passes.fusion.groups import looks_up
from ...sizes import is_zero
from ..nest import is_one
from .cpu import Writer

#: Columns of operands that lie across the rows that are walked at a time: so many lines stay in the first-level cache.
TILE = 16


def open_points(writer: Writer, axes: Sequence[int], first: str, last: str, indent: int) -> int:
    """Open loops over the rows from ``first`` to ``last`` (texts) and their points; the indent inside them.

    Where an operand lies across the rows, so that neighbours in memory belong to neighbouring rows, columns are walked
    a few at a time: what comes into the cache for one row is still there for the next.
    """
    if not _is_crossed(writer, axes):
        indent = open_rows(writer, axes[:-1], first, last, indent)
        _look_up_rows(writer, indent)
        return writer.open_loops(axes[-1:], indent)
    axis, text = axes[-1], writer.text
    count, begin, end = writer.extent(axis), f"i{axis}_begin", f"i{axis}_end"

    def tiles(indent: int, first: str, last: str) -> tuple[int, str, str]:
        text.add(indent, f"for {begin} in range(0, {count}, {TILE}):")
        text.add(indent + 1, f"{end} = minimum_i64({begin} + {TILE}, {count})")
        return indent + 1, first, last

    indent = open_rows(writer, axes[:-1], first, last, indent, tiles)
    text.add(indent, f"for i{axis} in range({begin}, {end}):")
    writer.variables[axis] = f"i{axis}"
    return indent + 1


def _look_up_rows(writer: Writer, indent: int) -> None:
    """Read, once for a row, the positions that are the same all along it: a loop that may end is no vector code."""
    along = [axis for axis in range(len(writer.nest.axes)) if axis not in writer.variables]
    for value in writer.group.values:
        if not looks_up(value) or not writer.looks_up_outside(value):
            continue
        access = writer.nest.reads.get(value.value_operands[-1])
        if access is None or access.layout is None:
            continue
        if all(is_zero(access.strides[axis]) for axis in along):
            writer.positions[value] = writer.checked_position(value, [{}], indent)


def _is_crossed(writer: Writer, axes: Sequence[int]) -> bool:
    """Are there operands that are contiguous along the last axis, and others along the one before it?"""
    if len(axes) < 2:
        return False
    nest = writer.nest
    found = [
        access.strides for access in (*nest.reads.values(), *nest.writes.values()) if access.layout
    ]
    along = any(is_one(strides[axes[-1]]) for strides in found)
    return along and any(
        is_one(strides[axes[-2]]) and not _is_flat(strides[axes[-1]]) for strides in found
    )


def _is_flat(stride: int) -> bool:
    return not is_symbolic(stride) and stride <= 1


def open_rows(
    writer: Writer,
    axes: Sequence[int],
    first: str,
    last: str,
    indent: int,
    between: Callable[[int, str, str], tuple[int, str, str]] = lambda *given: given,
    over: str = "range",
) -> int:
    """Open loops over the rows from ``first`` to ``last`` (texts) of some axes; the indent inside them.

    ``between`` opens loops around that over the last axis, given the indent and what that goes from and to; it gives
    the same inside its loops.
    """
    text = writer.text
    if len(axes) <= 1:
        indent, first, last = between(indent, first, last)
        text.add(indent, f"for row in {over}({first}, {last}):")
        writer.decompose(axes, "row", indent + 1)
        return indent + 1
    axis = axes[-1]
    count, begin, end = writer.extent(axis), f"i{axis}_begin", f"i{axis}_end"
    text.add(indent, f"row = {first}")
    text.add(indent, f"while row < {last}:")
    text.add(indent + 1, f"{begin} = row % {count}")
    text.add(indent + 1, f"{end} = minimum_i64({begin} + {last} - row, {count})")
    text.add(indent + 1, f"run = row // {count}")
    writer.decompose(axes[:-1], "run", indent + 1)
    text.add(indent + 1, f"row = row + ({end} - {begin})")
    indent, begin, end = between(indent + 1, begin, end)
    text.add(indent, f"for i{axis} in {over}({begin}, {end}):")
    writer.variables[axis] = f"i{axis}"
    return indent + 1
