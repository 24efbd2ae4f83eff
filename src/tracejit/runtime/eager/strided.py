"""Elementwise work of eager code on large arrays by all threads: NumPy's inner loops, called by the native pool.

A universal function is a list of inner loops, one for each combination of dtypes, that C code may call
(``PyUFuncObject`` in NumPy's C API). The pool calls the very loop that NumPy would, for a few rows at a time, so the
bits are NumPy's; a hand-over takes a few microseconds, where one between threads of Python takes a hundred.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ... import aligned
from ...cuda.arrays import address_of
from ...ops.slabs import POOLED
from ..assembled import Effort, assembled, is_stored, process_triple
from ..behind import worker
from ..launcher import SERIAL, Step, Table, build_table
from ..machine_code.loader import load_object
from ..native.native import loaded, prepare, stored
from ..occupied import is_occupied
from ..pages import keep_freed_memory
from .strided_ir import OPERANDS, SELECTED_BYTES, strided_module_text

__all__ = ["apply", "ask", "inner_loop", "make"]

Array = Any
#: Elements of a row where the elements follow one another; shorter rows than the least are left to NumPy.
_ROW, _LEAST_ROW = 1 << 13, 1 << 5
#: Elements that are worth a hand-over; those of results from which on a choice is sooner than NumPy's, which branches.
_CHUNK, _LEAST_CHOICE = 1 << 15, 1 << 14
_MOST_KNOWN = 4096


class _UniversalFunction(ctypes.Structure):
    """The head of NumPy's ``PyUFuncObject``, which is part of its C API."""

    _fields_ = (
        ("head", ctypes.c_byte * object.__basicsize__),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.c_void_p),
    )


class _Work(NamedTuple):
    """What operands of some dtypes, shapes and strides are computed by."""

    table: Table
    head: tuple[int, ...]  # loop, data, operands, elements of a row, elements of all rows
    strides: tuple[tuple[int, int], ...]  # of each operand, and of the result
    rows: int
    shape: tuple[int, ...]
    aligned: tuple[int, ...]  # bits that no address of each may have
    shared: bool  # by several threads


_known: dict[Any, _Work | None] = {}


def apply(
    run: Any, arrays: Sequence[Array], dtype: np.dtype[Any], out: Array | None = None
) -> Array | None:
    """What ``run`` makes of operands of any strides, in the order of rows; None where NumPy is to do it.

    ``run`` is a universal function, or ``np.where``; ``dtype`` is that of its result. A contiguous ``out`` of its shape
    is written to where there is one, which may be one of the operands.

    >>> x = np.arange(1 << 18, dtype=np.float32).reshape(512, 512)
    >>> found = apply(np.add, (x[:, 1:-1], x[:, 2:]), x.dtype)
    >>> found is None or bool((found == x[:, 1:-1] + x[:, 2:]).all())
    True
    """
    if not _is_there():
        return None
    key = (run, dtype, *[(x.dtype, x.shape, x.strides) for x in arrays])
    try:
        work = _known[key]
    except KeyError:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        work = _known[key] = _work(run, arrays, dtype)
    if work is None or (work.shared and is_occupied()):
        return None
    if out is None:
        out = aligned.empty(work.shape, dtype)
    elif out.shape != work.shape:
        return None
    words = [*work.head]
    for x, strides, bits in zip((*arrays, out), work.strides, work.aligned, strict=True):
        place = address_of(x)
        if place & bits:
            return None
        words += (place, *strides)
    return None if work.table.run_slots(0, 1, *words, work.rows) else out


