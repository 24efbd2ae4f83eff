"""Stable orders of many short rows by a kernel, for the bodies of the ops: eager and compiled code alike."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ... import config
from ...cuda.arrays import address_of
from ...ops.orders import set_network

__all__ = ["order"]

#: Elements of rows that are worth a hand-over to another thread.
_GRAIN = 1 << 13


def order(x: np.ndarray, first: int, count: int, descending: bool) -> np.ndarray | None:
    """Places ``first`` and ``count - 1`` more of the order of each row (of float or signed int of 32 or 64 bits).

    None where there is no such kernel, or it is not to be used.

    >>> found = order(np.array([[2.0, 1.0, 2.0]]), 0, 3, True)
    >>> found is None or found.tolist()
    [[0, 2, 1]]
    """
    from ...codegen.products.vector_machine import vector_machine

    machine = vector_machine()
    if machine is None or config.disabled:
        return None
    n, lanes = x.shape[-1], machine.vector // 8
    rows = np.ascontiguousarray(x)
    out = np.empty((*x.shape[:-1], count), np.int64)
    number = x.size // n
    top = 1 << (n - 1).bit_length() - 1 if n > 1 else 0
    grain = 1 << (max(1, _GRAIN // (n * lanes)) - 1).bit_length()
    table = _table(f"{x.dtype.kind}{8 * x.dtype.itemsize}", grain)
    places = (address_of(rows), address_of(out))
    numbers = (n, top, first, count, -int(descending), number, 3 * (n + lanes))
    table.run_slots(0, 1, *places, *numbers, -(-number // lanes))
    return out


@cache
def _table(dtype: str, grain: int) -> Any:
    """A program of one step whose arguments are its slots, and the number of tiles the last of them."""
    from ..launcher import Step, build_table

    arguments = [(slot, 0) for slot in range(9)]
    return build_table([Step(_address(dtype), arguments, (len(arguments), 0), grain)])


@cache
def _address(dtype: str) -> int:
    from ...codegen.lanes.orders import ORDER_SYMBOL, order_module
    from ...codegen.products.vector_machine import vector_machine
    from ..machine_code.vector_modules import VectorModule, address

    machine: Any = vector_machine()
    return address(VectorModule(ORDER_SYMBOL, order_module(dtype, machine)))


set_network(order)
