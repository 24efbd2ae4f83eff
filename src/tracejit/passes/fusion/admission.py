"""Which values a group may compute: what its loops and levels can take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from ...extents import hint
from ...ir.graph import Graph, Value
from ...ops.table import Elementwise, Reduction
from ..loops.rounds import Rounds
from .axes import aligned, reduced_dims, trailing
from .groups import (
    COLUMN,
    FINAL,
    FULL,
    MAX_GROUP,
    MAX_POINTERS,
    ROW,
    Dims,
    Group,
    as_columns,
    is_elementary,
    is_random,
    is_view,
    picks_from_row,
    root,
)
from .merge_groups import Merger

__all__ = ["Admission"]


class Admission(Merger):
    """Steps of ``graph`` of which groups may take in values."""

    def __init__(
        self,
        graph: Graph,
        fusible: Callable[[Value], bool],
        before: Mapping[Value, Sequence[Value]],
        across: bool,
    ) -> None:
        super().__init__(before, across)
        self.graph = graph
        self.fusible = cache(fusible)
        self.order = {v: i for i, v in enumerate(graph.values)}
        self.readers = graph.users()
        self.shown = set(graph.outputs)
        self.rounds = Rounds()

    def admit(self, group: Group, value: Value) -> bool:
        """Add ``value`` to ``group`` if the group's loops can compute it."""
        if len(group.values) >= MAX_GROUP or len(group.externals) > MAX_POINTERS:
            return False
        if group.is_long_sum and value.op is not None and value.op.name == "add":
            return False
        read = () if is_random(value) else value.value_operands
        operands = [(x, self.operand_dims(group, x)) for x in read]
        if any(dims is None and self.inside(group, x) for x, dims in operands):
            return False
        if isinstance(value.op, Reduction):
            return self.admit_reduction(group, value, operands[0])
        if picks_from_row(value):
            return self.admit_pick(group, value, operands)
        return self.admit_elementwise(group, value, operands)

    def operand_level(self, group: Group, value: Value) -> str | None:
        """Level of the value an operand shows, None when it comes from outside."""
        source = root(value)
        return group.level.get(source) if self.inside(group, value) else None

    def admit_elementwise(
        self, group: Group, value: Value, operands: list[tuple[Value, Dims | None]]
    ) -> bool:
        """Add an elementwise value, which has what its operands and its extents allow as a level."""
        dims = aligned(group.domain, value.spec.shape, [d for _, d in operands if d is not None])
        if dims is None or (not group.domain and value.spec.shape):
            return False  # an extent that happens to be one is no reason to join a scalar's group
        levels = {self.operand_level(group, x) for x, _ in operands}
        if COLUMN in levels:
            return False
        used = {a for a in dims if a is not None}
        everything = set(range(len(group.domain)))
        if FINAL in levels:
            outside = any(x.spec.shape and d is None for x, d in operands)
            if used or ROW in levels or value.spec.numel != 1 or outside:
                return False
            level = FINAL
        elif used == everything and not (group.reduced and used <= set(group.kept)):
            level = FULL
        elif group.reduced and used == set(group.kept):
            level = ROW
            if FULL in levels or group.reduced == frozenset(everything):
                if FULL in levels:
                    return False
                level = FINAL
        else:
            return False
        if level == ROW and group.has_middling_rows and is_elementary(value):
            return not self.ends_with(group, value) and self.accept(
                group, value, dims, level, operands
            )
        if level == FULL and group.reduced and not self.may_return_to_full(group, levels, value):
            return False
        return self.accept(group, value, dims, level, operands)

    def may_return_to_full(self, group: Group, levels: set[str | None], value: Value) -> bool:
        """Column groups have no second pass; full reductions have no row to come back to.

        And what is only read to reduce columns belongs to their kernel, if that is another.
        """
        if ROW not in levels:
            return True
        return not group.is_column and not self.is_for_other_columns(group, value)

    def ends_with(self, group: Group, value: Value) -> bool:
        """Does nothing in ``group`` read ``value``, one for each row, or what elementwise work makes of it?

        A kernel for all rows computes that in lanes, which here is done row by row.
        """
        waiting, seen = [value], {value}
        while waiting:
            for user in self.readers.get(waiting.pop(), ()):
                if isinstance(user.op, Reduction):
                    return False
                if not is_view(user) and not isinstance(user.op, Elementwise):
                    continue
                wider = hint(user.spec.numel) > hint(value.spec.numel) and not is_view(user)
                if wider and not self.is_for_other_columns(group, user):
                    return False
                if not wider and user not in seen:
                    seen.add(user)
                    waiting.append(user)
        return True

    def is_for_other_columns(self, group: Group, value: Value) -> bool:
        """Is a value over all points of ``group`` only read by reductions of columns, which it may not have?"""
        if self.across and group.takes_columns and not group.ends_in_final:
            return False
        users = () if value in self.shown else self.readers.get(value, ())
        kept, width = frozenset(group.kept), value.spec.ndim - len(group.domain)
        return bool(users) and all(
            isinstance(user.op, Reduction)
            and not width
            and frozenset(user.attributes["dims"]) == kept
            for user in users
        )

    def admit_reduction(
        self, group: Group, value: Value, operand: tuple[Value, Dims | None]
    ) -> bool:
        """Add a reduction of all points, of rows, or of columns beside them."""
        x, dims = operand
        if dims is None:
            found = aligned(group.domain, x.spec.shape, [])
            if found is None:
                return False
            dims = found
        if any(
            axis is None and extent != 1 for axis, extent in zip(dims, x.spec.shape, strict=True)
        ):
            return False  # repeats of a broadcast element count, and no loop here repeats them
        axes = frozenset(a for d in value.attributes["dims"] if (a := dims[d]) is not None)
        everything = frozenset(range(len(group.domain)))
        level = self.operand_level(group, x) or FULL
        kept_dims = reduced_dims(value, dims)
        if level == FULL and frozenset(a for a in dims if a is not None) == everything:
            if group.reduced is None and self.only_full(group) and axes:
                group.reduced = axes
                result = FINAL if axes == everything else ROW
                return self.accept(group, value, kept_dims, result, [operand]) or self.undo(group)
            if group.reduced == axes and axes:
                result = FINAL if axes == everything else ROW
                return self.may_end(group, result) and self.accept(
                    group, value, kept_dims, result, [operand]
                )
            return self.admit_across(group, value, kept_dims, axes, operand)
        ends = level == ROW and axes == frozenset(group.kept) and not group.is_column
        if ends and axes and not group.lies_across:
            return self.may_end(group, FINAL) and self.accept(
                group, value, kept_dims, FINAL, [operand]
            )
        return False

    def may_end(self, group: Group, level: str) -> bool:
        """Partial results are those of all points, or of columns."""
        return level != FINAL or not group.ends_in_columns

    def admit_across(
        self,
        group: Group,
        value: Value,
        dims: Dims,
        axes: frozenset[int],
        operand: tuple[Value, Dims | None],
    ) -> bool:
        """Columns beside rows: the reduction goes over what the group keeps. Or all points beside rows."""
        if not self.across or not axes:
            return False
        if len(axes) == len(group.domain) and group.reduced and not group.is_column:
            ends = self.may_end(group, FINAL)
            return ends and self.accept(group, value, dims, FINAL, [operand])
        if axes != frozenset(group.kept):
            return False
        if group.is_column:  # the rows come second
            turned = as_columns(group, Group(group.domain, axes))
            if turned is None or not self.accept(group, value, dims, ROW, [operand]):
                return False
            group.reduced = axes
            group.level.update(turned.level)
            return True
        if group.ends_in_final or not group.takes_columns:
            return False
        return self.accept(group, value, dims, COLUMN, [operand])

    def admit_pick(
        self, group: Group, value: Value, operands: list[tuple[Value, Dims | None]]
    ) -> bool:
        """One element per row, at a computed position: the row's expression evaluated there."""
        (x, dims), (index, _) = operands
        if dims is None or group.level.get(root(x)) != FULL or group.is_column:
            return False
        if any(
            axis is None and extent != 1 for axis, extent in zip(dims, x.spec.shape, strict=True)
        ):
            return False
        dim = value.attributes["dim"]
        if group.reduced != frozenset({dims[dim]}) or self.operand_level(group, index) not in (
            None,
            ROW,
        ):
            return False
        picked = tuple(None if d == dim else a for d, a in enumerate(dims))
        return self.accept(group, value, picked, ROW, [operands[1]])

    def undo(self, group: Group) -> bool:
        """Reduce nothing after all."""
        group.reduced = None
        return False

    def only_full(self, group: Group) -> bool:
        """Is every value so far computed at all points?"""
        return all(level == FULL for level in group.level.values())

    def accept(
        self,
        group: Group,
        value: Value,
        dims: Dims,
        level: str,
        operands: list[tuple[Value, Dims | None]],
    ) -> bool:
        """Enter ``value``; operands from outside must be readable along the group's axes."""
        new: dict[Value, Dims] = {}
        for x, inner in operands:
            if inner is not None:
                continue
            if isinstance(value.op, Reduction):
                found: Dims | None = aligned(group.domain, x.spec.shape, [])
            else:
                found = trailing(x.spec.shape, value.spec.shape, dims)
            if found is None or group.externals.get(x, found) != found:
                return False
            new[x] = found
        group.externals.update(new)
        group.values.append(value)
        group.dims[value] = dims
        group.level[value] = level
        self.rounds.enter(group, value)
        return True
