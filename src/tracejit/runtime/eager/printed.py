"""Elementwise ops of eager code by kernels of their scalar expressions, where NumPy's loops take long.

A kernel serves operands that lie alike, and single numbers, of any size; it is compiled after NumPy has done so much
that compiling it takes no longer, once per machine. The bits are NumPy's, except for the sign of NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ... import aligned, config, dtypes
from ...cuda.arrays import address_of
from ...dtypes import DType
from ...ops.namespace import set_widening
from ...ops.printed import set_printed
from .functions import program_of

__all__ = ["run"]

#: Elements from which on a kernel serves, and those computed by NumPy before it is compiled: of slow loops, of others.
LEAST = 1 << 16
PATIENCE, PATIENCE_CHEAP = 1 << 22, 1 << 25
_SLOW = ("floor_divide", "remainder", "fmod")
_met: dict[Any, int] = {}


def run(
    op: Any, arrays: Sequence[np.ndarray], attributes: Mapping[str, Any], dtype: np.dtype[Any]
) -> np.ndarray | None:
    """The result of ``op`` as an array of ``dtype``; None where NumPy is to compute it.

    >>> from tracejit.ops.elementwise import sign
    >>> run(sign, [np.ones(3)], {}, np.dtype("float64")) is None  # too few
    True
    """
    largest = max(arrays, key=lambda x: x.size)
    if largest.size < LEAST or config.disabled:
        return None
    single = tuple([x.size == 1 and x is not largest for x in arrays])
    for x, one in zip(arrays, single, strict=True):
        if not one and (x.shape != largest.shape or not x.flags.c_contiguous):
            return None
    kinds = tuple([dtypes.from_numpy(x.dtype) for x in arrays])
    key = (op, kinds, single, tuple(attributes.items()), dtypes.from_numpy(dtype))
    met = _met[key] = _met.get(key, 0) + largest.size
    half = any(kind.is_half for kind in (*kinds, key[-1]))
    if met < (PATIENCE if half or op.name in _SLOW else PATIENCE_CHEAP):
        return None
    table = _table(*key)
    if table is None:
        return None
    out = aligned.empty(np.broadcast_shapes(*[x.shape for x in arrays]), dtype)
    table.run_slots(0, 1, *map(address_of, (*arrays, out)), math.prod(out.shape))
    return out


@cache
def _table(
    op: Any,
    kinds: tuple[DType, ...],
    single: tuple[bool, ...],
    attributes: tuple[tuple[str, Any], ...],
    dtype: DType,
) -> Any:
    """The program of a kernel, whose slots are the addresses of all arrays and their length; None if there is none."""
    from ...codegen.cpu.functions import write_elementwise

    function = write_elementwise(op, kinds, single, dict(attributes), dtype)
    return None if function is None else program_of(function, len(kinds) + 1)


def _widened(x: np.ndarray) -> np.ndarray | None:
    from ...ops.elementwise import cast

    return run(cast, [x], {"dtype": dtypes.float32}, np.dtype(np.float32))


set_printed(run)
set_widening(_widened)
