"""Ops of graphs only: the real and the imaginary parts of complex numbers where they lie, and numbers put together."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..types import Shape, TensorType
from .kinds import Movement
from .op import Array
from .strides import Strided

__all__ = ["COMPLEX_VIEWS", "complex_join", "imag_view", "real_view"]


def _part_type(x: TensorType) -> TensorType:
    return TensorType(x.shape, x.dtype.to_real)


def _real_strides(shape: Shape, strides: Shape, result: Shape, /) -> Strided:
    return 0, tuple(2 * s for s in strides)


def _imag_strides(shape: Shape, strides: Shape, result: Shape, /) -> Strided:
    return 1, tuple(2 * s for s in strides)


def _joined_type(real: TensorType, imag: TensorType) -> TensorType:
    return TensorType(real.shape, real.dtype.to_complex)


def _joined(real: Array, imag: Array) -> Array:
    out = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    out.real, out.imag = real, imag
    return out


def _movement(name: str, operands: tuple[str, ...], doc: str, **fields: Any) -> Movement:
    return Movement(
        name=name, operands=operands, variadic=False, attributes={}, grads={}, doc=doc, **fields
    )


real_view = _movement(
    "real_view",
    ("x",),
    "The real parts, in the memory of complex numbers.",
    body=lambda x: x.real,
    infer_shape=_part_type,
    strides=_real_strides,
    parts=2,
)
imag_view = _movement(
    "imag_view",
    ("x",),
    "The imaginary parts, in the memory of complex numbers.",
    body=lambda x: x.imag,
    infer_shape=_part_type,
    strides=_imag_strides,
    parts=2,
)
complex_join = _movement(
    "complex_join",
    ("real", "imag"),
    "Complex numbers of their parts.",
    body=_joined,
    infer_shape=_joined_type,
)
COMPLEX_VIEWS = (real_view, imag_view, complex_join)
