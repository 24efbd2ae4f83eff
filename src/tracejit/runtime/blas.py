"""Matrix products as program steps: BLAS, or code of our own, called from our own parallel region.

Two thread pools fight, so a step calls BLAS for its share of rows (or columns) from our pool while
BLAS's own threads are off. The BLAS is MKL where that is installed (`tracejit[mkl]`), else the one NumPy
itself is linked to: it is in the process already (importing `scipy.linalg` costs 170 ms). SciPy's is the
next choice. Where none is found `gemm_step` answers None and the caller uses `numpy.matmul`. Without MKL
the library is asked for vectors only where our own code is better at matrices (`products`).
"""

from __future__ import annotations

import ctypes
import importlib.util
import site
import sys
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracejit.ops.library_threads import DECORATIONS
from tracejit.runtime.ahead import NONE, Ahead
from tracejit.runtime.assembled import process_triple
from tracejit.runtime.blas_ir import gemm_module_text
from tracejit.runtime.launcher import BLAS, COARSE, RELEASE_GIL, SERIAL, Step
from tracejit.runtime.machine_code.promised import located
from tracejit.runtime.machine_code.vector_modules import VectorModule, address, known_address
from tracejit.runtime.native.native import set_context
from tracejit.runtime.products import product_module
from tracejit.sizes import call

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Blas", "Gemm", "find_blas", "gemm_module", "gemm_modules", "gemm_step", "is_gemm"]

#: An argument of a step: (slot, value), or a plain number.
Arg = tuple[int, int] | int
#: From matrix to matrix of a batch: one stride, or (count, outer, inner).
BatchStride = tuple[int, int, int] | int

#: Multiply-adds worth a chunk of their own: two to four microseconds, twice what a hand-over costs.
_CHUNK_WORK = 1 << 17
#: Multiply-adds from which on a product lets other Python threads run.
_RELEASE_WORK = 1 << 21
_DTYPES = ("f32", "f64")
_ROW_TILE, _COLUMN_TILE = 8, 32  # what BLAS's inner kernels are made for, so no chunk is ragged


@dataclass(frozen=True)
class Blas:
    """A BLAS library in this process.

    `gemm` are the addresses of its Fortran `sgemm` and `dgemm` by dtype, `gemv` of `sgemv` and
    `dgemv` (0: unknown). `controlled` says whether its threads can be switched off; where not, it is
    called once and uses its own. `vectors_only` says whether our own code multiplies matrices where it can.
    """

    origin: str
    gemm: dict[str, int]
    max_size: int
    controlled: bool
    gemv: dict[str, int]
    vectors_only: bool = False


@dataclass(frozen=True)
class Gemm:
    """C = op(A) op(B) for a batch of row-major matrices; of bfloat16, C is float32.

    A is (m, k), or (k, m) with `trans_a`; B is (k, n), or (n, k) with `trans_b`; C is (m, n).
    `a`, `b`, `c` are addresses; strides count elements: `lda`, `ldb`, `ldc` from row to row as the
    matrices lie in memory, `stride_a`, `stride_b`, `stride_c` from matrix to matrix of the batch
    (0 repeats one), or three numbers (count, outer, inner) where two dimensions of a batch have strides
    of their own: matrix i lies at `i // count * outer + i % count * inner`. Each value is a number or a
    (slot, offset) pair.
    """

    dtype: str
    a: Arg
    b: Arg
    c: Arg
    m: int
    n: int
    k: int
    lda: Arg
    ldb: Arg
    ldc: Arg
    trans_a: bool = False
    trans_b: bool = False
    batch: int = 1
    stride_a: BatchStride = 0
    stride_b: BatchStride = 0
    stride_c: BatchStride = 0


