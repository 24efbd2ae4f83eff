"""Planning what small matrices are taken apart into: native steps, which a loop can hold, instead of calls of LAPACK.

A matrix that needs an exception (a singular one, infinities) ends the program, and eager code is asked: so these steps
are only part of programs that may be refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ...codegen.products.vector_machine import vector_machine
from ...ir.graph import Value
from ...ops import decompositions, linear_algebra
from ...ops.shapes import numel
from ...ops.side_by_side import LEAST, MOST_COLUMNS, MOST_ELEMENTS, MOST_ROTATED
from ...ops.table import Op
from ...passes.windows.strips import at_most, equal
from ..lanes import lane_code
from ..machine_code.vector_modules import VectorModule, address
from .records import NamedStep

if TYPE_CHECKING:
    from .plan import Planner

__all__ = ["factors_module", "is_factored", "plan_factors"]

#: Most columns of matrices of which there are few, that do not fill the lanes.
MOST_ALONE = 16
#: Columns on the right from which on each has a lane.
MANY_COLUMNS = 8


class _Kernel(NamedTuple):
    """The kernel for an op; ``alone``: is its result the only one, so that few matrices may have it of a kernel?

    With ``columns``, the columns on the right have a lane each, and the matrix is in all of them.
    """

    name: str
    alone: bool = True
    columns: bool = False


_KERNELS: dict[Op, _Kernel] = {
    linear_algebra.inverse: _Kernel("inv"),
    linear_algebra.solve: _Kernel("solve"),
    linear_algebra.solve_triangle: _Kernel("triangle"),
    linear_algebra.determinant: _Kernel("det"),
    decompositions.cholesky_lower: _Kernel("cholesky"),
    decompositions.lu_packed: _Kernel("lu"),
    decompositions.qr_packed: _Kernel("qr"),
    decompositions.eigen_symmetric: _Kernel("eigh", alone=False),  # the signs of vectors differ
    decompositions.svd_packed: _Kernel("svd", alone=False),
}

#: From rows and columns, and columns on the right, the numbers that a kernel is given; others are given the rows.
_NUMBERS: dict[str, Callable[[Any, Any, Any], tuple[Any, ...]]] = {
    "solve": lambda m, n, right: (m, right),
    "solve_columns": lambda m, n, right: (m, right),
    "triangle": lambda m, n, right: (m, right),
    "lu": lambda m, n, right: (m, n),
    "lu_regular": lambda m, n, right: (m, n),
    "qr": lambda m, n, right: (m, n),
    "svd": lambda m, n, right: (m, n),
}


def _kernel_of(value: Value) -> _Kernel | None:
    """The kernel that computes a value, which may depend on what is asked for."""
    if value.op is decompositions.lu_packed and not value.attributes["singular"]:
        return _Kernel("lu_regular")
    if value.op is linear_algebra.solve and at_most(MANY_COLUMNS, value.spec.shape[-1]):
        return _Kernel("solve_columns", columns=True)
    return _KERNELS.get(value.op) if value.op is not None else None


def is_factored(value: Value) -> bool:
    """Is this something that a kernel on small matrices computes, on a host with vectors?

    What depends on sizes holds for those of present, and is decided.

    >>> from tracejit.ir import parse
    >>> is_factored(parse("graph f(x: f32[99, 99]) { %0: f32[99, 99] = inverse(x) return %0 }").outputs[0])
    False
    """
    kernel = _kernel_of(value)
    if kernel is None or vector_machine() is None:
        return False
    operands = value.value_operands
    kinds = {x.spec.dtype.short for x in operands}
    if len(kinds) != 1 or not kinds <= {"f32", "f64"}:
        return False
    batch = operands[0].spec.shape[:-2]
    if not all(equal(x.spec.shape[:-2], batch) for x in operands) or not at_most(
        1, value.spec.numel
    ):
        return False
    if kernel.columns:
        return at_most(operands[0].spec.shape[-1], MOST_ALONE)
    return all(_is_small(x, kernel) for x in operands)


def _is_small(x: Value, kernel: _Kernel) -> bool:
    *batch, rows, columns = x.spec.shape
    most = MOST_ROTATED if x.spec.dtype.short == "f64" and not kernel.alone else MOST_COLUMNS
    if not at_most(LEAST, numel(tuple(batch))):
        if not kernel.alone:
            return False
        most = MOST_ALONE
    return at_most(columns, most) and at_most(rows * columns, MOST_ELEMENTS)


def factors_module(value: Value) -> VectorModule:
    """The native code that computes a value.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[3, 3]) { %0: f32[3, 3] = inverse(x) return %0 }")
    >>> vector_machine() is None or factors_module(graph.outputs[0]).symbol
    'tracejit_checked_inv'
    """
    kernel = _kernel_of(value)
    assert kernel is not None
    return lane_code(kernel.name, value.value_operands[0].spec.dtype.short, checked=True)


def plan_factors(planner: Planner, value: Value) -> None:
    """The step that computes a value from operands that lie one matrix after the other.

    >>> from tracejit.ir import parse
    >>> from tracejit.runtime.plan.plan import make_plan
    >>> graph = parse("graph f(x: f32[3, 3]) { %0: f32[3, 3] = inverse(x) return %0 }")
    >>> vector_machine() is None or [step.name for step in make_plan(graph, [(3, 1)], may_refuse=True).items]
    ['inv']
    """
    kernel = _kernel_of(value)
    assert kernel is not None
    name = kernel.name
    x, last = value.value_operands[0], value.value_operands[-1]
    rows, columns = x.spec.shape[-2:]
    numbers = _NUMBERS.get(name, lambda m, n, right: (m,))(rows, columns, last.spec.shape[-1])
    if name == "triangle":
        numbers = (*numbers, int(value.attributes["lower"]))
    machine: Any = vector_machine()
    lanes, count = machine.vector // x.spec.dtype.itemsize, numel(x.spec.shape[:-2])
    tiles, outside = -(-count // lanes), x.spec.ndim - 2
    size = sum(numel(v.spec.shape[outside:]) + lanes for v in (*value.value_operands, value))
    if kernel.columns:
        tiles, size = count * -(-last.spec.shape[-1] // lanes), rows * (rows + 1)
    places = [planner.where(v) for v in value.value_operands]
    places.append(planner.argument(planner.place(value), 0))
    words = [*places, *((-1, n) for n in (*numbers, count, 2 * size))]
    code = address(factors_module(value), planner.ahead)
    moved = (sum(v.spec.nbytes for v in value.value_operands), value.spec.nbytes)
    planner.items.append(NamedStep(code, words, (-1, tiles), 1, name=name, moved=moved))
