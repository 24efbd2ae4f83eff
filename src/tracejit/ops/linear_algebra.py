"""Linear algebra by LAPACK: inverses, determinants, solutions and exponentials of batches of matrices."""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes
from ..errors import ShapeError
from ..types import TensorType
from . import host_matrices, packed
from .comparison import eq, gt, lt
from .complex_numbers import conjugated
from .contraction import matmul, transposed
from .elementwise import where
from .lapack import guarded, solve_triangles
from .library_threads import small_on_one_thread
from .movement import cat, reshape, slice, sum_to, unsqueeze
from .namespace import wide, xp
from .source import arange
from .table import Array, Sample, contraction

SQUARE = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -1.0], [0.5, -1.0, 5.0]])
TALL = np.array([[1.0, 2.0], [-3.0, 1.0], [0.5, 4.0]])


def matrices(x: TensorType) -> TensorType:
    """``x``, which must have two dimensions."""
    if x.ndim < 2:
        raise ShapeError(f"linalg: The input tensor A must have at least 2 dimensions, got {x}")
    return x


def square(x: TensorType) -> TensorType:
    """``x``, which must be batches of square matrices."""
    if matrices(x).shape[-1] != x.shape[-2]:
        raise ShapeError(f"linalg: A must be batches of square matrices, but they are {x}")
    return x


def _numbered(x: Any) -> tuple[Any, Any]:
    """The numbers of the rows (a column) and of the columns (a row) of square matrices."""
    columns = arange(start=0, step=1, count=x.shape[-1], dtype=dtypes.int64)
    return unsqueeze(columns, dims=(1,)), columns


def adjoint(x: Any) -> Any:
    """x with its last two dimensions exchanged, and conjugated."""
    return transposed(conjugated(x))


def triangle(x: Any, *, lower: bool, diagonal_share: float) -> Any:
    """A triangle of square matrices, its diagonal times ``diagonal_share``, zeros elsewhere."""
    rows, columns = _numbered(x)
    inside = gt(rows, columns) if lower else lt(rows, columns)
    return where(inside, x, where(eq(rows, columns), x * diagonal_share, 0.0))


def on_diagonal(x: Any) -> Any:
    """Where the diagonal of square matrices is."""
    rows, columns = _numbered(x)
    return eq(rows, columns)


def rows_of(x: Any, start: int, count: int) -> Any:
    """Rows of matrices."""
    shape = tuple(x.shape)
    starts = (*(0 for _ in shape[:-2]), start, 0)
    return slice(x, starts=starts, counts=(*shape[:-2], count, shape[-1]), steps=(1,) * len(shape))


# --- solutions ----------------------------------------------------------------------------------

_one_solved = small_on_one_thread(host_matrices.solve_triangle)


def _inverse_grad(g: Any, out: Any) -> Any:
    turned = transposed(out)
    return -matmul(matmul(turned, g), turned)


@contraction(square, grad=lambda g, out: _inverse_grad(g, out), samples=(Sample((SQUARE,)),))
@small_on_one_thread
def inverse(x: Array) -> Array:
    """The inverse of each matrix."""
    return guarded("inv", packed.inv, x)


def _solve_type(a: TensorType, b: TensorType) -> TensorType:
    square(a)
    if b.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise ShapeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation AX = B ({a} and {b})"
        )
    from . import shapes

    batch = shapes.broadcast("linalg.solve", [a.shape[:-2], b.shape[:-2]])
    return TensorType((*batch, *b.shape[-2:]), a.dtype)


