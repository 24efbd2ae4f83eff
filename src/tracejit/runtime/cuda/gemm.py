"""Matrix products on a device as steps of a program: cuBLAS, called by native code on the program's own stream.

cuBLAS thinks in columns: for row-major matrices C = A B it is asked for the transposed product, with the operands
exchanged. Half precision accumulates in float32; float32 is computed in float32 unless TF32 was asked for.
"""

from __future__ import annotations

import ctypes
import re
import struct
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...cuda.arrays import MODULES
from ...cuda.libraries import load_library
from ...sizes import call
from ..launcher import SERIAL, Step
from ..machine_code.loader import load_object

__all__ = ["DeviceGemm", "cublas", "gemm_step"]

Word = tuple[int, Any]  # as in launcher.Step

#: cuBLAS's numbers for element types, and for how products of them are computed (a word of its own for float32).
TYPES = {"f32": 0, "f64": 1, "f16": 2, "bf16": 14}
COMPUTE = {"f64": 70, "f16": 68, "bf16": 68}
FLOAT32, TF32 = 68, 77
#: Marks a status as cuBLAS's, whose numbers mean other things than the driver's.
CUBLAS = 1 << 16

_TEXT = """
declare i32 @cublasSetStream_v2(ptr, ptr)
declare i32 @cublasSetWorkspace_v2(ptr, ptr, i64)
declare i32 @cublasGemmStridedBatchedEx(ptr, i32, i32, i32, i32, i32, ptr, ptr, i32, i32, i64, ptr, i32, i32, i64,
  ptr, ptr, i32, i32, i64, i32, i32, i32)

define i32 @tj_cuda_gemm(ptr %args, i64 %lo, i64 %hi, i64 %worker) nounwind {
entry:
@LOADS@
  %wide = icmp ugt i64 %sizes, 2147483647
  br i1 %wide, label %refuse, label %start
refuse:
  ret i32 @TOO_LARGE@
start:
  %set = call i32 @cublasSetStream_v2(ptr %w0, ptr %w1)
  %bad = icmp ne i32 %set, 0
  br i1 %bad, label %failed, label %memory
memory:
  %own = icmp eq ptr %w21, null
  br i1 %own, label %product, label %given
given:
  %took = call i32 @cublasSetWorkspace_v2(ptr %w0, ptr %w21, i64 @WORKSPACE@)
  %refused = icmp ne i32 %took, 0
  br i1 %refused, label %failed, label %product
failed:
  %status = phi i32 [ %set, %start ], [ %took, %given ]
  %answer = or i32 %status, @CUBLAS@
  ret i32 %answer
product:
  %alpha = getelementptr i64, ptr %args, i64 19
  %beta = getelementptr i64, ptr %args, i64 20
  %code = call i32 @cublasGemmStridedBatchedEx(ptr %w0, i32 %w2, i32 %w3, i32 %w4, i32 %w5, i32 %w6,
    ptr %alpha, ptr %w7, i32 %w17, i32 %w8, i64 %w9, ptr %w10, i32 %w17, i32 %w11, i64 %w12,
    ptr %beta, ptr %w13, i32 %w17, i32 %w14, i64 %w15, i32 %w16, i32 %w18, i32 -1)
  %said = or i32 %code, @CUBLAS@
  %fine = icmp eq i32 %code, 0
  %result = select i1 %fine, i32 0, i32 %said
  ret i32 %result
}
"""
_POINTERS, _LONGS = {0, 1, 7, 10, 13, 21}, {9, 12, 15}
#: Words that cuBLAS takes in 32 bits: sizes, rows of memory, how many matrices. And its status where one does not fit.
_SIZES, TOO_LARGE = (4, 5, 6, 8, 11, 14, 16), 7
#: Bytes of memory that cuBLAS is given where it shall not use its own: what it takes itself on the largest devices.
WORKSPACE = 32 << 20


def _module_text() -> str:
    """The function with the loads of its words."""
    lines = []
    for number in (*range(19), 21):
        kind = "ptr" if number in _POINTERS else "i64" if number in _LONGS else "i32"
        lines.append(f"  %a{number} = getelementptr i64, ptr %args, i64 {number}")
        lines.append(f"  %w{number} = load {kind}, ptr %a{number}")
    known = "0"
    for number in _SIZES:
        name = "%sizes" if number == _SIZES[-1] else f"%sizes{number}"
        lines.append(f"  %s{number} = load i64, ptr %a{number}")
        lines.append(f"  {name} = or i64 {known}, %s{number}")
        known = name
    words = {"LOADS": "\n".join(lines), "CUBLAS": str(CUBLAS), "WORKSPACE": str(WORKSPACE)}
    words["TOO_LARGE"] = str(CUBLAS | TOO_LARGE)
    return re.sub("@([A-Z_]+)@", lambda found: words[found[1]], _TEXT)


