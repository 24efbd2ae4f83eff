"""Which machines convolutions over flat memory have native code for."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache

from ..identity import features

__all__ = ["Machine", "multiplies_pairs", "vector_machine"]


@dataclass(frozen=True)
class Machine:
    """Bytes of a vector register, and how many rows of how many vectors a block of results has."""

    vector: int
    rows: int
    vectors: int


#: The sums of a block, the vectors and the number they are multiplied by fill the registers: 32 of 64 bytes, 16 of 32.
_WIDE, _NARROW = Machine(64, 8, 3), Machine(32, 4, 3)


@lru_cache(maxsize=1)
def vector_machine() -> Machine | None:
    """What this machine computes with; None where vectors have no masks, and products go through BLAS.

    >>> found = vector_machine()
    >>> found is None or found.vector in (32, 64)
    True
    """
    if sys.byteorder != "little":
        return None
    found = features()
    if {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= found:
        return _WIDE
    return _NARROW if {"avx2", "fma"} <= found else None


def multiplies_pairs() -> bool:
    """Has this machine instructions that multiply pairs of bfloat16 and add both products to float32?

    >>> multiplies_pairs() in (True, False)
    True
    """
    found = features()  # the second spelling is LLVM's
    return vector_machine() == _WIDE and not found.isdisjoint(("avx512_bf16", "avx512bf16"))
