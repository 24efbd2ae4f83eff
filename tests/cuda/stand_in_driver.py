"""A driver library that executes kernels: the PTX of what is launched runs on the memory of `stand_in_arrays`.

It takes the place of the driver below the real planner, launcher and native code: an image is the kernel's own text,
``cuLaunchKernel`` and cuBLAS are functions of C type, and streams are in order because everything runs at once.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import graph_tools as tools
import ml_dtypes
import numpy as np
import ptx_machine
import ptx_parser
import stand_in
import stand_in_arrays
from ptx_text import parameter_types
from stand_in_regions import region

from tracejit.codegen.cuda.launch import BLOCK
from tracejit.cuda import arrays, driver
from tracejit.runtime.cuda import gemm, kernels
from tracejit.runtime.cuda.gemm import Cublas

_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3
)
_COPY = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p
)
_WAIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_SET_STREAM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_SET_WORKSPACE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_MATRIX = (ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_longlong)
_GEMM = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    *[ctypes.c_int] * 5,
    ctypes.c_void_p,
    *_MATRIX,
    *_MATRIX,
    ctypes.c_void_p,
    *_MATRIX,
    *[ctypes.c_int] * 3,
)
_TYPES = {0: np.float32, 1: np.float64, 2: np.float16, 14: ml_dtypes.bfloat16}


class DriverLibrary:
    """Two devices of compute capability 9.0."""

    def __init__(self) -> None:
        self.images: list[str] = []
        self.owners: list[int] = []  # the device that each image was loaded into
        self.launched: list[tuple[str, int]] = []
        self.products: list[int] = []
        self.errors: list[Exception] = []
        self.workspace: int | None = None
        self.cuLaunchKernel = _LAUNCH(self._guarded)
        self.cuMemcpyDtoHAsync_v2 = _COPY(self._copy_to_host)
        self.cuStreamSynchronize = _WAIT(self._wait)
        self.reads = 0  # bytes that native code read
        self.set_stream = _SET_STREAM(self._set_stream)
        self.set_workspace = _SET_WORKSPACE(self._set_workspace)
        self.gemm = _GEMM(self._product)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *_: 0

    def cuDeviceGetAttribute(self, value: Any, number: int, device: Any) -> int:
        value._obj.value = {75: 9, 76: 0, 16: 132}[number]
        return 0

    # --- contexts: a device's number stands for its primary one ---------------------------------------------------

    def cuDeviceGet(self, device: Any, index: int) -> int:
        device._obj.value = index
        return 0

    def cuDevicePrimaryCtxRetain(self, context: Any, device: Any) -> int:
        context._obj.value = device.value + 1
        return 0

    def cuCtxGetCurrent(self, context: Any) -> int:
        current = stand_in_arrays.CURRENT.context
        context._obj.value = None if current is None else current + 1
        return 0

    def cuCtxSetCurrent(self, context: Any) -> int:
        stand_in_arrays.Device(context.value - 1).use()
        return 0

    def cuCtxPushCurrent_v2(self, context: Any) -> int:
        current = stand_in_arrays.CURRENT
        self.stack = [*getattr(self, "stack", []), (current.device, current.context)]
        return self.cuCtxSetCurrent(context)

    def cuCtxPopCurrent_v2(self, context: Any) -> int:
        current = stand_in_arrays.CURRENT
        current.device, current.context = self.stack.pop()
        return 0

    # --- kernels --------------------------------------------------------------------------------------------------

    def cuModuleLoadDataEx(self, module: Any, image: bytes, *_: Any) -> int:
        if stand_in_arrays.CURRENT.context is None:
            return 201
        self.owners.append(stand_in_arrays.CURRENT.context)
        self.images.append(image.rstrip(b"\0").decode())
        module._obj.value = len(self.images)
        return 0

    def cuModuleGetFunction(self, function: Any, module: Any, entry: bytes) -> int:
        function._obj.value = module.value
        return 0

    @property
    def cublas(self) -> Cublas:
        functions = (self.set_stream, self.set_workspace, self.gemm)
        return Cublas(*(ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions))

    # --- launches ------------------------------------------------------------------------------------------------

    def _guarded(self, *arguments: Any) -> int:
        if not 0 < arguments[1] < 1 << 31:
            return 1  # a grid of no blocks is an invalid value
        if stand_in_arrays.CURRENT.context is None:
            return 201
        if stand_in_arrays.CURRENT.context != self.owners[arguments[0] - 1]:
            return 400
        try:
            self._launch(*arguments)
        except Exception as error:  # noqa: BLE001
            self.errors.append(error)
            return 719
        return 0

    def _launch(self, handle: int, grid: int, *rest: Any) -> None:
        source = self.images[handle - 1]
        name = source.split("(")[0].removeprefix("def ")
        pointers = ctypes.cast(rest[-2], ctypes.POINTER(ctypes.POINTER(ctypes.c_uint64)))
        kinds = parameter_types(source)
        words = [pointers[i][0] for i in range(len(kinds))]
        self._later(self._run, source, name, grid, kinds, words)

    def _later(self, function: Any, *arguments: Any) -> None:
        """Do something, or note it where a graph is being captured."""
        if stand_in_arrays.CURRENT.capture is None:
            function(*arguments)
        else:
            stand_in_arrays.CURRENT.capture.append((function, arguments))

    def _run(self, source: str, name: str, grid: int, kinds: Any, words: Any) -> None:
        kernel = ptx_parser.parse(tools.ptx_of(source, name, "sm_90"))
        machine = ptx_machine.Machine(kernel, grid, BLOCK, [0] * len(words))
        for (parameter, _), word, kind in zip(kernel.parameters, words, kinds, strict=True):
            narrow = np.uint32 if kind in ("f32", "u32") else np.uint64
            machine.parameters[parameter] = np.array(word & int(np.iinfo(narrow).max), narrow)
            if kind.endswith("*"):
                found = region(word)
                if found is not None and found.ctypes.data not in machine.starts:
                    machine.buffers.append(found)
                    machine.starts.append(found.ctypes.data)
        machine.run()
        self.launched.append((name, grid))

    # --- truths that native code reads ----------------------------------------------------------------------------

    def _copy_to_host(self, to: int, source: int, nbytes: int, stream: Any) -> int:
        if stand_in_arrays.CURRENT.context is None:
            return 201
        if region(source) is None:
            return 1
        self.reads += 1
        ctypes.memmove(to, source, nbytes)
        return 0

    def _wait(self, stream: Any) -> int:
        """Native code may wait for what it queued, but not while a graph is captured."""
        return 900 if stand_in_arrays.CURRENT.capture is not None else 0

    # --- products ------------------------------------------------------------------------------------------------

    def _set_stream(self, handle: Any, stream: Any) -> int:
        self.workspace = None  # cuBLAS takes its own again
        return 0

    def _set_workspace(self, handle: Any, memory: int, size: int) -> int:
        found = region(memory)
        fits = found is not None and found.ctypes.data == memory and found.nbytes >= size
        self.workspace = memory if fits and not memory % 256 else None
        return 0 if self.workspace else 7

    def _product(
        self, handle: Any, trans_a: int, trans_b: int, m: int, n: int, k: int, *rest: Any
    ) -> int:
        if not _is_valid(trans_a, trans_b, m, n, k, *rest):
            return 7  # CUBLAS_STATUS_INVALID_VALUE
        if stand_in_arrays.CURRENT.capture is not None and self.workspace is None:
            return 14  # memory of the handle in a graph, which may outlive it
        wide, size = ("<d", 8) if rest[2] == 1 else ("<f", 4)
        assert struct.unpack(wide, ctypes.string_at(rest[0], size)) == (1.0,)
        self._later(self._multiply, trans_a, trans_b, m, n, k, *rest)
        return 0

    def _multiply(self, trans_a: int, trans_b: int, m: int, n: int, k: int, *rest: Any) -> None:
        _alpha, a, kind, lda, stride_a, b, _, ldb, stride_b, _beta, c, _, ldc, stride_c, count = (
            rest[:15]
        )
        dtype = np.dtype(_TYPES[kind])
        self.products.append(rest[15])

        def matrix(address: int, rows: int, columns: int, ld: int) -> Any:
            if not rows or not columns:
                return np.zeros((rows, columns), dtype)
            nbytes = (ld * (columns - 1) + rows) * dtype.itemsize
            flat = np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), dtype)
            steps = (dtype.itemsize, ld * dtype.itemsize)
            return np.lib.stride_tricks.as_strided(flat, (rows, columns), steps)

        wide = np.float64 if kind == 1 else np.float32
        for i in range(count):
            at = i * dtype.itemsize
            left = matrix(a + at * stride_a, *((k, m) if trans_a else (m, k)), lda)
            right = matrix(b + at * stride_b, *((n, k) if trans_b else (k, n)), ldb)
            left, right = left.T if trans_a else left, right.T if trans_b else right
            out = matrix(c + at * stride_c, m, n, ldc)
            out[...] = (left.astype(wide) @ right.astype(wide)).astype(dtype)


def _is_valid(trans_a: int, trans_b: int, m: int, n: int, k: int, *rest: Any) -> bool:
    """What cuBLAS asks of sizes and leading dimensions, whether or not there is anything to compute."""
    lda, ldb, ldc, count = rest[3], rest[7], rest[12], rest[14]
    rows = ((k if trans_a else m, lda), (n if trans_b else k, ldb), (m, ldc))
    return min(m, n, k, count) >= 0 and all(ld >= max(1, extent) for extent, ld in rows)


def install(monkeypatch: Any, library: DriverLibrary) -> Any:
    """Let the package find two devices, whose driver is ``library``; the module that stands for CuPy."""
    from tracejit.optim import fused

    module = stand_in.install(monkeypatch, driver, arrays, library)
    monkeypatch.setattr(kernels, "image", lambda source, name, architecture: source.encode())
    monkeypatch.setattr(kernels, "_handles", {})
    monkeypatch.setattr(gemm, "cublas", lambda: library.cublas)
    monkeypatch.setattr(fused, "_updates", {})
    return module
