"""CuPy as it is, over a runtime that keeps memory on the host and starts no kernel: what would it refuse?

CuPy's modules find CUDA's runtime, driver and libraries through tables of C functions. These are exchanged before CuPy
is imported, so that all of its own code runs. Numbers are never computed: results hold zeros.

``python tests/cuda/without_driver.py`` gives every op samples of every dtype and names those that raise, or whose
results have another type; with ``--compile``, NVRTC compiles every kernel that CuPy asks for on the way (minutes). It
needs CuPy and the libraries of its toolkit (``pip install "cupy-cuda13x[ctk]"``), but neither a GPU nor a driver.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.util
import inspect
import itertools
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tracejit.codegen.llvm import object_code
from tracejit.runtime.machine_code.loader import load_object

Function = Callable[..., Any]

_LIBRARIES = ("nvJitLink", "cublasLt", "cublas", "cusparse", "cusolver", "curand", "cufft", "nvrtc")
#: C types in the signatures that the tables hold; other names are enumerations, other pointers opaque.
_TYPES = {
    "PyObject *": ctypes.py_object,
    "intptr_t": ctypes.c_ssize_t,
    "size_t": ctypes.c_size_t,
    "uintmax_t": ctypes.c_uint64,
    "int64_t": ctypes.c_int64,
    "unsigned int": ctypes.c_uint,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}
#: Attributes of the device that CuPy asks for, by number: an H200's.
_ATTRIBUTES = {1: 1024, 8: 49152, 10: 32, 16: 132, 39: 2048, 75: 9, 76: 0}
_PAIR = "define {i64, i64} @pair_of_sizes() {\n  ret {i64, i64} {i64 8, i64 8}\n}\n"
_SIZES = load_object(object_code(_PAIR), "pair_of_sizes")

_kept: list[Any] = []
_memory: dict[int, Any] = {}
_handles = itertools.count(4096, 16)
#: What CuPy wanted to have compiled: source, options and names.
KERNELS: dict[Any, tuple[Any, ...]] = {}
_COMPILATION: inspect.Signature


# --- tables of functions ----------------------------------------------------------------------------------------------


def exchange(module: Any, own: Mapping[str, Function]) -> None:
    """Let every function in a module's table answer with zero or nothing, or do what ``own`` says."""
    capsule, name_of = ctypes.pythonapi.PyCapsule_New, ctypes.pythonapi.PyCapsule_GetName
    capsule.restype, name_of.restype = ctypes.py_object, ctypes.c_char_p
    capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    name_of.argtypes = [ctypes.py_object]
    for name, entry in list(module.__pyx_capi__.items()):
        signature = name_of(entry).decode()
        made = _function(name, signature, own)
        if made is None:
            continue
        address, called = made
        label = ctypes.create_string_buffer(signature.encode())
        _kept.append((called, label))
        module.__pyx_capi__[name] = capsule(address, ctypes.cast(label, ctypes.c_char_p), None)
        if hasattr(module, name):
            setattr(module, name, called)


def _function(name: str, signature: str, own: Mapping[str, Function]) -> Any:
    """The address of a C function of this signature, and what it calls; None for what stays as it is."""
    found = re.match(r"^(.*?)\s*\((.*)\)$", signature)
    if found is None:
        return None
    result = found[1].strip()
    if result.startswith("__pyx_ctuple_size_t__and_size_t"):
        return _SIZES, lambda *_: (8, 8)
    if name not in own and (result not in (*_TYPES, "int") or name == "check_status"):
        return None
    words = [word for word in found[2].split(",") if word.strip() not in ("", "void")]
    given = sum("__pyx_" not in word or "pyx_obj" in word for word in words)
    plain = own.get(name, lambda *_: None if result == "PyObject *" else 0)

    def called(*arguments: Any) -> Any:
        return plain(*arguments[:given])

    kind = ctypes.PYFUNCTYPE(_type(result, ctypes.py_object), *map(_type, words))
    function = kind(called)
    _kept.append(function)
    return ctypes.cast(function, ctypes.c_void_p), called


