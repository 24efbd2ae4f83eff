"""Planning a matrix product as a step that calls BLAS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ops.shapes import numel
from ...sizes import largest
from ..blas import Gemm, gemm_step
from .views import PRODUCTS, matrix_layout

if TYPE_CHECKING:
    from ...ir.graph import Value
    from ..launcher import Step
    from .plan import Planner


def plan_product(planner: Planner, value: Value) -> Step | None:
    """The step of a product when its operands lie as BLAS can read them, None otherwise."""
    x, y = value.value_operands
    dtype, batch = x.spec.dtype, value.spec.shape[:-2]
    if value.spec.dtype.short not in PRODUCTS:
        return None
    left, right = planner.matrix(x, batch), planner.matrix(y, batch)
    if left is None or right is None:
        return None
    (a, lda, trans_a, stride_a), (b, ldb, trans_b, stride_b) = left, right
    m, n = value.spec.shape[-2:]
    slot = planner.place(value)
    row, _, stride = result_layout(planner, value)
    lying = (lda, ldb, row, trans_a, trans_b, numel(batch), stride_a, stride_b, stride)
    sizes = (m, n, x.spec.shape[-1])
    gemm = Gemm(dtype.short, a, b, planner.argument(slot, 0), *sizes, *lying)
    step = gemm_step(gemm, planner.ahead)
    if step is None:
        planner.arena.give(value)
        del planner.slots[value]
    return step


def result_layout(planner: Planner, value: Value) -> tuple[int, bool, Any]:
    """Leading dimension and batch stride of a product, which may lie in the memory of another value."""
    shape = value.spec.shape
    levels = planner.products.levels
    found = matrix_layout(shape, planner.layouts(value).strides, shape[:-2], levels)
    return found or (largest(shape[-1], 1), False, shape[-2] * shape[-1])
