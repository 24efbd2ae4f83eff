"""Random draws of eager code in a GPU's memory: one kernel per source and dtype, the host's stream bit for bit."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from ...codegen.cuda.cuda import blocks_for
from ...codegen.cuda.draws import PARAMETERS, write_draw
from ...cuda.arrays import namespace
from ...cuda.driver import Driver, driver
from ...dtypes import DType
from ...ops.random import RandomSource, stream_of
from ...ops.shapes import numel
from ...types import Shape
from ..launcher import Table, build_table, failure, signed
from . import kernels
from .launches import launch_steps

__all__ = ["draw"]

#: The slots of a launch: the stream, the grid, and from here on the arguments of the kernel.
_STREAM, _GRID, _FIRST = range(3)
_tables: WeakKeyDictionary[Driver, dict[tuple[str, str], Table]] = WeakKeyDictionary()


def draw(op: RandomSource, key: Any, index: int, shape: Shape, dtype: DType, device: int) -> Any:
    """An array on the GPU ``device``: what ``op`` draws at ``index`` from the key (seed, base), an array of the host.

    Raises `DeviceError` where there is no such device, or the launch is not accepted.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     assert tj.rand(2, device="cuda").is_cuda
    """
    module = namespace()
    count = numel(shape)
    with module.cuda.Device(device):
        out = module.empty(shape, dtype.np)
        if not count:
            return out
        driver(device).bind()
        table = _table(op, dtype, driver(device))
        seed, offset = map(signed, stream_of(key, index))
        arguments = {"out": int(out.data.ptr), "seed": seed, "offset": offset, "total": count}
        stream = int(module.cuda.get_current_stream().ptr)
        words = [arguments[name] for name in PARAMETERS]
        code = table.run_slots(0, table.n_steps, stream, blocks_for(count), *words)
        if code:
            raise driver(device).error(f"a draw of {op.name} could not be queued", failure(code)[1])
        return out


def _table(op: RandomSource, dtype: DType, found: Driver) -> Table:
    """The launch of a source, as a program of one step."""
    known = _tables.setdefault(found, {})
    table = known.get((op.name, dtype.short))
    if table is None:
        launch = write_draw(op, dtype)
        handle = kernels.handle(launch, found.index)
        steps = launch_steps(
            [launch],
            [handle],
            lambda parameter: (_FIRST + parameter.bits, 0),
            (_STREAM, 0),
            found.address("cuLaunchKernel"),
            grid=(_GRID, 0),
        )
        table = known[op.name, dtype.short] = build_table(steps)
    return table