def _type(word: str, pointer: Any = ctypes.c_void_p) -> Any:
    bare = re.sub(r"\s*__pyx_skip_dispatch$", "", word.strip())
    return _TYPES.get(bare) or (pointer if "*" in bare else ctypes.c_int)


# --- a runtime --------------------------------------------------------------------------------------------------------


def _allocate(nbytes: int, *_: Any) -> int:
    raw = np.zeros(nbytes + 512, np.uint8)
    address = raw.ctypes.data + -raw.ctypes.data % 512
    _memory[address] = raw
    return address


def _free(address: int, *_: Any) -> None:
    _memory.pop(address, None)


def _new(*_: Any) -> int:
    return next(_handles)


def _copy(target: int, source: int, nbytes: int, *_: Any) -> None:
    ctypes.memmove(target, source, nbytes)


def _set(target: int, value: int, nbytes: int, *_: Any) -> None:
    ctypes.memset(target, value, nbytes)


def _runtime(module: Any) -> dict[str, Function]:
    properties = {"name": b"none", "totalGlobalMem": 1 << 37, "multiProcessorCount": 132}
    properties |= {"warpSize": 32, "maxThreadsPerBlock": 1024, "major": 9, "minor": 0}
    version = lambda *_: 13000  # noqa: E731
    return {
        **dict.fromkeys(("malloc", "mallocAsync", "hostAlloc"), _allocate),
        **dict.fromkeys(("free", "freeAsync", "freeHost"), _free),
        **dict.fromkeys(("memcpy", "memcpyAsync"), _copy),
        **dict.fromkeys(("memset", "memsetAsync"), _set),
        **{f"{kind}Create{how}": _new for kind in ("event", "stream") for how in ("", "WithFlags")},
        **dict.fromkeys(("runtimeGetVersion", "driverGetVersion"), version),
        "getDeviceCount": lambda: 1,
        "_getCUDAMajorVersion": lambda: 13,
        "deviceGetAttribute": lambda number, _: _ATTRIBUTES.get(number, 0),
        "getDeviceProperties": lambda _: properties,
        "memGetInfo": lambda: (1 << 36, 1 << 37),
        "pointerGetAttributes": lambda address: module.PointerAttributes(0, address, address, 2),
    }


def _compiled(source: str, options: Any, *given: Any, **named: Any) -> Any:
    """In place of CuPy's compilation: remembers the kernel."""
    from cupy.cuda import function

    found = _COMPILATION.bind(source, options, *given, **named).arguments
    names = tuple(found.get("name_expressions") or ())
    KERNELS[source, tuple(options), names] = (source, tuple(options), names, found.get("jitify"))
    module = function.Module()
    module.load(b"nothing")
    module._set_mapping({name: name for name in names} or None)
    return module


def install() -> None:
    """Import CuPy with everything below it exchanged."""
    folder = Path(importlib.util.find_spec("nvidia").submodule_search_locations[0])  # type: ignore
    for name in _LIBRARIES:
        for file in folder.glob(f"*/lib/lib{name}.so.*"):
            ctypes.CDLL(str(file), ctypes.RTLD_GLOBAL)
    runtime = importlib.import_module("cupy_backends.cuda.api.runtime")
    exchange(runtime, _runtime(runtime))
    driver = importlib.import_module("cupy_backends.cuda.api.driver")
    loaded = dict.fromkeys(("moduleLoadData", "moduleGetFunction", "ctxGetCurrent"), _new)
    exchange(driver, {**loaded, "occupancyMaxActiveBlocksPerMultiprocessor": lambda *_: 8})
    for name in ("cublas", "cusolver", "cusparse"):
        library = importlib.import_module(f"cupy_backends.cuda.libs.{name}")
        exchange(library, dict.fromkeys(("create", "createGesvdjInfo", "createSyevjInfo"), _new))
    cupy = importlib.import_module("cupy")
    compiler = importlib.import_module("cupy.cuda.compiler")
    global _COMPILATION
    _COMPILATION = inspect.signature(compiler._compile_with_cache_cuda)
    compiler._compile_with_cache_cuda = _compiled
    thrust = importlib.import_module("cupy.cuda.thrust")
    for name in ("sort", "argsort", "lexsort"):
        setattr(thrust, name, lambda *_: None)
    cupy.cuda.set_allocator(None)  # fresh memory each time, which is zero