@dataclass(frozen=True)
class Cublas:
    """The functions of cuBLAS that products need, by address."""

    set_stream: int
    set_workspace: int
    gemm: int


@lru_cache(maxsize=1)
def cublas() -> Cublas | None:
    """cuBLAS in this process, None where it cannot be loaded (products then run op by op).

    >>> cublas() is cublas()
    True
    """
    for module in MODULES.values():
        # CuPy loads its copy with its first handle. That one is found by name then, and not another beside it.
        with suppress(ImportError, RuntimeError):
            _ = module.cuda.Device().cublas_handle
    library = load_library("cublas", toolkit())
    if library is None:
        return None
    functions = (
        library.cublasSetStream_v2,
        library.cublasSetWorkspace_v2,
        library.cublasGemmStridedBatchedEx,
    )
    return Cublas(*(ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions))


def toolkit() -> str | None:
    """The generation of CUDA that CuPy was built for, whose handles are used; None where it is not loaded."""
    for module in MODULES.values():
        return str(module.cuda.runtime.runtimeGetVersion() // 1000)
    return None


@lru_cache(maxsize=4)
def _function(found: Cublas) -> int:
    from ...codegen.llvm import object_code

    code = object_code(_module_text())
    imports = {
        "cublasSetStream_v2": found.set_stream,
        "cublasSetWorkspace_v2": found.set_workspace,
        "cublasGemmStridedBatchedEx": found.gemm,
    }
    return load_object(code, "tj_cuda_gemm", imports)


@dataclass(frozen=True)
class DeviceGemm:
    """C = op(A) op(B) for a batch of row-major matrices, as `runtime.blas.Gemm` describes it.

    ``handle``, ``stream``, ``compute`` and ``workspace`` say where cuBLAS's handle, the stream, float32's way to
    compute and memory for cuBLAS (null: its own) come from.
    """

    dtype: str
    a: Word
    b: Word
    c: Word
    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int
    trans_a: bool
    trans_b: bool
    batch: int
    stride_a: int
    stride_b: int
    stride_c: int
    handle: Word
    stream: Word
    compute: Word
    workspace: Word


def _some(count: int) -> tuple[int]:
    """One where there is anything to compute, else none."""
    return (int(count > 0),)


def gemm_step(gemm: DeviceGemm) -> Step | None:
    """The step that computes a product, None without cuBLAS.

    >>> here = (0, 0)
    >>> sizes = dict(m=2, n=3, k=4, lda=4, ldb=3, ldc=3, trans_a=False, trans_b=False)
    >>> steps = dict(batch=1, stride_a=0, stride_b=0, stride_c=6)
    >>> words = dict(a=here, b=here, c=here, handle=here, stream=here, compute=here, workspace=here)
    >>> gemm = DeviceGemm("f32", **sizes, **steps, **words)
    >>> (gemm_step(gemm) is None) == (cublas() is None)
    True
    """
    found = cublas()
    if found is None:
        return None
    one, zero = (
        struct.unpack(
            "<q", struct.pack("<d", x) if gemm.dtype == "f64" else struct.pack("<fI", x, 0)
        )
        for x in (1.0, 0.0)
    )
    numbers = [gemm.n, gemm.m, gemm.k]
    right = [gemm.b, (-1, gemm.ldb), (-1, gemm.stride_b)]
    left = [gemm.a, (-1, gemm.lda), (-1, gemm.stride_a)]
    result = [gemm.c, (-1, gemm.ldc), (-1, gemm.stride_c), (-1, gemm.batch)]
    compute = gemm.compute if gemm.dtype == "f32" else (-1, COMPUTE[gemm.dtype])
    words: list[Word] = [
        gemm.handle,
        gemm.stream,
        (-1, int(gemm.trans_b)),
        (-1, int(gemm.trans_a)),
        *((-1, x) for x in numbers),
        *right,
        *left,
        *result,
        (-1, TYPES[gemm.dtype]),
        compute,
        (-1, one[0]),
        (-1, zero[0]),
        gemm.workspace,
    ]
    (extent,) = call(_some, gemm.m * gemm.n * gemm.batch)
    return Step(_function(found), words, (-1, extent), SERIAL)
