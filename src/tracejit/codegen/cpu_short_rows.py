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

#: The most operations that the elements of a row may have in all, of few points and of many: the text grows with them.
FEW_OPERATIONS, MOST_OPERATIONS = 128, 256
#: The same where nothing is reduced, and how many points are many: then a kernel of its own is worth while.
MOST_AT_ENDS, LEAST_POINTS = 100, 1 << 13


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


def short_end(writer: Writer, axes: Sequence[int]) -> int | None:
    """How many elements the last of several axes has where nothing is reduced, if they are printed apart as well."""
    if len(axes) < 2:
        return None
    count = writer.nest.axes[axes[-1]].extent
    if varies(count) or not 0 < count <= LONGEST_ROW:
        return None
    if count * len(writer.group.values) > MOST_AT_ENDS:
        return None
    if hint(writer.extents_product(axes)) < LEAST_POINTS:
        return None
    writer.turns.rows = axes[-2]
    return int(count)