@contraction(
    _solve_type,
    shared=lambda g, a: solve(transposed(a), g),
    grad={
        "a": lambda shared, a_type, out: sum_to(-matmul(shared, transposed(out)), a_type.shape),
        "b": lambda shared, b_type: sum_to(shared, b_type.shape),
    },
    samples=(Sample((SQUARE, TALL)),),
)
@small_on_one_thread
def solve(a: Array, b: Array) -> Array:
    """X with ``a @ X = b``."""
    n = xp(a, b)
    if n is not np:  # where batches are equal, not broadcast
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (n.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    return guarded("solve", packed.solve, a, b)


def _of_triangle(
    shared: Any, a_type: TensorType, out: Any, lower: bool, whole: bool = False
) -> Any:
    g = sum_to(-matmul(shared, transposed(out)), a_type.shape)
    return g if whole else triangle(g, lower=lower, diagonal_share=1.0)


@contraction(
    lambda a, b, lower, whole=False: _solve_type(a, b),
    shared=lambda g, a, lower, whole: solve_triangle(
        transposed(a), g, lower=not lower, whole=whole
    ),
    grad={
        "a": _of_triangle,
        "b": lambda shared, b_type: sum_to(shared, b_type.shape),
    },
    samples=(
        Sample((SQUARE, TALL), {"lower": True}),
        Sample((np.stack([SQUARE, 2 * SQUARE]), TALL), {"lower": False}),
    ),
)
def solve_triangle(a: Array, b: Array, *, lower: bool, whole: bool = False) -> Array:
    """X with ``a @ X = b``, of which the lower (upper) triangle of ``a`` is read; a zero on the diagonal divides.

    With ``whole`` the gradient of ``a`` is that of a matrix whose other triangle is zero, and not held at zero.
    """
    left, right = wide(a), wide(b)
    n = xp(a, b)
    if n is np and left.ndim == right.ndim == 2 and right.size:
        return _one_solved(left, right, lower=lower).astype(b.dtype, copy=False)
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    out = n.empty((*batch, *right.shape[-2:]), right.dtype)
    if out.size:
        left = n.broadcast_to(left, (*batch, *left.shape[-2:]))
        solve_triangles(left, n.broadcast_to(right, out.shape), lower, out)
    return out.astype(b.dtype, copy=False)


# --- determinants -------------------------------------------------------------------------------


def _inverse_by_factor_grad(g: Any, x: Any, out: Any) -> Any:
    """-out (g + g^H) out x: a rule for gradients, which are the conjugates of derivatives."""
    g = conjugated(g)
    return -conjugated(matmul(matmul(out, matmul(g + adjoint(g), out)), x))


@contraction(
    square,
    grad=_inverse_by_factor_grad,
    samples=(
        Sample((np.tril(SQUARE),)),
        Sample((np.diag([1.0, 0.0]),), {}, RuntimeError, "diagonal element 2 is zero"),
    ),
)
@small_on_one_thread
def inverse_by_factor(x: Array) -> Array:
    """The inverse of ``x @ x^H`` for each Cholesky factor x; a zero on its diagonal is an error."""
    n = xp(x)

    def found(factor: Array) -> Array:
        if bool((n.diagonal(factor, 0, -2, -1) == 0).any()):
            raise np.linalg.LinAlgError("Singular matrix")
        back = packed.inv(factor)
        return n.conj(n.swapaxes(back, -1, -2)) @ back

    return guarded("cholesky_inverse", found, x)


def _number_type(x: TensorType) -> TensorType:
    return TensorType(square(x).shape[:-2], x.dtype)


def _spread(g: Any) -> Any:
    """Numbers as 1 by 1 matrices."""
    return g.reshape((*g.shape, 1, 1))


def _of_regular(g: Any, x: Any, singular: Any) -> Any:
    """``g * inverse(x).T``, and ``g`` where ``x`` has no inverse: there ``g`` is a limit already, 0 or no number."""
    singular = _spread(singular)
    regular = where(singular & on_diagonal(x), 1.0, where(singular, 0.0, x))
    return _spread(g) * where(singular, 1.0, transposed(inverse(regular)))


def _determinant_grad(g: Any, x: Any, out: Any) -> Any:
    return _of_regular(g * out, x, eq(out, 0))


def _log_determinant_grad(g: Any, x: Any, out: Any) -> Any:
    """Infinite where the logarithm is."""
    singular = eq(out, -math.inf)
    return _of_regular(g * where(singular, math.inf, 1.0), conjugated(x), singular)


@contraction(
    _number_type,
    grad=_determinant_grad,
    samples=(Sample((SQUARE,)),),
)
@small_on_one_thread
def determinant(x: Array) -> Array:
    """The determinant of each matrix; its gradient needs an inverse."""
    return xp(x).asarray(packed.det(wide(x)), x.dtype)


def _real_number_type(x: TensorType) -> TensorType:
    return TensorType(_number_type(x).shape, x.dtype.to_real())


@contraction(
    _real_number_type,
    grad=_log_determinant_grad,
    samples=(Sample((SQUARE,)), Sample((SQUARE + 0.5j * SQUARE[::-1],))),
)
@small_on_one_thread
def log_abs_determinant(x: Array) -> Array:
    """The logarithm of the absolute value of each determinant."""
    found = packed.slogdet(wide(x))[1]
    return xp(x).asarray(found, x.real.dtype)


def _packed_type(x: TensorType) -> TensorType:
    return TensorType((*_number_type(x).shape, 2), x.dtype)


def _packed_grad(g: Any, x: Any, out: Any) -> Any:
    """The sign stays."""
    shape = tuple(g.shape)
    starts = (*(0 for _ in shape[:-1]), 1)
    upper, logarithm = (
        reshape(
            slice(pair, starts=starts, counts=(*shape[:-1], 1), steps=(1,) * len(shape)),
            shape=shape[:-1],
        )
        for pair in (g, out)
    )
    return _log_determinant_grad(upper, x, logarithm)


@contraction(_packed_type, grad=_packed_grad, samples=(Sample((SQUARE,)),))
@small_on_one_thread
def sign_and_log_determinant(x: Array) -> Array:
    """The sign of each determinant of real matrices and the logarithm of its absolute value, of one factorisation."""
    n = xp(x)
    sign, size = packed.slogdet(wide(x))
    return n.stack([n.where(n.isnan(size), 0, sign), size], -1).astype(x.dtype, copy=False)


def _sign_grad(g: Any, x: Any, out: Any) -> Any:
    """The sign turns by the imaginary part of tr(x^-1 dx); that of real matrices stays."""
    if not x.spec.dtype.is_complex:
        return x * 0.0
    turn = (g * out - conjugated(g * out)) * 0.5
    return _of_regular(turn, x, eq(out, 0))


@contraction(
    _number_type,
    grad=_sign_grad,
    samples=(Sample((SQUARE,)), Sample((SQUARE + 0.5j * TALL[0, 1],))),
)
@small_on_one_thread
def determinant_sign(x: Array) -> Array:
    """The sign of each determinant, 0 of one that is no number."""
    n = xp(x)
    sign, size = packed.slogdet(wide(x))
    return n.asarray(n.where(n.isnan(size), 0, sign), x.dtype)


def _exponential_grad(g: Any, x: Any) -> Any:
    """The upper right block of exp([[x^T, g], [0, x^T]])."""
    n, turned = x.shape[-1], transposed(x)
    zero = turned * 0.0
    whole = cat(cat(turned, g, dim=x.ndim - 1), cat(zero, turned, dim=x.ndim - 1), dim=x.ndim - 2)
    shape = tuple(x.shape)
    return slice(
        exponential(whole),
        starts=(*(0 for _ in shape[:-1]), n),
        counts=shape,
        steps=(1,) * len(shape),
    )


@contraction(square, grad=lambda g, x: _exponential_grad(g, x), samples=(Sample((SQUARE * 0.2,)),))
@small_on_one_thread
def exponential(x: Array) -> Array:
    """The exponential of each matrix."""
    if not x.size:
        return x.copy()
    if xp(x) is np:
        import scipy.linalg

        exact = np.result_type(wide(x), np.float64)  # the squares of squares add up their errors
        return scipy.linalg.expm(x.astype(exact, copy=False)).astype(x.dtype, copy=False)
    import cupyx.scipy.linalg  # one matrix at a time

    matrices = wide(x).reshape((-1, *x.shape[-2:]))
    found = [cupyx.scipy.linalg.expm(matrices[i]) for i in range(len(matrices))]
    return xp(x).stack(found).reshape(x.shape).astype(x.dtype, copy=False)
