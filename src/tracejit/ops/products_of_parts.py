"""Ops of graphs only: the parts of a product of complex numbers, of the parts of its factors.

As NumPy's vector code computes them: one of the two terms is rounded before the other is added to it.
"""

from __future__ import annotations

import numpy as np

from . import promotion as p
from .kinds import Elementwise
from .op import Array

__all__ = ["PRODUCTS_OF_PARTS", "imaginary_part_of_product", "real_part_of_product"]


def _product(a: Array, b: Array, c: Array, d: Array) -> Array:
    kind = np.result_type(a, b, c, d, np.complex64)
    x, y = np.asarray(a, kind), np.asarray(c, kind)
    x.imag, y.imag = b, d
    return x * y


def _real(a: Array, b: Array, c: Array, d: Array) -> Array:
    return np.asarray(_product(a, b, c, d).real)


def _imaginary(a: Array, b: Array, c: Array, d: Array) -> Array:
    return np.asarray(_product(a, b, c, d).imag)


real_part_of_product = Elementwise(
    name="real_part_of_product",
    operands=("a", "b", "c", "d"),
    variadic=False,
    attributes={},
    grads={},
    doc="The real part of (a + bi) * (c + di).",
    body=_real,
    scalar="fma(a, c, -(b * d))",
    promotion=p.floats_only,
)
imaginary_part_of_product = Elementwise(
    name="imaginary_part_of_product",
    operands=("a", "b", "c", "d"),
    variadic=False,
    attributes={},
    grads={},
    doc="The imaginary part of (a + bi) * (c + di).",
    body=_imaginary,
    scalar="fma(a, d, b * c)",
    promotion=p.floats_only,
)
PRODUCTS_OF_PARTS = (real_part_of_product, imaginary_part_of_product)
