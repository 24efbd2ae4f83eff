"""Printing what goes through a tensor along one dimension: positions of extremes and of the first few in order, running
sums, products, extremes and logarithms of sums of exponentials, and sums weighted by exponentials.

Rows are gone through one after the other where they lie along the dimension; where they lie across it, whole pieces of
neighbouring rows go together, so that memory is read in order.
"""

from __future__ import annotations

from collections.abc import Callable

from ...dtypes import bool_
from ...ir.graph import Value
from ..along import (
    EXTREMES,
    LEADING,
    LOG_OF_SUM,
    RUNNING,
    SO_FAR,
    WEIGHTED_SUMS,
    AlongWriter,
    layouts_along,
    walk_of,
)
from ..kernel import Function, KernelCode
from ..nest import Layout
from .extremes import best_of_blocks, block_extremes, row_extremes
from .leading import MOST, leading_along
from .logs import logs_along
from .totals import running_across, running_along
from .weighted_sums import weighted_along


def goes_along(value: Value) -> bool:
    """Does a kernel of this module compute a value?"""
    name = value.op.name if value.op is not None else ""
    if name == LEADING:
        if not 0 < value.attributes["count"] <= MOST:
            return False
    elif not (name in EXTREMES or name in SO_FAR or name in WEIGHTED_SUMS):
        return False
    x = value.value_operands[0].spec
    compares = not x.dtype.is_complex and (x.dtype is not bool_ or name in RUNNING)
    return compares and bool(x.shape) and x.numel != 0


def write_along(value: Value, out: Layout, layout_of: Callable[[Value], Layout]) -> KernelCode:
    """The kernel that writes a value, for which `goes_along` holds, into memory that lies like ``out``.

    >>> from tracejit.ir import parse
    >>> from tracejit.runtime.plan.plan import make_plan
    >>> graph = parse("graph f(x: f32[9, 5]) { %0: f32[9, 5] = cumsum(x, dim=0) return %0 }")
    >>> [kernel.name for kernel in make_plan(graph, [(5, 1)]).kernels]
    ['k_cumsum']
    """
    layouts = layouts_along(value, out, layout_of)
    writer = AlongWriter(value, walk_of(value, layouts), layouts)
    assert value.op is not None
    if value.op.name in SO_FAR:
        along = logs_along if value.op.name == LOG_OF_SUM else running_along
        write = running_across if writer.walk.across else along
        functions: tuple[Function, ...] = (write(writer),)
    elif value.op.name == LEADING:
        functions = (leading_along(writer),)
    elif value.op.name in WEIGHTED_SUMS:
        functions = (weighted_along(writer),)
    elif writer.walk.across:
        functions = (
            block_extremes(writer),
            best_of_blocks(AlongWriter(value, writer.walk, layouts)),
        )
    else:
        functions = (row_extremes(writer),)
    return KernelCode(writer.name, functions, None, (value,))
