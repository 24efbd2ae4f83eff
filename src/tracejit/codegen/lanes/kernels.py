"""All kernels that work on small matrices side by side."""

from __future__ import annotations

from collections.abc import Callable

from ..products.vector_kind import Kind
from ..products.vector_machine import Machine
from .batches import Batch, batch_module
from .factors import FACTORS
from .rotations import ROTATIONS

__all__ = ["KERNELS", "UNMARKED", "lane_module"]

#: By name: how many arrays and numbers they are given, and what writes them.
KERNELS: dict[str, tuple[int, int, Callable[[Batch], None]]] = {**FACTORS, **ROTATIONS}


#: Kernels that mark nothing: what they give is right for every matrix.
UNMARKED = frozenset({"triangle"})


def lane_module(
    name: str, dtype: str, machine: Machine, symbol: str = "", checked: bool = False
) -> str:
    """The module with the kernel ``name`` over batches of matrices, called ``tracejit_many_<name>`` or ``symbol``.

    The ``checked`` one has no array of marks: it returns one where it would mark a matrix.

    >>> lane_module("inv", "f32", Machine(64, 8, 3)).count("define i32 @tracejit_many_inv(")
    1
    """
    arrays, numbers, write = KERNELS[name]
    checked = checked and name not in UNMARKED
    symbol = symbol or f"tracejit_many_{name}"
    return batch_module(Kind(dtype, machine), symbol, arrays, numbers, write, checked=checked)