class DriverLibrary:
    """A driver that accepts everything the package's own kernels ask of it, and does nothing."""

    def __init__(self) -> None:
        kinds = (ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3)
        self.cuLaunchKernel = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(lambda *_: 0)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *_: 0

    def cuDeviceGetAttribute(self, value: Any, number: int, _: Any) -> int:
        value._obj.value = _ATTRIBUTES[number]
        return 0


def install_below() -> None:
    """Let the package find one device, that of `DriverLibrary`, and CuPy."""
    from tracejit.cuda import arrays, driver
    from tracejit.runtime.cuda import kernels

    install()
    found = driver.Probe(DriverLibrary(), 1, "", os.getpid())
    driver.probe = lambda: found  # type: ignore[assignment]
    kernels.image = lambda source, *_: source.encode()  # type: ignore[assignment]
    arrays.namespace()


# --- every op ---------------------------------------------------------------------------------------------------------

#: Ops that look at numbers on the way, or call CUDA past the tables.
_NOT_HERE = frozenset({"eigen_general", "cholesky_lower", "floor_divide", "remainder", "fmod"})
#: Ops of floats that have a meaning for other numbers on the host.
_FLOATS = frozenset({"lu_packed"})


def refused(dtype: Any) -> dict[str, str]:
    """The ops that raise for samples of a dtype, or give another type than on the host, and what they say."""
    import tracejit as tj
    from tracejit.ops.table import all_ops
    from tracejit.testing import gpu_checks, samples

    found: dict[str, str] = {}
    for op in all_ops():
        if op.name in _NOT_HERE or "fourier" in op.name or op.name == "to_device":
            continue
        if op.name in _FLOATS and not dtype.is_differentiable:
            continue
        for case in samples.cases(op, dtype):
            try:
                expected = tj.from_numpy(np.array(op.evaluate(case.operands, case.attributes)))
            except Exception:  # noqa: BLE001  (not for this dtype)
                continue
            try:
                result = op(*map(gpu_checks._moved, case.operands), **case.attributes)
                if not op.dynamic and result.spec != expected.spec:
                    found[op.name] = f"{case.label}: {result.spec}, expected {expected.spec}"
            except Exception as error:  # noqa: BLE001
                found[op.name] = f"{case.label}: {type(error).__name__}: {error}"
    return found


def compile_kernels() -> int:
    """NVRTC compiles what CuPy asked for; how many it refused."""
    compiler, bad = importlib.import_module("cupy.cuda.compiler"), 0
    for number, (source, options, names, jitify) in enumerate(KERNELS.values()):
        try:
            compiler._compile_using_nvrtc_no_warning(
                source, options, "90", f"{number}.cu", names or None, None, False, jitify, None
            )
        except Exception as error:  # noqa: BLE001
            bad += 1
            print(f"{error}\n{source}")
    return bad


def main() -> int:
    """The command; 0 when nothing raised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compile", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    install_below()
    from tracejit import dtypes

    kinds = [x for x in vars(dtypes).values() if isinstance(x, dtypes.DType)]
    bad = 0
    for dtype in dict.fromkeys(kinds):
        found = refused(dtype)
        bad += len(found)
        print(f"{dtype.name}: {len(found)} refused, {len(KERNELS)} kernels so far", flush=True)
        for name, what in found.items():
            print(f"    {name} {what}")
    bad += compile_kernels() if given.compile else 0
    sys.stdout.flush()
    os._exit(int(bad > 0))  # the libraries would say good-bye to a device


if __name__ == "__main__":
    main()
