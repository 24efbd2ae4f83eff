"""Complex numbers: their parts, conjugates and magnitudes.

Other ops take complex operands where their promotion rule says so. Compiled code for the host works on their parts
(``passes/products/complex_parts.py``) where there is a rule; any other op with complex operands is a call of its body.

A gradient is the conjugate of the derivative, as in PyTorch. Rules are written for derivatives, as if numbers were
real: where the incoming gradient is complex, its conjugate comes in and the conjugate of the result goes out
(:mod:`tracejit.autograd.rules`). That is right for every holomorphic function; the ops here say what else there is.
"""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..types import TensorType
from . import promotion as p
from .elementwise import sign, where
from .namespace import wide, xp
from .table import Array, Sample, contraction, elementwise

_NUMBERS = np.array([[1.0 + 2.0j, -0.5j, 3.0 + 0.0j], [-2.0 + 1.0j, 0.25 - 4.0j, 1.5 + 1.5j]])


def _joined_type(x: TensorType) -> TensorType:
    if not x.shape:
        raise ShapeError("Input tensor must have one or more dimensions")
    if not x.dtype.is_floating_point:
        raise p.UnsupportedDtypeError(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor "
            f"of scalar type: {x.dtype.title}"
        )
    if x.shape[-1] != 2:
        raise ShapeError(f"Tensor must have a last dimension of size 2, got {x}")
    return TensorType(x.shape[:-1], x.dtype.to_complex())


@contraction(
    _joined_type,
    grad=lambda g: parts_of_complex(conjugate(g)),
    samples=(Sample(((3, 2),)), Sample(((2,),)), Sample(((3,),), {}, RuntimeError, "size 2")),
)
def complex_of_parts(x: Array) -> Array:
    """Complex numbers of the pairs (real part, imaginary part) along the last dimension."""
    pairs = xp(x).array(wide(x), copy=True, order="C")
    return pairs.view(np.complex128 if x.dtype.itemsize == 8 else np.complex64)[..., 0]


def _parts_type(x: TensorType) -> TensorType:
    if not x.dtype.is_complex:
        raise p.UnsupportedDtypeError("view_as_real is only supported for complex tensors")
    return TensorType((*x.shape, 2), x.dtype.to_real())


@contraction(_parts_type, grad=lambda g: complex_of_parts(g), samples=(Sample((_NUMBERS,)),))
def parts_of_complex(x: Array) -> Array:
    """The real and the imaginary part of every number, along a new last dimension."""
    return xp(x).stack((x.real, x.imag), axis=-1)


@elementwise(None, promotion=p.same_or_complex, grad=lambda g: conjugate(g))
def conjugate(x: Array) -> Array:
    """x with the sign of its imaginary part reversed."""
    return xp(x).conj(x) if x.dtype.kind == "c" else x.copy()


def conjugated(x: Any) -> Any:
    """The conjugate of complex numbers; real ones themselves."""
    return conjugate(x) if x.spec.dtype.is_complex else x


@elementwise(
    "x", promotion=p.same_or_complex, grad=lambda g, out: g * sign(out), domain=(0.05, 4.0)
)
def polar_size(x: Array) -> Array:
    """x, the absolute value of complex numbers: along their direction, which is another where x is negative."""
    return x.copy()


def _magnitude_grad(g: Any, x: Any) -> Any:
    """g * x / |x|, and zero at zero: of x alone, for programs write to absolute values."""
    size = magnitude(x)
    return where(size == 0, 0.0, g / where(size == 0, 1.0, size)) * x


@elementwise(None, promotion=p.modulus, grad=lambda g, x: _magnitude_grad(g, x), domain=(0.1, 3.0))
def magnitude(x: Array) -> Array:
    """The absolute value of x, a real number."""
    return xp(x).absolute(x)
