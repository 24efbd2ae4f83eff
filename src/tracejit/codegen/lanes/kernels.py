"""All kernels that work on small matrices side by side."""

from __future__ import annotations

from collections.abc import Callable

from ..products.vector_kind import Kind
from ..products.vector_machine import Machine
from .batches import Batch, batch_module
from .factors import FACTORS
from .rotations import ROTATIONS

__all__ = ["KERNELS", "lane_module"]

#: By name: how many arrays and numbers they are given, and what writes them.
KERNELS: dict[str, tuple[int, int, Callable[[Batch], None]]] = {**FACTORS, **ROTATIONS}


def lane_module(name: str, dtype: str, machine: Machine) -> str:
    """The module with the kernel ``tracejit_many_<name>`` over batches of matrices.

    >>> lane_module("inv", "f32", Machine(64, 8, 3)).count("define i32 @tracejit_many_inv(")
    1
    """
    arrays, numbers, write = KERNELS[name]
    return batch_module(Kind(dtype, machine), f"tracejit_many_{name}", arrays, numbers, write)
