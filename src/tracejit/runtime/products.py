"""Matrix products by code of our own, where that is faster than the BLAS that comes with NumPy.

With registers of 64 bytes it is as fast on large matrices and up to 1.6 times as fast on small and transposed ones
(decision 0038); with registers of 32 bytes BLAS is faster. Products of bfloat16 are ours where a machine multiplies
pairs of them (decision 0056). Results do not depend on how a product is divided.
"""

from __future__ import annotations

from functools import cache

from ..codegen.products.gemm_text import gemm_text
from ..codegen.products.vector_machine import multiplies_pairs, vector_machine
from .machine_code.vector_modules import VectorModule

__all__ = ["product_module"]

_VECTOR_BYTES = 64
_DTYPES = ("f32", "f64", "bf16")


@cache
def product_module(dtype: str) -> VectorModule | None:
    """The code for a dtype, which is called like BLAS's ``gemm``; None where BLAS is better or knows more dtypes.

    >>> product_module("i32") is None
    True
    """
    machine = vector_machine()
    if machine is None or machine.vector != _VECTOR_BYTES or dtype not in _DTYPES:
        return None
    if dtype == "bf16" and not multiplies_pairs():
        return None
    return VectorModule("tracejit_product", gemm_text(dtype, machine))
