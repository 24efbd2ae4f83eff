"""Printing a group as a CPU kernel, in the form its reductions ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...extents import hint
from ...ir.graph import Value
from ...passes.fusion.groups import Group
from ...sizes import largest
from ..grain import elements_per_chunk
from ..kernel import Function, KernelCode
from ..memory_order import in_memory_order, short_lines_last
from ..nest import Layout
from .columns import write_columns
from .cpu import Scope, Writer, describe_domain
from .crossed import SIDE, crossed_reads, open_squares, squares_of
from .reduce import write_blocks
from .rows import write_rows
from .rows_and_columns import write_rows_and_columns
from .running import open_points
from .short_rows import LONGEST_END, is_long_text, short_ends

__all__ = ["points_together", "write_kernel"]

#: Bytes of a line of memory, and how many elements in a row are moved in the time of one that has a line for itself.
_LINE_BYTES, _LINE = 64, 8


def write_kernel(
    group: Group,
    outputs: Sequence[Value],
    layout_of: Callable[[Value], Layout],
    name: str,
    overwrites: Mapping[Value, Value],
) -> KernelCode:
    """Print ``group`` as a kernel called ``name``; ``overwrites`` maps outputs to operands whose memory they take.

    >>> from tracejit.ir import parse
    >>> from tracejit.runtime.plan.plan import make_plan
    >>> graph = parse("graph f(x: f32[8]) { %0: f32[8] = exp(x) return %0 }")
    >>> print(make_plan(graph, [(1,)]).kernels[0].source)
    def k_exp(
        in0: "f32*",
        out0: "f32*",
        lo: "i64",
        hi: "i64",
        worker: "i64",
    ) -> "i32":
        # [8]: pointwise
        for i0 in range(lo, hi):
            v0 = in0[i0]
            v1 = exp_f32(v0)  # exp: f32[8]
            out0[i0] = v1
        return 0
    <BLANKLINE>
    """
    writer = _writer(group, outputs, layout_of, name, overwrites)
    if not group.reduced:
        functions: tuple[Function, ...] = (_write_points(writer),)
    elif group.ends_in_final:
        functions = write_blocks(writer)
    elif group.ends_in_columns:
        functions = write_rows_and_columns(writer)
    elif writer.group.is_column:
        functions = write_columns(writer)
    else:
        functions = (write_rows(writer),)
    return KernelCode(name, functions, group, writer.outputs)


def points_together(
    group: Group, outputs: Sequence[Value], layout_of: Callable[[Value], Layout]
) -> tuple[Group, int]:
    """A group without reductions as it is printed, and how many of its last points its range does not divide.

    Whoever gives a kernel a part of its range has to know which points that are.

    >>> from tracejit.ir import parse
    >>> from tracejit.runtime.plan.plan import make_plan
    >>> graph = parse("graph f(x: f32[90, 3]) { %0: f32[90, 3] = exp(x) return %0 }")
    >>> plan = make_plan(graph, [(4, 1)])
    >>> group, outputs = plan.schedule.steps[0], plan.legal.outputs
    >>> points_together(group, outputs, lambda x: Layout(x, 0, (3, 1) if x.op else (4, 1)))[1]
    3
    """
    writer = _writer(group, outputs, layout_of, "k", {})
    looped, _ = _looped(writer)
    kept = min(len(looped), 1)  # a loop over all there is, is the range itself
    if len(looped) > 1:
        kept = len(looped) - (2 if crossed_reads(writer, looped) else 1)
    return writer.group, writer.extents_product(range(kept, len(writer.nest.axes)))


def _writer(
    group: Group,
    outputs: Sequence[Value],
    layout_of: Callable[[Value], Layout],
    name: str,
    overwrites: Mapping[Value, Value],
) -> Writer:
    ordered = in_memory_order(group, outputs, layout_of)
    writer = _walked_by_lines(ordered, outputs, layout_of, name, overwrites)
    return writer or Writer(ordered, outputs, layout_of, name, overwrites)


def _walked_by_lines(
    group: Group,
    outputs: Sequence[Value],
    layout_of: Callable[[Value], Layout],
    name: str,
    overwrites: Mapping[Value, Value],
) -> Writer | None:
    """A writer that walks along short lines of its operands' memory, if those are printed apart."""
    lines = short_lines_last(group, outputs, layout_of, LONGEST_END)
    if lines is None:
        return None
    writer = Writer(lines, outputs, layout_of, name, overwrites)
    _, ends = _looped(writer)
    return writer if ends is not None and len(ends[0]) == 1 else None


def _looped(writer: Writer) -> tuple[tuple[int, ...], list[dict[int, str]] | None]:
    """The axes that are loops where nothing is reduced, and the places along those that are printed apart."""
    axes = tuple(range(len(writer.nest.axes)))
    ends = short_ends(writer, axes)
    return (axes if ends is None else axes[: -len(ends[0])]), ends


def _write_points(writer: Writer) -> Function:
    """No reduction: one pass over the points."""
    looped, ends = _looped(writer)
    outer = 0
    if ends is not None and len(looped) == 1 and is_long_text(writer, ends):
        outer, ends = _open_places(writer, ends), None
    indent, extent, grain, scope = _open_points(writer, looped, outer)
    for place in ends or [{}]:
        if place:
            writer.variables.update(place)
            scope = {}
        for value in writer.outputs:
            writer.write(value, writer.value(value, [scope], indent), indent)
    return writer.finish(extent, grain, writer.name, f"{describe_domain(writer.group)}: pointwise")


def _open_places(writer: Writer, ends: list[dict[int, str]]) -> int:
    """Open loops over places along the last axes, around the one over points; returns their number."""
    for depth, axis in enumerate(ends[0]):
        variable = writer.variables[axis] = f"i{axis}"
        extent = 1 + max(int(place[axis]) for place in ends)
        writer.text.add(1 + depth, f"for {variable} in range({extent}):")
    return len(ends[0])


def _open_points(writer: Writer, axes: tuple[int, ...], outer: int) -> tuple[int, int, int, Scope]:
    """Open the loops over all points, in so many others; returns indent, parallel extent, grain, what has been read."""
    elements = elements_per_chunk(writer.group.values)
    if axes and _goes_line_by_line(writer, axes[-1]):
        elements //= _LINE
    if len(axes) <= 1:
        writer.text.add(1 + outer, "for i0 in range(lo, hi):")
        if axes:
            writer.variables[0] = "i0"
        return 2 + outer, writer.extents_product(axes), elements, {}
    crossed = crossed_reads(writer, axes)
    if crossed:
        indent, scope = open_squares(writer, axes, crossed)
        return indent, squares_of(writer, axes), max(1, elements // SIDE**2), scope
    indent = open_points(writer, axes, "lo", "hi", 1)
    inner = largest(writer.nest.axes[axes[-1]].extent, 1)
    return indent, writer.extents_product(axes[:-1]), largest(1, elements // inner), {}


def _goes_line_by_line(writer: Writer, axis: int) -> bool:
    """Is what follows along an axis on another line of memory each time, in all that is written?"""
    writes = writer.nest.writes.items()
    return all(
        abs(hint(access.strides[axis])) * value.spec.dtype.itemsize >= _LINE_BYTES
        for value, access in writes
    )
