"""What the runtime does for large arrays in eager code.

Special functions are computed by kernels, where NumPy has none and SciPy's take their time: 18 ns for each error
function, which a kernel finds in one, and up to 30 for each logarithm of the gamma function. Places in sorted rows are
searched by a kernel, too, several at a time: in a thousand elements, where nobody can guess which half is next, NumPy
takes 60 ns for each. Whether a kernel serves depends on the size alone, so that a program computes the same bits
whenever it runs; they are those of compiled code. A first call in a process that finds its kernels in the store, which
is an eager call, is so much shorter. Elementwise work is shared among threads (`strided`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ... import aligned, config, dtypes
from ...dtypes import DType
from ...ops.combining import set_combining
from ...ops.namespace import set_kernel_function
from ...ops.orders import set_search
from ...ops.row_products import set_row_product
from ...ops.slabs import SHARED, set_native

#: Elements from which on a kernel serves: it takes a twentieth of the time, and is compiled once for a machine.
LARGE = 1 << 14
#: The same for functions whose kernels take longer to compile.
LARGE_DEAR = 1 << 16
#: Values from which on a kernel searches for their places, and how many of them at a time in one vector.
SEARCHED, _EACH = 1 << 14, 1 << 9
#: Elements of rows that are multiplied at a time: a second thread is not worth waking for fewer.
_MULTIPLIED = 1 << 15
#: Elements that are combined at positions before a kernel is made, which takes as long to make; columns of a part.
_COMBINED, _WIDTH = 1 << 17, 32
#: Our names by SciPy's, where they are others.
_NAMES = {"expit": "sigmoid", "gammaln": "lgamma"}
_FINE = (np.dtype("float32"), np.dtype("float64"))
_SEARCHABLE = (*_FINE, np.dtype("int32"), np.dtype("int64"))
_CHEAP, _DEAR = ("erf", "erfc", "sigmoid"), ("erfinv", "lgamma", "digamma", "trigamma")


def _apply(name: str, x: np.ndarray) -> np.ndarray | None:
    """The function of every element of ``x``; None where SciPy is to serve."""
    ours = _NAMES.get(name, name)
    least = LARGE if ours in _CHEAP else LARGE_DEAR
    if x.size < least or ours not in _CHEAP + _DEAR or x.dtype not in _FINE or config.disabled:
        return None
    table = _table(ours, dtypes.from_numpy(x.dtype))
    read, out = np.ascontiguousarray(x), aligned.empty(x.shape, x.dtype)
    table.run_slots(0, table.n_steps, read.ctypes.data, out.ctypes.data, x.size)
    return out


@cache
def _table(name: str, kind: DType) -> Any:
    """The program of a function of every element: its slots are the addresses of both arrays and their length."""
    from ...codegen.cpu.functions import write_function

    return program_of(write_function(name, kind), 2)


def _row_product(x: np.ndarray) -> np.ndarray | None:
    """The product of every row; None where NumPy is to multiply."""
    if config.disabled:
        return None
    rows, n = np.ascontiguousarray(x), x.shape[-1]
    out = aligned.empty(x.shape[:-1], x.dtype)
    table = _product_table(dtypes.from_numpy(x.dtype), max(1, _MULTIPLIED // n).bit_length())
    table.run_slots(0, table.n_steps, rows.ctypes.data, out.ctypes.data, n, out.size)
    return out


@cache
def _product_table(kind: DType, grain: int) -> Any:
    """The program of products of rows, so many of which go together as a power of two says."""
    from ...codegen.cpu.functions import write_row_product

    return program_of(write_row_product(kind), 3, 1 << grain)


def program_of(function: Any, count: int, grain: int | None = None) -> Any:
    """A program of one step: so many parameters of the function are its slots, and the extent is the last one.

    >>> from tracejit.codegen.cpu.functions import write_function
    >>> program_of(write_function("erf", dtypes.float32), 2).n_steps
    1
    """
    from ...codegen.kernel import KernelCode
    from ..launcher import Step, build_table
    from ..machine_code.kernels import build

    kernel = build(KernelCode(function.name, (function,), None, ()))
    slots = [(slot, 0) for slot in range(count)]
    return build_table([Step(kernel.addresses[0], slots, (count, 0), grain or function.grain)])


@cache
def _search_table(kind: DType, right: bool) -> Any:
    """The program of a search: see :func:`write_search` for its slots."""
    from ...codegen.cpu.search import write_search

    return program_of(write_search(kind, right), 10)


def _search(sequence: np.ndarray, values: np.ndarray, right: bool) -> np.ndarray | None:
    """Places of values in sorted rows, or in one sorted vector; None where NumPy is to search."""
    if values.size < SEARCHED or not sequence.size or config.disabled:
        return None
    if values.dtype != sequence.dtype or sequence.dtype not in _SEARCHABLE:
        return None
    from ..threads import MAX_THREADS

    rows, wanted = np.ascontiguousarray(sequence), np.ascontiguousarray(values)
    length, several = rows.shape[-1], rows.ndim > 1
    each = values.shape[-1] if several else _EACH
    tasks = -(-values.size // each)
    apart = tasks < MAX_THREADS
    out = aligned.empty(values.shape, np.int64)
    ends = np.empty((tasks if apart else MAX_THREADS) * each, np.int64)
    pointers = [x.ctypes.data for x in (rows, wanted, out, ends)]
    numbers = (length, length * several, each, values.size, length.bit_length(), apart)
    table = _search_table(dtypes.from_numpy(rows.dtype), right)
    table.run_slots(0, table.n_steps, *pointers, *numbers, tasks)
    return out


_met: dict[tuple[str, DType, bool], int] = {}


def _combine(
    name: str,
    total: np.ndarray,
    index: np.ndarray,
    value: np.ndarray,
    extents: tuple[int, int, int, int, bool],
) -> bool:
    """Combine values into ``total``, in its memory, by a kernel once many have been; the bits are NumPy's."""
    before, n, size, width, single = extents
    key = (name, dtypes.from_numpy(total.dtype), single)
    met = _met[key] = _met.get(key, 0) + value.size
    if met < _COMBINED or config.disabled or not total.flags.c_contiguous:
        return False
    each = width if before > 1 else max(_WIDTH, -(-width // 4))
    parts = -(-width // each)
    places, new = np.ascontiguousarray(index, np.int64), np.ascontiguousarray(value)
    grain = (max(1, _MULTIPLIED * before * parts // value.size) - 1).bit_length()
    pointers = [x.ctypes.data for x in (total, places, new)]
    table = _combine_table(*key, grain)
    table.run_slots(0, table.n_steps, *pointers, n, size, width, parts, each, before * parts)
    return True


@cache
def _combine_table(name: str, kind: DType, single: bool, grain: int) -> Any:
    """The program of a combination: see :func:`write_combination` for its slots."""
    from ...codegen.cpu.functions import write_combination

    return program_of(write_combination(name, kind, single), 8, 1 << grain)


def _elementwise(
    run: Any, arrays: Sequence[np.ndarray], dtype: Any, out: np.ndarray | None = None
) -> np.ndarray | None:
    """Elementwise results of large arrays by all threads, once there is one: until then nothing of it is imported."""
    if config.disabled or max([x.size for x in arrays]) < SHARED:
        return None
    from .strided import apply

    set_native(apply)
    return apply(run, arrays, dtype, out)


set_kernel_function(_apply)
set_search(_search)
set_row_product(_row_product)
set_combining(_combine)
set_native(_elementwise)
