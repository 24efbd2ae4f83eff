"""Asking for the rows of the next batch while those of this one are worked on.

A first pass over a row that computes little waits for memory, while the later ones compute and leave memory alone.
Their time is long enough for what the first pass of the next batch reads.
"""

from __future__ import annotations

from collections.abc import Set

from ...ir.graph import Value
from ...passes.fusion.groups import is_elementary
from ...sizes import largest, smallest
from ..nest import is_one, is_zero
from .batches import Batches
from .cpu import Writer

#: Bytes of a line of the cache, and so many lines at most that are asked for: long rows stream.
LINE, MOST_LINES = 64, 256
#: Bytes of an operand that is worth it: a smaller one is in the second-level cache.
LEAST = 1 << 20


def ask_for_rows(writer: Writer, batches: Batches, first: Set[Value], indent: int) -> None:
    """Ask for the same row of the next batch, of all operands that have a row for it where elements lie side by side.

    ``first`` is what the first pass evaluates.
    """
    nest, text = writer.nest, writer.text
    if not nest.kept or not nest.reduced or any(map(is_elementary, first)):
        return
    inner, row = nest.reduced[-1], nest.kept[-1]
    kept = dict(writer.variables)
    for value, access in nest.reads.items():
        if (
            access.layout is None
            or not is_one(access.strides[inner])
            or is_zero(access.strides[row])
        ):
            continue
        elements = LINE // value.spec.dtype.itemsize
        nbytes = writer.extents_product(range(len(nest.axes))) * value.spec.dtype.itemsize
        most = smallest(MOST_LINES, nbytes // LEAST * MOST_LINES)
        lines = smallest(most, -(-largest(nest.axes[inner].extent, 1) // elements))
        pointer = writer.pointer(value, access, written=False)
        writer.variables = kept | dict.fromkeys(nest.reduced, "0")
        writer.variables[row] = f"({kept[row]} + {batches.rows})"
        # What is asked for is what the loop counts: quick code would compute anything else in every round.
        begins = writer.fresh()
        ends = f"{begins} + {writer.number(f'{pointer}_lines', lines)} * {elements}"
        text.add(indent, f"{begins} = {writer.address(access, pointer)}")
        text.add(indent, f"for element in range({begins}, {ends}, {elements}):")
        text.add(indent + 1, f"asked = ask_for({pointer}, element)")
    writer.variables = kept