def gemm_step(gemm: Gemm, ahead: Ahead = NONE) -> Step | None:
    """The step that computes a product, or None when there is no BLAS for it; its code may be compiled ``ahead``.

    No dimension of C: the step does nothing; k = 0: it writes zeros. What C held before never
    matters. A row stride shorter than a row makes the step fail with code 22.

    Raises ValueError for a negative size.

    >>> gemm_step(Gemm("f64", 0, 0, 0, m=2, n=3, k=-1, lda=1, ldb=3, ldc=3))
    Traceback (most recent call last):
    ...
    ValueError: negative size in a matrix product: ...
    """
    if any(size < 0 for size in (gemm.m, gemm.n, gemm.k, gemm.batch)):
        raise ValueError(f"negative size in a matrix product: {gemm}")
    blas = find_blas()
    if blas is None or any(size > blas.max_size for size in (gemm.m, gemm.n, gemm.k)):
        return None
    own = _own_product(blas, gemm.dtype)
    if own is None and gemm.dtype not in blas.gemm:
        return None
    single = gemm.batch == 1
    columns, extent, grain, release = call(divide, int(single), gemm.m, gemm.n, gemm.k, gemm.batch)
    product = blas.gemm[gemm.dtype] if own is None else address(own, ahead)
    words = (product, gemm.a, gemm.b, gemm.c, gemm.m, gemm.n, gemm.k)
    strides = (gemm.lda, gemm.ldb, gemm.ldc, int(gemm.trans_a), int(gemm.trans_b), columns)
    batch = [word for s in (gemm.stride_a, gemm.stride_b, gemm.stride_c) for word in _levels(s)]
    return Step(
        address(gemm_module(gemm.dtype), ahead),
        [_pair(word) for word in (*words, *strides, *batch, blas.gemv.get(gemm.dtype, 0))],
        (-1, extent),
        grain if blas.controlled else SERIAL,
        (BLAS if blas.controlled else 0) + (COARSE if single else 0) + release,
    )


def _own_product(blas: Blas, dtype: str) -> VectorModule | None:
    """Our own code for products of a dtype, where it is better than the library or the library has none."""
    return product_module(dtype) if blas.vectors_only or dtype not in blas.gemm else None


def gemm_modules(dtype: str) -> list[VectorModule]:
    """The code that steps for products of a dtype are made of; none where there is no such step.

    >>> gemm_modules("i32")
    []
    """
    blas = find_blas()
    own = None if blas is None else _own_product(blas, dtype)
    if blas is None or (own is None and dtype not in blas.gemm):
        return []
    return [gemm_module(dtype), *([] if own is None else [own])]


def _levels(stride: BatchStride) -> tuple[int, int, int]:
    return stride if isinstance(stride, tuple) else (1, stride, 0)


def _pair(argument: Arg) -> tuple[int, int]:
    return argument if isinstance(argument, tuple) else (-1, argument)


def divide(single: int, m: int, n: int, k: int, batch: int) -> tuple[int, int, int, int]:
    """By columns or not, the parallel extent, its grain, and the flag for letting other Python threads run.

    A single product is divided along its longer side: each call packs all of the other matrix.

    >>> divide(1, 8, 4096, 64, 1)
    (1, 4096, 256, 1)
    """
    columns = single == 1 and n > m
    extent = (n if columns else batch * m) if m and n else 0
    release = RELEASE_GIL if batch * m * n * k >= _RELEASE_WORK else 0
    return int(columns), extent, _grain(columns, m, n, k, batch), release


