"""Printing one function as a CPU kernel of its own, for eager code that applies it to a large array."""

from __future__ import annotations

from ...dtypes import DType
from .. import scalar
from ..kernel import Function, Number, Text

__all__ = ["write_function", "write_row_product"]

_GRAIN = 1 << 12


def write_function(name: str, dtype: DType) -> Function:
    """``out[i] = name(x[i])`` over contiguous arrays of ``dtype``, float32 or float64; the extent is their length.

    >>> from tracejit.dtypes import float32
    >>> write_function("erf", float32).source.count("out[i] = erf_f32(x[i])")
    1
    """
    text = Text()
    kind = scalar.storage_type(dtype)
    for number, parameter in enumerate(("x", "out")):
        text.parameter(parameter, f"{kind}*", Number(number))
    text.add(1, "for i in range(lo, hi):")
    text.add(2, f"out[i] = {name}_{kind}(x[i])")
    kernel = f"k_{name}_{kind}_all"
    source = text.source(kernel, f"{name} of every element")
    return Function(kernel, source, tuple(text.parameters.values()), 0, _GRAIN)


def write_row_product(dtype: DType) -> Function:
    """``out[row]`` is the product of the ``n`` elements of a row; the extent is the number of rows.

    >>> from tracejit.dtypes import float32
    >>> write_row_product(float32).source.count("found *= x[row * n + i]")
    1
    """
    text = Text()
    kind = scalar.storage_type(dtype)
    for number, parameter in enumerate(("x", "out")):
        text.parameter(parameter, f"{kind}*", Number(number))
    text.parameter("n", "i64", Number(2))
    text.add(1, "for row in range(lo, hi):")
    text.add(2, f"found = {scalar.cast_name(dtype)}(1)")
    text.add(2, "for i in range(n):")
    text.add(3, "found *= x[row * n + i]")
    text.add(2, "out[row] = found")
    kernel = f"k_product_{kind}_rows"
    source = text.source(kernel, "the product of every row")
    return Function(kernel, source, tuple(text.parameters.values()), 0, _GRAIN)
