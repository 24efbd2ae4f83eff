"""Printing one scalar function as a CPU kernel of its own, for eager code that applies it to a large array."""

from __future__ import annotations

from ..dtypes import DType
from . import scalar
from .kernel import Function, Number, Text

__all__ = ["write_function"]

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
