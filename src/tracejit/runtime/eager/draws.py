"""Random draws of eager code by kernels: on a device always, on the host where they are worth a kernel.

An op's own body draws too, in NumPy and the same bits, ten to fifty times slower: it serves programs that draw little,
which then need no compiler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ... import aligned
from ...dtypes import DType, int64
from ...ops.keys import set_kernel_draw
from ...ops.random import RandomSource, stream_of
from ...ops.shapes import numel
from ...types import Shape

#: Elements of one source and dtype that are drawn in NumPy before a kernel is made, which takes as long to make; and as
#: how many a call counts besides its own, for NumPy takes so long for any.
PATIENCE, EACH_CALL = 1 << 19, 1 << 11
_drawn: dict[tuple[str, str], int] = {}
_tables: dict[tuple[str, str], Any] = {}


def _draw(op: RandomSource, key: Any, attributes: Mapping[str, Any], device: int) -> Any:
    dtype = attributes.get("dtype", int64)  # bits have no other
    if device >= 0:
        from ..cuda.draws import draw

        return draw(op, key, attributes["index"], attributes["shape"], dtype, device)
    shape = attributes["shape"]
    count = numel(shape)
    return _on_host(op, key, attributes["index"], shape, dtype) if _pays(op, dtype, count) else None


def _pays(op: RandomSource, dtype: DType, count: int) -> bool:
    """Is a draw of so many elements to be made by a kernel?"""
    kind = (op.name, dtype.short)
    drawn = _drawn[kind] = _drawn.get(kind, 0) + count + EACH_CALL
    return count > 0 and drawn >= PATIENCE


def _on_host(op: RandomSource, key: Any, index: int, shape: Shape, dtype: DType) -> np.ndarray:
    from ...codegen.cpu.draws import PARAMETERS, WORDS
    from ..launcher import signed

    kind = (op.name, dtype.short)
    table = _tables.get(kind)
    if table is None:
        table = _tables[kind] = _table(op, dtype)
    count, each = numel(shape), WORDS // op.words[dtype.short]
    blocks, rest = divmod(count, each)
    out = aligned.empty(shape, dtype.np)
    seed, offset = map(signed, stream_of(key, index))
    arguments = {"out": out.ctypes.data, "seed": seed, "offset": offset, "first": count - rest}
    table.run_slots(0, table.n_steps, *(arguments[name] for name in PARAMETERS), blocks, rest)
    return out


def _table(op: RandomSource, dtype: DType) -> Any:
    """A program of two steps: whole blocks, and the elements of the last one; their numbers are the last two slots."""
    from ...codegen.cpu.draws import write_blocks, write_elements
    from ...codegen.kernel import KernelCode
    from ..launcher import SERIAL, Step, build_table
    from ..machine_code.kernels import build

    functions = (write_blocks(op, dtype), write_elements(op, dtype))
    kernel = build(KernelCode(f"k_{op.name}_{dtype.short}", functions, None, ()))
    slots = [(number, 0) for number in range(len(functions[0].parameters))]
    blocks, rest = kernel.addresses
    return build_table(
        [
            Step(blocks, slots, (len(slots), 0), functions[0].grain),
            Step(rest, slots, (len(slots) + 1, 0), SERIAL),
        ]
    )


set_kernel_draw(_draw)
