"""Rows of a few elements: every element is printed apart, so that the vector units work on many rows at once.

A loop over three elements fills no vector, and what follows for the row (a root, a division) is computed one row at a
time. Without the loop the rows themselves are the innermost loop. The length of the row becomes part of the text; a
kernel of this kind serves rows of one length.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...extents import hint
from ...passes.fusion.groups import FULL, LONGEST_ROW, looks_up, picks_from_row, varies
from ..grain import evaluates_functions
from ..turns import MOST_APART
from .cpu import Scope, Writer

#: The most operations that the elements of a row may have in all, of few points and of many: the text grows with them.
FEW_OPERATIONS, MOST_OPERATIONS = 128, 256
#: The same where nothing is reduced, and how many points are many: then a kernel of its own is worth while.
MOST_AT_ENDS, LEAST_POINTS = 100, 1 << 13
#: Fewest terms of many small sums: without such a kernel each takes a call of a library.
LEAST_TERMS = 1 << 12
#: Fewest points of a last dimension of one element: a loop of one round takes as long as ten points.
LEAST_SINGLE = 1 << 10
#: The most functions that are evaluated apart: each is a hundred instructions, three times.
MOST_FUNCTIONS = 12
#: So many elements of a last dimension LLVM stores together, and so many rounds of a loop fill vectors.
LONGEST_END, LEAST_ROUNDS = 8, 16
#: Half precision, whose steps are not in the text (`turns`), is stored one by one: longer rows fill vectors better.
MOST_HALVES = 3


@dataclass
class Point:
    """One element of a row: its place along the reduced axes, and the variables that hold its values."""

    places: dict[int, str]
    scope: Scope = field(default_factory=dict)


def points_of_short_rows(writer: Writer) -> list[Point] | None:
    """The elements of a row one by one; None where rows are too long for that."""
    group, nest = writer.group, writer.nest
    operations = sum(group.level[v] == FULL for v in group.values)
    if not nest.kept or any(map(picks_from_row, group.values)):
        return None
    count = writer.extents_product(nest.reduced)
    if varies(count) or not 0 < count <= LONGEST_ROW:
        return None
    points = hint(writer.extents_product(range(len(nest.axes))))
    most = FEW_OPERATIONS if points < LEAST_POINTS else MOST_OPERATIONS
    if count * operations > most:
        return None
    writer.turns.rows = nest.kept[-1]
    ranges = [range(int(nest.axes[axis].extent)) for axis in nest.reduced]
    return [
        Point(dict(zip(nest.reduced, map(str, place), strict=True)))
        for place in itertools.product(*ranges)
    ]


def short_ends(writer: Writer, axes: Sequence[int]) -> list[dict[int, str]] | None:
    """The places along the last of several axes where nothing is reduced, if they are printed apart as well.

    Whether it pays is asked of what the sizes are now: only if it does, it is decided what they shall be.
    """
    values = writer.group.values
    if any(map(looks_up, values)) and evaluates_functions(values):
        return None  # a loop that may end at any position is no vector code; rows of it are
    count = hint(writer.extents_product(axes))
    few = MOST_AT_ENDS // max(len(values), 1)
    if any(value.spec.dtype.is_half for value in writer.nest.writes):
        few = min(few, MOST_HALVES)
    if count < LEAST_POINTS:
        few = 1 if count >= LEAST_SINGLE else 0
    all_ends = _last_of(writer, axes)
    for first in range(len(all_ends)):
        ends = all_ends[first:]
        rounds = writer.nest.axes[axes[-len(ends) - 1]].extent
        if first and hint(rounds) < hint(writer.extents_product(ends)):
            continue  # a loop along the ends fills more of a vector
        found = _places(writer, axes, ends, min(few, LONGEST_END if len(ends) == 1 else MOST_APART))
        if found is not None:
            return found
    return None


def is_long_text(writer: Writer, ends: Sequence[dict[int, str]]) -> bool:
    """Are the places along the last axes better loops, around the one over points, for what is computed at each?"""
    functions = sum(evaluates_functions([value]) for value in writer.group.values)
    return len(ends) > 1 and functions * len(ends) > MOST_FUNCTIONS


def short_kept(writer: Writer) -> tuple[list[Point], list[dict[int, str]]] | None:
    """The elements of short rows, and the places along the last axes that are kept if those are as short.

    So many small products are printed: all terms of all elements of one.
    """
    points, kept, group = points_of_short_rows(writer), writer.nest.kept, writer.group
    if not points or len(kept) < 2:
        return None
    ends = _last_of(writer, kept)
    if any(not 0 < hint(writer.nest.axes[axis].extent) < LEAST_ROUNDS for axis in ends):
        return None
    operations = len(points) * sum(group.level[v] == FULL for v in group.values)
    most = min(MOST_APART, MOST_OPERATIONS // max(operations, 1))
    if hint(writer.extents_product(kept)) * len(points) < LEAST_TERMS:
        return None
    found = _places(writer, kept, ends, most)
    if found is None:
        return None
    writer.turns.apart += writer.nest.reduced
    return points, found


def _last_of(writer: Writer, axes: Sequence[int]) -> tuple[int, ...]:
    """The last of several axes, as many as leave one before them that fills vectors, or the first."""
    loops = max(len(axes) - 1, 0)
    while loops > 1:
        extent = writer.nest.axes[axes[loops - 1]].extent
        if varies(extent) or hint(extent) >= LEAST_ROUNDS:
            break
        loops -= 1
    return tuple(axes[loops:]) if loops else ()


def _places(
    writer: Writer, axes: Sequence[int], ends: tuple[int, ...], most: int
) -> list[dict[int, str]] | None:
    """The places along the last of several axes; None for more than ``most`` of them."""
    count = writer.extents_product(ends)
    if not ends or varies(count) or not 0 < hint(count) <= most:
        return None
    writer.turns.rows, writer.turns.apart = axes[-len(ends) - 1], ends
    ranges = [range(int(writer.nest.axes[axis].extent)) for axis in ends]
    return [dict(zip(ends, map(str, place), strict=True)) for place in itertools.product(*ranges)]
