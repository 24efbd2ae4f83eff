"""Printing the loop over a part of all rows, where several axes make one running number.

The number is divided into its axes once for every run along the last of them, not for every row: two divisions take
longer than a short row.
"""

from __future__ import annotations

from collections.abc import Sequence

from .cpu import Writer


def open_rows(writer: Writer, axes: Sequence[int], first: str, last: str, indent: int) -> int:
    """Open loops over the rows from ``first`` to ``last`` (texts) of some axes; the indent inside them."""
    text = writer.text
    if len(axes) <= 1:
        text.add(indent, f"for row in range({first}, {last}):")
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
    text.add(indent + 1, f"for i{axis} in range({begin}, {end}):")
    writer.variables[axis] = f"i{axis}"
    return indent + 2
