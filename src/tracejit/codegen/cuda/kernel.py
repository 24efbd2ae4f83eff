"""Printing a group as device kernels, in the form its reductions ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...ir.graph import Value
from ...passes.fusion.groups import Group
from ..nest import Layout
from .columns import write_columns
from .cuda import DeviceWriter
from .launch import DeviceCode
from .points import write_point_reduction, write_points
from .rows import write_rows

__all__ = ["write_device_kernel"]


def write_device_kernel(
    group: Group,
    outputs: Sequence[Value],
    layout_of: Callable[[Value], Layout],
    name: str,
    overwrites: Mapping[Value, Value],
) -> DeviceCode:
    """Print ``group`` for a device as ``codegen.cpu.kernel.write_kernel`` prints it for the host.

    >>> from tracejit.codegen.nest import Layout
    >>> from tracejit.codegen.scalar import printable
    >>> from tracejit.ir import parse
    >>> from tracejit.passes.fusion.fusion import fuse
    >>> graph = parse("graph f(x: f32[8, 2]) { %0: f32[8, 2] = exp(x) return %0 }")
    >>> (group,) = fuse(graph, printable).groups
    >>> dense = lambda value: Layout(value, 0, value.spec.contiguous_strides())
    >>> code = write_device_kernel(group, graph.outputs, dense, "k_exp", {})
    >>> [(launch.grid, len(launch.aligned)) for launch in code.launches]
    [(1, 2), (1, 0)]
    >>> print(code.launches[1].source)
    def k_exp(
        total: "i64",
        in0: "f32*",
        out0: "f32*",
    ) -> "i32":
        # [8, 2]: pointwise
        threads(256)
        for point in range(block() * 256 + thread(), total, blocks() * 256):
            v0 = in0[point]
            v1 = exp_f32(v0)  # exp: f32[8, 2]
            out0[point] = v1
        return 0
    <BLANKLINE>
    """
    writer = DeviceWriter(group, outputs, layout_of, name, overwrites)
    if not group.reduced:
        steps = write_points(writer)
    elif group.ends_in_final and not writer.nest.kept:
        steps = write_point_reduction(writer)
    elif group.is_column:
        steps = write_columns(writer)
    else:
        steps = write_rows(writer)
    return DeviceCode(name, steps, group, writer.outputs)