def _work(run: Any, arrays: Sequence[Array], dtype: np.dtype[Any]) -> _Work | None:
    dtypes = (*[x.dtype for x in arrays], dtype)
    loop = inner_loop(run, dtypes) if len(dtypes) <= OPERANDS else None
    if loop is None or not all(d.isnative for d in dtypes):
        return None
    shape = np.broadcast_shapes(*[x.shape for x in arrays])
    size = math.prod(shape)
    if size < (_LEAST_CHOICE if run is np.where else POOLED):
        return None
    result = tuple([dtype.itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape))])
    steps = [*[np.broadcast_to(x, shape).strides for x in arrays], result]
    rows = _rows(shape, steps)
    if rows is None:
        return None
    number, inner, strides = rows
    keep_freed_memory()
    head, shared = (*loop, len(dtypes), inner, size), size >= POOLED
    table = _table(len(dtypes), max(1, _CHUNK // inner) if shared else SERIAL)
    aligned = tuple([d.alignment - 1 for d in dtypes])
    return _Work(table, head, tuple(strides), number, shape, aligned, shared)


@dataclass(frozen=True)
class _Code:
    """Addresses of the kernel over rows, and of inner loops that choose, by the bytes of an element."""

    rows: int
    selects: dict[int, int]


_code: list[_Code] = []


def _is_there() -> bool:
    """Is the native code loaded?"""
    if not _code:
        ask()
    return bool(_code)


@cache
def ask() -> None:
    """Load what is stored, which takes no time; else have it made when there is nothing else to do.

    >>> ask()
    """
    if stored() and is_stored(strided_module_text(process_triple()), Effort.FULL):
        make()
    else:
        worker().submit_idle(make)


def make() -> None:
    """Have the native code, compiled where the store lacks it; without it NumPy goes on by itself.

    >>> make()
    """
    prepare()
    if _code or not loaded():
        return
    triple = process_triple()
    code = assembled(strided_module_text(triple), triple)
    selects = {n: load_object(code, f"tracejit_select_{n}") for n in SELECTED_BYTES}
    _code[:] = [_Code(load_object(code, "tracejit_strided"), selects)]


@cache
def _table(operands: int, grain: int) -> Table:
    """A program of one step whose arguments are its slots, and the number of rows the last of them."""
    arguments = [(slot, 0) for slot in range(5 + 3 * operands)]
    return build_table([Step(_code[0].rows, arguments, (len(arguments), 0), grain)])


def _rows(
    shape: tuple[int, ...], steps: Sequence[tuple[int, ...]]
) -> tuple[int, int, list[tuple[int, int]]] | None:
    """How many rows, of how many elements, and the bytes from row to row and from element to element.

    None where more than two dimensions are left when those that follow one another are taken together.

    >>> _rows((4, 512), [(2048, 4), (0, 4)])
    (4, 512, [(2048, 4), (0, 4)])
    >>> _rows((4, 4096), [(16384, 4), (16384, 4)])
    (2, 8192, [(32768, 4), (32768, 4)])
    """
    extents: list[int] = []
    merged: list[list[int]] = []
    for extent, own in zip(shape, zip(*steps, strict=True), strict=True):
        if extent == 1:
            continue
        if merged and all(a == b * extent for a, b in zip(merged[-1], own, strict=True)):
            extents[-1] *= extent
            merged[-1] = list(own)
        else:
            extents.append(extent)
            merged.append(list(own))
    if len(extents) == 1:
        inner = min(_ROW, extents[0])
        return -(-extents[0] // inner), inner, [(step * inner, step) for step in merged[0]]
    if len(extents) != 2 or extents[1] < _LEAST_ROW:
        return None
    return extents[0], extents[1], list(zip(*merged, strict=True))


@cache
def inner_loop(run: Any, dtypes: tuple[np.dtype[Any], ...]) -> tuple[int, int] | None:
    """Address and data of the inner loop for the dtypes of operands and result; None where there is none to call.

    >>> single, thing = np.dtype("float32"), np.dtype(object)
    >>> inner_loop(np.add, (single,) * 3) is None, inner_loop(np.add, (thing,) * 3) is None
    (False, True)
    """
    if any(d.hasobject for d in dtypes):
        return None
    if run is np.where:
        condition, *values = dtypes
        address = _code[0].selects.get(values[-1].itemsize)
        fits = condition == np.bool_ and len(values) == 3 and len(set(values)) == 1
        return (address, 0) if fits and address else None
    if not isinstance(run, np.ufunc) or run.signature is not None:
        return None
    if run is np.power and dtypes[-1].kind in "iu":
        return None  # raises an error for negative exponents, which a thread of the pool cannot
    types = "".join([d.char for d in dtypes])
    spelled = f"{types[: run.nin]}->{types[run.nin :]}"
    found = _UniversalFunction.from_address(id(run))
    if spelled not in run.types or (found.nin, found.nout, found.nargs) != (run.nin, 1, run.nargs):
        return None
    number = run.types.index(spelled)
    address = found.functions[number] if found.ntypes == len(run.types) else None
    return None if not address else (address, found.data[number] or 0)
