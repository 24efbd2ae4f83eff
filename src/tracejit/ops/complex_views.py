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
    return TensorType(x.shape, x.dtype.to_real())


def _joined_type(real: TensorType, imag: TensorType) -> TensorType:
    return TensorType(real.shape, real.dtype.to_complex())


def _joined(real: Array, imag: Array) -> Array:
    out = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    out.real, out.imag = real, imag
    return out


def _movement(name: str, operands: tuple[str, ...], doc: str, **fields: Any) -> Movement:
    return Movement(
        name=name, operands=operands, variadic=False, attributes={}, grads={}, doc=doc, **fields
    )


def _view(name: str, which: int, doc: str) -> Movement:
    """The view of one of the parts, which lie beside each other."""

    def strided(shape: Shape, strides: Shape, result: Shape, /) -> Strided:
        return which, tuple(2 * s for s in strides)

    def body(x: Array) -> Array:
        return (x.real, x.imag)[which]

    fields = {"body": body, "infer_shape": _part_type, "strides": strided, "parts": 2}
    return _movement(name, ("x",), doc, **fields)


real_view = _view("real_view", 0, "The real parts, in the memory of complex numbers.")
imag_view = _view("imag_view", 1, "The imaginary parts, in the memory of complex numbers.")
complex_join = _movement(
    "complex_join",
    ("real", "imag"),
    "Complex numbers of their parts.",
    body=_joined,
    infer_shape=_joined_type,
)
COMPLEX_VIEWS = (real_view, imag_view, complex_join)
