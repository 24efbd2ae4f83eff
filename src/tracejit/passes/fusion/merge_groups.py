"""Merging groups over the same axes into one kernel, where that is legal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.graph import Value
from ...ops.table import Reduction
from .axes import renames_axes, through_view
from .groups import (
    COLUMN,
    FINAL,
    MAX_GROUP,
    MAX_POINTERS,
    ROW,
    Dims,
    Group,
    as_columns,
    as_rows,
    picks_from_row,
    root,
)
from .steps import Steps


class Merger(Steps):
    """Steps of which two groups may become one."""

    def __init__(self, before: Mapping[Value, Sequence[Value]], across: bool) -> None:
        super().__init__(before)
        self.across = across  # may a kernel reduce columns beside rows?
        self.order: dict[Value, int] = {}  # in which values are computed

    def inside(self, group: Group, value: Value) -> bool:
        """Is a value (or what it shows) computed in the group?"""
        step = self.where.get(root(value))
        return step is not None and self.steps[step] is group

    def operand_dims(self, group: Group, value: Value) -> Dims | None:
        """Axes of an operand computed in the group (through renaming views), else None."""
        if value in group.dims:
            return group.dims[value]
        if value.op is not None and renames_axes(value):
            inner = self.operand_dims(group, value.value_operands[0])
            return None if inner is None else through_view(value, inner)
        return None

    def merge(self, first: int, second: int) -> bool:
        """Merge two groups over the same axes, if no third step stands between them; were they?"""
        a, b = self.group(first), self.group(second)
        turned: Group | None = None
        if a.domain != b.domain:
            lifted = as_rows(b, a)
        elif self.across and a.reduced and b.reduced and a.reduced != b.reduced:
            turned = as_columns(a, b)
            lifted = as_columns(b, a) if turned is None else b
        else:
            lifted = b
        if lifted is None or not self._mergeable(turned or a, lifted, first, second):
            return False
        b = lifted
        if turned is not None:
            a.reduced, a.level = turned.reduced, turned.level
        for v in b.values:
            a.values.append(v)
            a.dims[v] = b.dims[v]
            a.level[v] = b.level[v]
            self.where[v] = first
        for x, dims in b.externals.items():
            if self.where.get(root(x)) != first:
                a.externals[x] = dims
        for x in [x for x in a.externals if self.where.get(root(x)) == first]:
            del a.externals[x]
        a.values.sort(key=self.order.__getitem__)
        a.reduced = a.reduced or b.reduced
        a.tables |= b.tables
        self.absorb(first, second)
        return True

    def _mergeable(self, a: Group, b: Group, first: int, second: int) -> bool:
        if a.domain != b.domain or not fits_one_kernel(a, b):
            return False
        if a.reduced and b.reduced and a.reduced != b.reduced:
            return False
        pair = (a, b)
        if any(g.ends_in_final for g in pair) and any(g.ends_in_columns for g in pair):
            return False
        for x, dims in b.externals.items():
            inside = self.operand_dims(a, x)
            if inside is not None and not _shows(inside, dims, b, x):
                return False
            if inside is None and (
                self.where.get(root(x)) == first or a.externals.get(x, dims) != dims
            ):
                return False
        for x, dims in a.externals.items():
            inside = self.operand_dims(b, x)
            if inside is not None and not _shows(inside, dims, a, x):
                return False
            if inside is None and self.where.get(root(x)) == second:
                return False
        if self._reads_late(a, b) or self._reads_late(b, a):
            return False
        if any(self.where.get(root(x)) in (first, second) for x in a.tables | b.tables):
            return False
        return self.may_meet(first, second)

    def _reads_late(self, a: Group, b: Group) -> bool:
        """Would ``b`` read a final result of ``a`` inside its loops?"""
        for x in b.externals:
            level = a.level.get(root(x))
            if level == COLUMN or (level == ROW and a.is_column):
                return True
            if level == FINAL and not all(
                b.level[v] == FINAL and not isinstance(v.op, Reduction)
                for v in b.values
                if any(o is x for o in v.value_operands)
            ):
                return True
        return False


def _shows(inside: Dims, dims: Dims, group: Group, x: Value) -> bool:
    """Is what has axes ``inside`` in its group the same as ``x`` that ``group`` reads along ``dims``?

    It may be repeated along some, but a reduction counts every repeat.
    """
    if inside == dims:
        return True
    if any(a is not None and a != b for a, b in zip(inside, dims, strict=True)):
        return False
    users = (v for v in group.values if any(o is x for o in v.value_operands))
    return not any(isinstance(v.op, Reduction) or picks_from_row(v) for v in users)


def fits_one_kernel(a: Group, b: Group) -> bool:
    """Are two groups together small enough?"""
    if a.is_long_sum or b.is_long_sum or len(a.values) + len(b.values) > MAX_GROUP:
        return False
    return len(a.externals) + len(b.externals) <= MAX_POINTERS
