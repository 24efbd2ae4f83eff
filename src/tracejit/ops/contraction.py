"""Contractions: matrix products, the library calls that bound fusion."""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dtypes import DType, bool_, float32
from ..errors import DtypeError, ShapeError
from ..types import TensorType, Turned
from . import shapes
from .elementwise import cast
from .library_threads import SHARED, multiplied
from .movement import permute, sum_to
from .namespace import wide, xp
from .programs import product_by_program
from .promotion import UnsupportedDtypeError
from .table import Array, Sample, contraction

#: Products of whole numbers from which on it pays to turn them into others.
_MANY_PRODUCTS = 1 << 12


def _matmul_type(x: TensorType, y: TensorType, dtype: DType | None = None) -> TensorType:
    if x.dtype is not y.dtype:
        raise DtypeError(
            f"expected m1 and m2 to have the same dtype, but got: {x.dtype.name} != {y.dtype.name} "
            f"(matmul: {x} @ {y})",
            f"Convert one of them, with .to(tj.{y.dtype.name}) for example.",
        )
    if x.dtype is bool_:
        raise UnsupportedDtypeError("\"addmm_impl_cpu_\" not implemented for 'Bool'")
    if x.ndim < 2 or y.ndim < 2:
        raise ShapeError(f"matmul: both operands need two dimensions here, got {x} @ {y}")
    if x.shape[-1] != y.shape[-2]:
        raise ShapeError(
            f"matmul: {x} @ {y}: inner sizes differ ({x.shape[-1]} and {y.shape[-2]}); mat1 and mat2 shapes "
            f"cannot be multiplied ({_flat(x)} and {_flat(y)})",
            _hint(x, y),
        )
    batch = shapes.broadcast("matmul", [x.shape[:-2], y.shape[:-2]], (x, y))
    if dtype is not None and not (x.dtype.is_half and dtype is float32):
        raise DtypeError(f"matmul: {x} @ {y}: only products of half precision have another dtype")
    return TensorType((*batch, x.shape[-2], y.shape[-1]), dtype or x.dtype)


def _flat(t: TensorType) -> str:
    return f"{shapes.numel(t.shape[:-1])}x{t.shape[-1]}"


def _hint(x: TensorType, y: TensorType) -> str:
    if x.shape[-1] == y.shape[-1]:
        return (
            f"The right operand should have {x.shape[-1]} rows; did you mean to transpose it (.mT)?"
        )
    if x.shape[-2] == y.shape[-2]:
        return "Did you mean to transpose the left operand (.mT)?"
    return f"The right operand should have {x.shape[-1]} rows."


def transposed(x: Any) -> Any:
    """x with its last two dimensions exchanged."""
    ndim = len(x.spec.shape)
    return permute(x, dims=(*range(ndim - 2), ndim - 1, ndim - 2))


def rounded(g: Any, beside: Any) -> Any:
    """The gradient of a product that was not rounded, in the dtype of its operands."""
    dtype = beside.spec.dtype
    return g if g.spec.dtype is dtype else cast(g, dtype=dtype)


def _of_left(g: Any, x_type: TensorType, y: Any) -> Any:
    g = rounded(g, y)
    if type(x_type) is Turned and y.spec.ndim == 2:
        return transposed(matmul(y, transposed(g)))
    return sum_to(matmul(g, transposed(y)), x_type.shape)


def _of_right(g: Any, x: Any, y_type: TensorType) -> Any:
    g = rounded(g, x)
    if type(y_type) is Turned and x.spec.ndim == 2:  # so that the gradient of a weight is in rows
        return transposed(matmul(transposed(g), x))
    return sum_to(matmul(transposed(x), g), y_type.shape)


@contraction(
    _matmul_type,
    total=True,
    follows=True,
    grad={"x": _of_left, "y": _of_right},
    samples=(
        Sample(((3, 4), (4, 5))),
        Sample(((2, 3, 4), (2, 4, 5))),
        Sample(((2, 1, 3, 4), (5, 4, 2))),
        Sample(((1, 4), (4, 1))),
        Sample(((3, 0), (0, 2))),
        Sample(((3, 4), (5, 6)), {}, RuntimeError, "inner sizes differ"),
    ),
)
def matmul(x: Array, y: Array, *, dtype: DType | None = None) -> Array:
    """The matrix product over the last two dimensions, batched over the others.

    Sums of half precision are float32, and rounded once; with ``dtype=float32`` they are not.
    """
    # One operand has all batches, or both have. Small products, of which there may be many, are told by this alone.
    many = max(x.size * y.shape[-1], y.size * x.shape[-2])
    if many >= SHARED:
        served = product_by_program(matmul, (x, y), {"dtype": dtype}, many)
        if served is not None:
            return served
    if x.dtype.itemsize == 2 and x.dtype.kind not in "iu":
        product = multiplied(wide(x), wide(y))
        return product if dtype is not None else product.astype(x.dtype)
    n = xp(x, y)
    if n is np and x.dtype.kind in "iu" and (exact := _as_doubles(x, y)) is not None:
        return exact
    return multiplied(x, y) if many >= SHARED else n.matmul(x, y)


def _as_doubles(x: Array, y: Array) -> Array | None:
    """The product of whole numbers by the library of double precision, where that rounds nothing; else None.

    >>> _as_doubles(np.full((40, 40), -3), np.full((40, 40), 5))[0, 0]
    np.int64(-600)
    """
    rows, inner = x.shape[-2:]
    if rows * inner * y.shape[-1] < _MANY_PRODUCTS or not (x.size and y.size):
        return None
    most = math.prod(max(int(a.max()), -int(a.min())) for a in (x, y))
    if most * inner > 1 << 53:
        return None
    return (x.astype(np.float64) @ y.astype(np.float64)).astype(np.int64).astype(x.dtype)
