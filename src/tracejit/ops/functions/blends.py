"""Sums of a tensor and a product, both scaled. Half precision is rounded on the host where PyTorch rounds it.

Products of matrices are added before they are rounded. By vectors, numbers and what they scale are rounded, too.
"""

from __future__ import annotations

from ...dtypes import DType
from ...errors import ShapeError
from .. import elementwise as e
from .. import reduction as r
from .. import shapes
from ..precision import given_precision, lower_precision
from ..table import function
from .common import Number, Tensor, as_type, constant, promoted, shape_of, with_zero_gradient
from .matrices import before_a_sum, of_batches, of_matrices, of_vector, outer
from .slicing import select


def blend(
    input: Tensor, product: Tensor, beta: Number, alpha: Number, kind: DType | None = None
) -> Tensor:
    """``beta * input + alpha * product``; with ``beta`` 0, what is in ``input`` does not matter.

    ``kind`` is the dtype of the sum, the promoted one unless given.

    Integers and bool are scaled by whole numbers. Raises ``RuntimeError`` for an ``input`` that is no part of the sum.
    """
    shape = shape_of(product)
    if shapes.broadcast("add", [shape_of(input), shape]) != shape:
        raise ShapeError(
            f"The expanded size of the tensor {list(shape)} must match the existing size {list(input.shape)} "
            "at every non-singleton dimension"
        )
    kind = kind or promoted(input, product)
    if kind.is_half:
        input = as_type(input, product.dtype)
    if not kind.is_differentiable:
        beta, alpha = int(beta), int(alpha)
    return as_type(_sum_of_scaled(input, product, beta, alpha), kind)


def _sum_of_scaled(input: Tensor, product: Tensor, beta: Number, alpha: Number) -> Tensor:
    scaled = product if alpha == 1 else e.mul(product, alpha)
    if beta == 0:
        return with_zero_gradient(scaled, input)
    return e.add(input if beta == 1 else e.mul(input, beta), scaled)


def _times(x: Tensor, number: Number) -> Tensor:
    """``number * x``, the number rounded as ``x`` is."""
    return x if number == 1 else e.mul(x, constant(number, x.dtype))


@function(within=lower_precision, steady=True)
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)``.

    >>> import tracejit as tj
    >>> tj.addmm(tj.ones(1), tj.ones(1, 2), tj.ones(2, 1))
    tensor([[3.]])
    """
    product = of_matrices(mat1, mat2, before_a_sum(mat1, mat2))
    return blend(input, product, beta, alpha, promoted(input, mat1))


@function(within=given_precision)
def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    """``beta * input + alpha * (mat @ vec)``.

    >>> import tracejit as tj
    >>> tj.addmv(tj.ones(1), tj.ones(1, 2), tj.ones(2))
    tensor([3.])
    """
    product = of_vector(mat, vec, before_a_sum(mat, vec))
    kind = promoted(input, mat)
    if kind.is_half and product.dtype is not kind:
        rounded = as_type(constant(alpha, kind), product.dtype)
        return blend(_times(input, beta), e.mul(product, rounded), beta != 0, 1, kind)
    return blend(input, product, beta, alpha, kind)


@function()
def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    """``beta * input + alpha * outer(vec1, vec2)``.

    >>> import tracejit as tj
    >>> tj.addr(tj.ones(1, 1), tj.ones(1), tj.ones(1))
    tensor([[2.]])
    """
    if vec1.dtype.is_half and input.dtype is vec1.dtype:
        return blend(_times(input, beta), outer(_times(vec1, alpha), vec2), beta != 0, 1)
    return blend(input, outer(vec1, vec2), beta, alpha)


@function(within=lower_precision, steady=True)
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    """``beta * input + alpha * bmm(batch1, batch2)``.

    >>> import tracejit as tj
    >>> tj.baddbmm(tj.ones(1), tj.ones(1, 1, 2), tj.ones(1, 2, 1))
    tensor([[[3.]]])
    """
    product = of_batches(batch1, batch2, before_a_sum(batch1, batch2))
    return blend(input, product, beta, alpha, promoted(input, batch1))


@function(within=lower_precision)
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    """``beta * input + alpha * the sum of bmm(batch1, batch2)``.

    >>> import tracejit as tj
    >>> tj.addbmm(tj.ones(1), tj.ones(2, 1, 2), tj.ones(2, 2, 1))
    tensor([[5.]])
    """
    product = of_batches(batch1, batch2, before_a_sum(batch1, batch2))
    kind = promoted(input, batch1)
    if kind.is_half and product.dtype is not kind:  # what is added up is rounded each time
        for i in range(shape_of(product)[0]):
            input = blend(input, select(product, 0, i), 1 if i else beta, alpha, kind)
        if shape_of(product)[0]:
            return input
    total = as_type(r.sum(product, dims=(0,), keepdim=False), product.dtype)
    return blend(input, total, beta, alpha, kind)
