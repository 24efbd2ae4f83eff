"""Kernels that take many small matrices apart side by side, for the bodies of the ops: eager and compiled code alike.

A kernel is made for a name and a type, once per machine, in a few hundredths of a second; it serves any size. Tiles of
the batch are divided among the threads of the native pool, and the bits do not depend on how.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ... import config
from ...cuda.arrays import address_of
from ...ops.side_by_side import set_side_by_side

__all__ = ["run"]

_DTYPES = {"f": "f32", "d": "f64"}
#: Elements of a batch that are worth a hand-over to another thread.
_GRAIN = 1 << 12


def run(
    name: str,
    operands: Sequence[np.ndarray],
    results: Sequence[tuple[int, ...]],
    numbers: Sequence[int],
) -> list[np.ndarray] | None:
    """Results of the kernel ``name``, in arrays of these shapes; None where there is none, or it is not to be used.

    Operands are contiguous and of one type; the first dimension of all is that of the batch.

    >>> found = run("det", [np.stack([2.0 * np.eye(2)] * 3)], [(3,), (3,)], [2])
    >>> found is None or found[0].tolist()
    [4.0, 4.0, 4.0]
    """
    from ...codegen.products.vector_machine import vector_machine

    machine = vector_machine()
    if machine is None or config.disabled:
        return None
    first = operands[0]
    count, lanes = len(first), machine.vector // first.itemsize
    room = -(-count // lanes) * lanes
    out = [np.empty((room if len(s) == 1 else count, *s[1:]), first.dtype) for s in results]
    size = sum([x.size // len(x) + lanes for x in (*operands, *out)])
    table = _table(name, _DTYPES[first.dtype.char], _grain(size * lanes))
    places = [address_of(x) for x in (*operands, *out)]
    table.run_slots(0, 1, *places, *numbers, count, 2 * size, room // lanes)
    return [x[:count] for x in out]


def _grain(elements: int) -> int:
    """How many tiles of so many elements go together: a power of two, so that there are few tables."""
    return 1 << max(0, (_GRAIN // elements).bit_length())


@cache
def _table(name: str, dtype: str, grain: int) -> Any:
    """A program of one step whose arguments are its slots, and the number of tiles the last of them."""
    from ..lanes import arguments_of, lane_code
    from ..launcher import Step, build_table
    from ..machine_code.vector_modules import address

    arguments = [(slot, 0) for slot in range(sum(arguments_of(name)) + 2)]
    code = address(lane_code(name, dtype))
    return build_table([Step(code, arguments, (len(arguments), 0), grain)])


set_side_by_side(run)