def _grain(columns: bool, m: int, n: int, k: int, batch: int) -> int:
    """The least part of the parallel range that is worth a call of its own."""
    one = max(1, (m if columns else n) * max(k, 1))
    count = -(-_CHUNK_WORK // one)
    if not columns and batch > 1 and count >= m:
        return max(1, m) * -(-count // max(1, m))  # whole matrices
    tile = _COLUMN_TILE if columns else _ROW_TILE
    return -(-count // tile) * tile


@cache
def gemm_module(dtype: str) -> VectorModule:
    """The function of the step, which calls BLAS or our own code for its share.

    >>> gemm_module("f32").symbol
    'tracejit_gemm_f32'
    """
    return VectorModule(f"tracejit_gemm_{dtype}", gemm_module_text(process_triple(), dtype))


def is_gemm(function: int, dtype: str) -> bool:
    """Is a step's function that of products of a dtype?

    >>> is_gemm(0, "f32")
    False
    """
    return function == known_address(gemm_module(dtype))


# Finding a BLAS.


@lru_cache(maxsize=1)
def find_blas() -> Blas | None:
    """The BLAS steps call, found once; None where there is none."""
    found = _found()
    if found is None:
        return None
    gemm, gemv = (
        {dtype: located(at, "blas", name, dtype) if at else 0 for dtype, at in known.items()}
        for name, known in (("gemm", found.gemm), ("gemv", found.gemv))
    )
    return replace(found, gemm=gemm, gemv=gemv)


def routine_address(name: str, dtype: str) -> int | None:
    """Where the library has its ``gemm`` or ``gemv`` for a dtype; None where it has none.

    >>> routine_address("gemm", "i32") is None
    True
    """
    blas = find_blas()
    return None if blas is None else getattr(blas, name).get(dtype) or None


def _found() -> Blas | None:
    for path in _mkl_libraries():
        found = _in_library("mkl", path, MKL)
        if found is not None:
            return found
    for origin, path in _extension_modules():
        found = _in_library(origin, path)
        if found is not None:
            return replace(found, vectors_only=found.controlled)
    return _from_cython_blas()


def _mkl_libraries() -> Iterator[str]:
    """Where pip and conda put MKL's single library."""
    for folder in dict.fromkeys((sys.prefix, site.getuserbase())):
        for pattern in ("lib/libmkl_rt.so*", "lib/libmkl_rt*.dylib", "Library/bin/mkl_rt*.dll"):
            yield from sorted(map(str, Path(folder).glob(pattern)), reverse=True)


def _extension_modules() -> Iterator[tuple[str, str]]:
    """Compiled modules linked to a BLAS. Symbols are looked up through a library's dependencies."""
    import numpy.linalg._umath_linalg as numpy_linalg

    if getattr(numpy_linalg, "__file__", None):
        yield "numpy", str(numpy_linalg.__file__)
    spec = importlib.util.find_spec("scipy")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(folder, "linalg").glob("_fblas*.so")):
            yield "scipy", str(path)


#: The functions that tell and set how many threads a library uses; names of OpenBLAS may be decorated.
_OPENBLAS = ("openblas_get_num_threads", "openblas_set_num_threads")
MKL = ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads")


def _in_library(origin: str, path: str, controlling: Sequence[str] = _OPENBLAS) -> Blas | None:
    try:
        library = ctypes.CDLL(path)
    except OSError:
        return None
    decorations = DECORATIONS if controlling is _OPENBLAS else (("", ""),)
    for prefix, suffix in decorations:
        names = [f"{prefix}{letter}{{}}_{'64_' if suffix else ''}" for letter in "sd"]
        gemm, gemv = (
            dict(
                zip(
                    _DTYPES,
                    [_address(library, name.format(routine)) for name in names],
                    strict=True,
                )
            )
            for routine in ("gemm", "gemv")
        )
        if not all(gemm.values()):
            continue
        controls = [_address(library, f"{prefix}{name}{suffix}") for name in controlling]
        controlled = all(controls)
        if controlled:
            set_context("blas_get_threads", controls[0])
            set_context("blas_set_threads", controls[1])
        limit = (1 << 63) - 1 if suffix else (1 << 31) - 1
        return Blas(origin, gemm, limit, controlled, gemv)
    return None


def _address(library: Any, name: str) -> int:
    try:
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


def _from_cython_blas() -> Blas | None:
    """SciPy's public route to its BLAS, whatever library that is; slow to import, so last."""
    try:
        from scipy.linalg import cython_blas

        capsules = [cython_blas.__pyx_capi__[name] for name in ("sgemm", "dgemm", "sgemv", "dgemv")]
    except (ImportError, AttributeError, KeyError):
        return None
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    addresses = [pointer_of(capsule, name_of(capsule)) for capsule in capsules]
    gemm, gemv = (dict(zip(_DTYPES, part, strict=True)) for part in (addresses[:2], addresses[2:]))
    return Blas("scipy.linalg.cython_blas", gemm, (1 << 31) - 1, controlled=False, gemv=gemv)
