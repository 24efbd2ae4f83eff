"""Kernels that take small matrices apart side by side, as native code for this CPU, made once and kept in the store."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..codegen.lanes.kernels import KERNELS, lane_module
from ..codegen.products.vector_machine import vector_machine
from .machine_code.vector_modules import VectorModule

__all__ = ["arguments_of", "lane_code"]


@cache
def lane_code(name: str, dtype: str, checked: bool = False) -> VectorModule:
    """The kernel ``name``; where it is ``checked``, it fails where it would mark a matrix.

    >>> vector_machine() is None or lane_code("inv", "f32").symbol
    'tracejit_many_inv'
    """
    machine: Any = vector_machine()
    symbol = f"tracejit_{'checked' if checked else 'many'}_{name}"
    return VectorModule(symbol, lane_module(name, dtype, machine, symbol, checked))


def arguments_of(name: str) -> tuple[int, int]:
    """How many arrays and numbers the kernel ``name`` is given, where it is not checked.

    >>> arguments_of("inv")
    (3, 1)
    """
    arrays, numbers, _ = KERNELS[name]
    return arrays, numbers
