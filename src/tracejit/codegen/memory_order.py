"""The axes of a group in the order in which its results lie, those of a reduction in that of its operands.

A group walks its axes in the order of the program's dimensions. An operand that came in transposed lies the other way
round: its columns are rows in memory. Loops in the order of memory read it line by line, and what would reduce rows
whose elements are far apart reduces columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..extents import hint
from ..ir.graph import Value
from ..passes.fusion.groups import FULL, ROW, Dims, Group, picks_from_row, root
from ..types import Shape
from .nest import Layout, axis_strides, index_source, is_one


def in_memory_order(
    group: Group, outputs: Sequence[Value], layout_of: Callable[[Value], Layout]
) -> Group:
    """``group`` with its axes in the order of its results in memory, where it reduces in that of what it walks whole.

    >>> from tracejit.ir import parse
    >>> from tracejit.runtime.plan.plan import make_plan
    >>> graph = parse("graph f(x: f32[9, 5]) { %0: f32[9] = sum(x, dims=(1,), keepdim=False) return %0 }")
    >>> ["reduces outer axes" in make_plan(graph, [s]).kernels[0].source for s in ((5, 1), (1, 9))]
    [False, True]
    """
    if not group.reduced:
        return _as_written(group, outputs, layout_of)
    if (group.ends_in_final and group.kept) or group.ends_in_columns:
        return group
    walked = _walked_whole(group, outputs, layout_of)
    last = len(group.domain) - 1
    lines = [next((a for a, s in enumerate(strides) if is_one(s)), None) for strides in walked]
    if not lines or 2 * sum(a in (last, None) for a in lines) >= len(lines):
        return group
    along = next(strides for strides, a in zip(walked, lines, strict=True) if a not in (last, None))
    order = sorted(range(len(group.domain)), key=lambda axis: -abs(hint(along[axis])))
    found = _reordered(group, order)
    return found if not found.is_column or _fits_columns(group) else group


def _as_written(
    group: Group, outputs: Sequence[Value], layout_of: Callable[[Value], Layout]
) -> Group:
    """Points in the order in which all results lie; what is read may lie across."""
    written = [tuple(axis_strides(group, group.dims[v], layout_of(v).strides)) for v in outputs]
    lines = {next((a for a, s in enumerate(strides) if is_one(s)), None) for strides in written}
    if len(lines) != 1 or lines & {len(group.domain) - 1, None}:
        return group
    order = sorted(range(len(group.domain)), key=lambda axis: -abs(hint(written[0][axis])))
    return _reordered(group, order)


def short_lines_last(
    group: Group, outputs: Sequence[Value], layout_of: Callable[[Value], Layout], longest: int
) -> Group | None:
    """``group`` walked along short lines of its operands' memory, which lie across all results; None without any.

    Pixels of three colours are such lines where results are a plane for each colour. The last axis is the line, of at
    most ``longest`` elements.

    >>> from tracejit.ir import parse
    >>> from tracejit.runtime.plan.plan import make_plan
    >>> graph = parse("graph f(x: u8[3, 90, 90]) { %0: u8[3, 90, 90] = bitwise_not(x) return %0 }")
    >>> "# [90, 90, 3]: pointwise" in make_plan(graph, [(1, 270, 3)]).kernels[0].source
    True
    """
    if group.reduced or len(group.domain) < 2:
        return None
    last = len(group.domain) - 1
    written = [axis_strides(group, group.dims[v], layout_of(v).strides) for v in outputs]
    if not all(is_one(strides[last]) for strides in written):
        return None
    for value, dims in group.externals.items():
        strides = axis_strides(group, dims, layout_of(value).strides)
        line = next((a for a, s in enumerate(strides[:last]) if is_one(s)), None)
        if (
            line is None
            or index_source(value) is not None
            or not 0 < hint(strides[last]) <= longest
        ):
            continue
        if value.spec.dtype.is_half and any(v.spec.dtype.is_half for v in outputs):
            continue  # read and written one by one (`turns`)
        if 1 < hint(group.domain[line]) <= hint(strides[last]):
            return _reordered(group, [*(a for a in range(last + 1) if a != line), line])
    return None


def _walked_whole(
    group: Group, outputs: Sequence[Value], layout_of: Callable[[Value], Layout]
) -> list[Shape]:
    """The strides of all operands and results that have an element of their own at every point."""
    places = {x: d for x, d in group.externals.items() if index_source(x) is None}
    places.update({v: group.dims[v] for v in outputs if group.level[v] == FULL})
    found = [axis_strides(group, d, layout_of(x).strides) for x, d in places.items()]
    return [tuple(strides) for strides in found if all(hint(s) != 0 for s in strides)]


def _fits_columns(group: Group) -> bool:
    """Can accumulators be vectors along a kept axis? There is no second pass then, and no row to pick from."""
    for value in group.values:
        operands = [root(x) for x in value.value_operands if x not in group.externals]
        returns = any(group.level.get(x) == ROW for x in operands)
        if picks_from_row(value) or (group.level[value] == FULL and returns):
            return False
    return True


def _reordered(group: Group, order: Sequence[int]) -> Group:
    """The same group, the axes at ``order`` of its domain one after the other."""
    new = {axis: place for place, axis in enumerate(order)}

    def renamed(dims: Dims) -> Dims:
        return tuple(None if a is None else new[a] for a in dims)

    return Group(
        [group.domain[a] for a in order],
        frozenset(new[a] for a in group.reduced or ()),
        group.values,
        {v: renamed(d) for v, d in group.dims.items()},
        group.level,
        {v: renamed(d) for v, d in group.externals.items()},
        group.tables,
    )
