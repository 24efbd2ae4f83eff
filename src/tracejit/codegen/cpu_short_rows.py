"""Rows of a few elements: every element is printed apart, so that the vector units work on many rows at once.

A loop over three elements fills no vector, and what follows for the row (a root, a division) is computed one row at a
time. Without the loop the rows themselves are the innermost loop. The length of the row becomes part of the text; a
kernel of this kind serves rows of one length.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..extents import hint
from ..passes.groups import FULL, LONGEST_ROW, picks_from_row, varies
from .cpu import Scope, Writer
from .turns import MOST_APART

#: The most operations that the elements of a row may have in all, of few points and of many: the text grows with them.
FEW_OPERATIONS, MOST_OPERATIONS = 128, 256
#: The same where nothing is reduced, and how many points are many: then a kernel of its own is worth while.
MOST_AT_ENDS, LEAST_POINTS = 100, 1 << 13
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

    As many axes are last as leave one before them that fills vectors.
    """
    extents = [writer.nest.axes[axis].extent for axis in axes]
    loops = len(axes) - 1
    while loops > 1 and not varies(extents[loops - 1]) and extents[loops - 1] < LEAST_ROUNDS:
        loops -= 1
    ends = axes[loops:]
    count = writer.extents_product(ends)
    most = LONGEST_END if len(ends) == 1 else MOST_APART
    if any(value.spec.dtype.is_half for value in writer.nest.writes):
        most = MOST_HALVES
    if loops < 1 or varies(count) or not 0 < count <= most:
        return None
    if count * len(writer.group.values) > MOST_AT_ENDS:
        return None
    if hint(writer.extents_product(axes)) < LEAST_POINTS:
        return None
    writer.turns.rows, writer.turns.apart = axes[loops - 1], tuple(ends)
    ranges = [range(int(extent)) for extent in extents[loops:]]
    return [dict(zip(ends, map(str, place), strict=True)) for place in itertools.product(*ranges)]
