"""Matrix products in all their forms."""

from __future__ import annotations

from typing import Any

from ...dtypes import DType, float32, float64
from ...errors import DtypeError, ShapeError
from ...modes import MODES
from .. import contraction as k
from .. import elementwise as e
from .. import movement as m
from .. import reduction as r
from .. import shapes
from ..linear_algebra import inverse
from ..precision import full_precision, given_precision
from ..table import alias, function
from .common import (
    Tensor,
    alone,
    as_type,
    check_tensor,
    dim_of,
    shape_of,
    with_zero_gradient,
)


@function(steady=True)
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product; vectors act as a row or a column, leading dimensions broadcast.

    Raises ``RuntimeError`` when inner sizes or dtypes differ, or an operand is 0-d.

    >>> import tracejit as tj
    >>> tj.matmul(tj.tensor([[1.0, 2.0], [3.0, 4.0]]), tj.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    return times(input, other)


def times(input: Tensor, other: Tensor, dtype: DType | None = None) -> Tensor:
    """:func:`matmul`, of half precision in float32 where that is ``dtype``."""
    check_tensor("matmul", input)
    check_tensor("matmul", other, "other", 2)
    a, b = len(input.spec.shape), len(other.spec.shape)
    if a == 2 and b == 2:
        return _multiplied(input, other, dtype)
    if not a or not b:
        raise ShapeError(
            f"both arguments to matmul need to be at least 1D, but they are {a}D and {b}D"
        )
    if a == b == 1 and _is_inner_product(input, other):
        return r.sum(e.mul(input, other), dims=(0,), keepdim=False)
    left = m.unsqueeze(input, dims=(0,)) if a == 1 else input
    right = m.unsqueeze(other, dims=(1,)) if b == 1 else other
    result = _product(left, right, dtype)
    drop = tuple(d for d, gone in ((result.ndim - 2, a == 1), (result.ndim - 1, b == 1)) if gone)
    return alone(m.squeeze(result, dims=drop)) if drop else result


def _is_inner_product(x: Tensor, y: Tensor) -> bool:
    """Are these vectors of one length whose products need no other numbers than they are?"""
    kind = x.spec.dtype
    same = kind is y.spec.dtype and shape_of(x) == shape_of(y)
    return same and kind in (float32, float64) and MODES.autocast is None


def _product(left: Tensor, right: Tensor, dtype: DType | None) -> Tensor:
    """Many matrices times one matrix is one larger product."""
    shape = shape_of(left)
    if len(shape) == 2 or right.ndim > 2 or shape[-1] != shape_of(right)[0]:
        return _multiplied(left, right, dtype)
    rows = m.reshape(left, shape=(shapes.numel(shape[:-1]), shape[-1]))
    product = _multiplied(rows, right, dtype)
    return alone(m.reshape(product, shape=(*shape[:-1], shape_of(right)[1])))


def _multiplied(x: Tensor, y: Tensor, dtype: DType | None) -> Tensor:
    return k.matmul(x, y) if dtype is None else k.matmul(x, y, dtype=dtype)


def before_a_sum(x: Tensor, y: Tensor) -> DType | None:
    """The dtype of a product that something is added to: of half precision float32, so that the sum is rounded once.

    On a device it is written as it is: in half of the memory.
    """
    same = x.spec.dtype.is_half and y.spec.dtype is x.spec.dtype
    return float32 if same and not getattr(x, "is_cuda", False) else None


def _check_rank(name: str, ndim: int, **tensors: Tensor) -> None:
    for argument, x in tensors.items():
        check_tensor(name, x, argument)
        if x.ndim != ndim:
            kind = {1: "1D tensors", 2: "a matrix", 3: "a 3D tensor"}[ndim]
            raise ShapeError(f"{name}: expected {argument} to be {kind}, got {x.ndim}D")


@function()
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices, without broadcasting.

    Raises ``RuntimeError`` unless both are matrices with equal inner sizes.

    >>> import tracejit as tj
    >>> tj.mm(tj.eye(2), tj.ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    return of_matrices(input, mat2)


def of_matrices(input: Tensor, mat2: Tensor, dtype: DType | None = None) -> Tensor:
    """:func:`mm`, of half precision in float32 where that is ``dtype``."""
    _check_rank("mm", 2, self=input, mat2=mat2)
    return _multiplied(input, mat2, dtype)


@function(steady=True)
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The products of two batches of matrices.

    Raises ``RuntimeError`` unless both are 3D with equal batch and inner sizes.

    >>> import tracejit as tj
    >>> tj.bmm(tj.ones(2, 1, 3), tj.ones(2, 3, 1)).tolist()
    [[[3.0]], [[3.0]]]
    """
    return of_batches(input, mat2)


def of_batches(input: Tensor, mat2: Tensor, dtype: DType | None = None) -> Tensor:
    """:func:`bmm`, of half precision in float32 where that is ``dtype``."""
    _check_rank("bmm", 3, batch1=input, batch2=mat2)
    if shape_of(input)[0] != shape_of(mat2)[0]:
        raise ShapeError(
            "Expected size for first two dimensions of batch2 tensor to be: "
            f"[{shape_of(input)[0]}, {shape_of(input)[2]}] but got: {list(shape_of(mat2)[:2])}."
        )
    return _multiplied(input, mat2, dtype)


@function(within=given_precision, steady=True)
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """A matrix times a vector.

    >>> import tracejit as tj
    >>> tj.mv(tj.eye(2), tj.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    return of_vector(input, vec)


def of_vector(input: Tensor, vec: Tensor, dtype: DType | None = None) -> Tensor:
    """:func:`mv`, of half precision in float32 where that is ``dtype``."""
    _check_rank("mv", 2, input=input)
    _check_rank("mv", 1, vec=vec)
    return times(input, vec, dtype)


@function(within=given_precision, steady=True)
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """The inner product of two vectors.

    Raises ``RuntimeError`` unless both are vectors of one length.

    >>> import tracejit as tj
    >>> tj.dot(tj.tensor([1.0, 2.0]), tj.tensor([3.0, 4.0]))
    tensor(11.)
    """
    for x in (input, tensor):
        check_tensor("dot", x)
    if (input.ndim, tensor.ndim) != (1, 1):
        raise ShapeError(
            f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors (dot)"
        )
    if input.dtype is not tensor.dtype:
        raise DtypeError(
            "dot : expected both vectors to have same dtype, but found "
            f"{input.dtype.title} and {tensor.dtype.title}"
        )
    if shape_of(input) != shape_of(tensor):
        raise ShapeError(
            "inconsistent tensor size, expected tensor [" + str(shape_of(input)[0]) + "] and src ["
            f"{shape_of(tensor)[0]}] to have the same number of elements, but got "
            f"{shape_of(input)[0]} and {shape_of(tensor)[0]} elements respectively"
        )
    return matmul(input, tensor)


@function()
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last dimensions.

    >>> import tracejit as tj
    >>> tj.inner(tj.tensor([1.0, 2.0]), tj.tensor([3.0, 4.0]))
    tensor(11.)
    """
    if not input.ndim or not other.ndim:
        return e.mul(input, other)
    return tensordot(input, other, ([-1], [-1]))


@function(steady=True)
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of the elements of two vectors.

    >>> import tracejit as tj
    >>> tj.outer(tj.tensor([1, 2]), tj.tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    _check_rank("outer", 1, self=input, vec2=vec2)
    return e.mul(m.unsqueeze(input, dims=(1,)), vec2)


@function(method=False, steady=True)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sums of products over ``dims``: a number of last and first dimensions, or two lists.

    Raises ``RuntimeError`` when contracted extents differ.

    >>> import tracejit as tj
    >>> tj.tensordot(tj.ones(2, 3), tj.ones(3, 4), dims=1).shape
    tracejit.Size([2, 4])
    """
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise ShapeError(f"tensordot of {a.ndim} and {b.ndim} dimensions over {dims} of them")
        left, right = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        left = [dim_of(d, a) for d in dims[0]]
        right = [dim_of(d, b) for d in dims[1]]
    for i, j in zip(
        left, right, strict=False
    ):  # extents of one are stretched: summed on the other side
        if shape_of(a)[i] == 1 != shape_of(b)[j]:
            b = as_type(r.sum(b, dims=(j,), keepdim=True), b.dtype)
        elif shape_of(b)[j] == 1 != shape_of(a)[i]:
            a = as_type(r.sum(a, dims=(i,), keepdim=True), a.dtype)
    if [shape_of(a)[d] for d in left] != [shape_of(b)[d] for d in right]:
        raise ShapeError(
            f"contracted dimensions need to match, but first has sizes "
            f"{[shape_of(a)[d] for d in left]} and second {[shape_of(b)[d] for d in right]}"
        )
    free_a = [d for d in range(a.ndim) if d not in left]
    free_b = [d for d in range(b.ndim) if d not in right]
    size = shapes.numel([shape_of(a)[d] for d in left])
    rows, columns = ([shape_of(x)[d] for d in f] for x, f in ((a, free_a), (b, free_b)))
    matrix_a = m.reshape(m.permute(a, dims=(*free_a, *left)), shape=(shapes.numel(rows), size))
    matrix_b = m.reshape(m.permute(b, dims=(*right, *free_b)), shape=(size, shapes.numel(columns)))
    alone = MODES.autocast is not None and shapes.numel([*rows, *columns]) == 1
    product = _as_given(matrix_a, matrix_b) if alone else k.matmul(matrix_a, matrix_b)
    return m.reshape(product, shape=(*rows, *columns))


_as_given = given_precision(k.matmul)  # of two vectors: inner products are on no list of autocast


@function(steady=True)
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product.

    >>> import tracejit as tj
    >>> tj.kron(tj.tensor([1, 2]), tj.tensor([1, 10]))
    tensor([ 1, 10,  2, 20])
    """
    ndim = max(input.ndim, other.ndim)
    a, b = ((1,) * (ndim - x.ndim) + shape_of(x) for x in (input, other))
    left = m.reshape(input, shape=tuple(n for extent in a for n in (extent, 1)))
    right = m.reshape(other, shape=tuple(n for extent in b for n in (1, extent)))
    return alone(
        m.reshape(e.mul(left, right), shape=tuple(i * j for i, j in zip(a, b, strict=True)))
    )


@function(within=full_precision)
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix.

    Raises ``RuntimeError`` unless ``input`` is a matrix.

    >>> import tracejit as tj
    >>> tj.trace(tj.tensor([[1, 2], [3, 4]]))
    tensor(5)
    """
    if input.ndim != 2:
        raise ShapeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    return r.sum(m.diagonal(input, offset=0, dim1=0, dim2=1), dims=(0,), keepdim=False)


@function()
def matrix_power(input: Tensor, n: int) -> Tensor:
    """The product of ``n`` copies of square matrices, by squaring; of their inverses for a negative ``n``.

    Raises ``RuntimeError`` for matrices that are not square.

    >>> import tracejit as tj
    >>> tj.matrix_power(tj.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    from .triangles import eye

    if input.ndim < 2 or shape_of(input)[-1] != shape_of(input)[-2]:
        raise ShapeError("linalg.matrix_power: A must be batches of square matrices")
    if n < 0:
        return matrix_power(inverse(input), -n)
    result, base, rest = None, input, n
    while rest:
        if rest & 1:
            result = base if result is None else matmul(result, base)
        rest >>= 1
        base = matmul(base, base) if rest else base
    if result is None:
        identity = eye(shape_of(input)[-1], dtype=input.dtype)
        result = with_zero_gradient(m.expand(identity, shape=shape_of(input)), input)
    return e.clone(result) if n in (0, 1) else result


@function(method=False)
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of several matrices, from left to right. Raises ``RuntimeError`` for none.

    >>> import tracejit as tj
    >>> tj.chain_matmul(tj.ones(1, 2), tj.ones(2, 3), tj.ones(3, 1))
    tensor([[6.]])
    """
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    result = matrices[0]
    for matrix in matrices[1:]:
        result = mm(result, matrix)
    return result


alias("ger", outer)
