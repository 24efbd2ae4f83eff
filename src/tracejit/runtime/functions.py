"""What the runtime does for large arrays in eager code.

Special functions are computed by kernels, where NumPy has none and SciPy's take their time: 18 ns for each error
function, which a kernel finds in one, and up to 30 for each logarithm of the gamma function. Whether a kernel serves
depends on the size alone, so that a program computes the same bits whenever it runs; they are those of compiled code.
A first call in a process that finds its kernels in the store, which is an eager call, is so much shorter. Elementwise
work is shared among threads (`strided`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import config, dtypes
from ..ops.namespace import set_kernel_function
from ..ops.slabs import SHARED, set_native

#: Elements from which on a kernel serves: SciPy would take milliseconds.
LARGE = 1 << 17
#: The same for functions for each element of which SciPy takes longer.
LARGE_DEAR = 1 << 16
#: SciPy's names, and ours.
_NAMES = {"erf": "erf", "erfc": "erfc", "expit": "sigmoid"}
_DEAR = {"erfinv": "erfinv", "gammaln": "lgamma", "digamma": "digamma", "trigamma": "trigamma"}
_SHORT = {np.dtype("float32"): "f32", np.dtype("float64"): "f64"}
_tables: dict[tuple[str, str], Any] = {}


def _apply(name: str, x: np.ndarray) -> np.ndarray | None:
    """The function of every element of ``x``; None where SciPy is to serve."""
    short = _SHORT.get(x.dtype)
    ours = _NAMES.get(name) if x.size >= LARGE else None
    if ours is None and x.size >= LARGE_DEAR:
        ours = _DEAR.get(name)
    if ours is None or short is None or config.disabled:
        return None
    table = _tables.get((name, short))
    if table is None:
        table = _tables[name, short] = _table(ours, short)
    read, out = np.ascontiguousarray(x), np.empty(x.shape, x.dtype)
    table.run_slots(0, table.n_steps, read.ctypes.data, out.ctypes.data, x.size)
    return out


def _table(name: str, short: str) -> Any:
    """A program of one step: the addresses of both arrays and their length are its slots."""
    from ..codegen.cpu_functions import write_function
    from ..codegen.kernel import KernelCode
    from .kernels import build
    from .launcher import Step, build_table

    function = write_function(name, dtypes.float32 if short == "f32" else dtypes.float64)
    kernel = build(KernelCode(function.name, (function,), None, ()))
    return build_table([Step(kernel.addresses[0], [(0, 0), (1, 0)], (2, 0), function.grain)])


def _elementwise(run: Any, arrays: Sequence[np.ndarray], dtype: Any) -> np.ndarray | None:
    """Elementwise results of large arrays by all threads, once there is one: until then nothing of it is imported."""
    if config.disabled or max([x.size for x in arrays]) < SHARED:
        return None
    from .strided import apply

    set_native(apply)
    return apply(run, arrays, dtype)


set_kernel_function(_apply)
set_native(_elementwise)
