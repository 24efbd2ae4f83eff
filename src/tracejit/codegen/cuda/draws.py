"""Printing random sources as kernels of their own, for draws that no other kernel is waiting for."""

from __future__ import annotations

from ...dtypes import DType
from ...ops.random import RandomSource
from .. import scalar
from ..cpu.draws import NAMES, element
from ..kernel import Number
from .launch import BLOCK, DeviceText, Launch

__all__ = ["PARAMETERS", "write_draw"]

#: The parameters in order: where to write, the seed, the ordinal of the call, how many elements.
PARAMETERS = ("out", "seed", "offset", "total")


def write_draw(op: RandomSource, dtype: DType) -> Launch:
    """The kernel of a draw of ``op``: its parameter n stands for `PARAMETERS` n, its grid is the caller's.

    >>> from tracejit.dtypes import float32
    >>> from tracejit.ops.random import random_uniform
    >>> launch = write_draw(random_uniform, float32)
    >>> launch.name, "uniform_f32(philox_u32(seed_, offset_" in launch.source
    ('k_random_uniform_f32', True)
    """
    text = DeviceText()
    for number, name in enumerate(PARAMETERS):
        kind = "i64" if number else scalar.storage_type(dtype) + "*"
        text.parameter(name, kind, Number(number))
    text.add(1, f"for point in range(block() * {BLOCK} + thread(), total, blocks() * {BLOCK}):")
    for name, value in {**NAMES, "i_": "uint64(point)"}.items():
        text.add(2, f"{name} = {value}")
    text.add(2, f"drawn = {element(op, dtype, 'i_')}")
    text.add(2, f"out[point] = {scalar.store('drawn', dtype)}")
    name = f"k_{op.name}_{dtype.short}"
    return Launch(name, text.source(name, "one draw"), tuple(text.parameters.values()), 0)
