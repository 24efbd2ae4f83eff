"""A stand-in for CuPy: NumPy's functions on the arrays of `stand_in_arrays`.

Whatever CuPy lacks raises here too: implicit conversions to NumPy, methods of universal functions beyond sums and
extremes at places, and names, arguments and dtypes that `cupy_surface` does not know.
"""

from __future__ import annotations

import os
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import cupy_surface
import numpy as np
import scipy.linalg
import scipy.special
from stand_in_arrays import (
    ALLOCATORS,
    CURRENT,
    DEVICES,
    LOG,
    POOL,
    Device,
    OutOfMemoryError,
    Pool,
    ndarray,
    plain,
    wrapped,
)
from stand_in_regions import GROWS, LIVE

from tracejit.trace.state import reads as state_reads


def _remainder(x: Any, y: Any) -> Any:
    """From the rounded quotient."""
    if np.result_type(x, y).kind in "iu":
        return np.remainder(x, y)
    return np.subtract(x, np.multiply(np.floor(np.true_divide(x, y)), y))


def _floor_divide(x: Any, y: Any) -> Any:
    if np.result_type(x, y).kind in "iu":
        return np.floor_divide(x, y)
    return np.floor(np.true_divide(x, y))


def _fmod(x: Any, y: Any) -> Any:
    """That of integers goes through float64."""
    kind = np.result_type(x, y)
    if kind.kind not in "iu":
        return np.fmod(x, y)
    return np.fmod(np.asarray(x, np.float64), np.asarray(y, np.float64)).astype(kind)


def _full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> Any:
    """Memory of zeros for any zero."""
    kind = dtype or np.asarray(fill_value).dtype
    return np.full(shape, fill_value, kind) if fill_value else np.zeros(shape, kind)


def _unique(x: Any, **options: Any) -> Any:
    assert options.get("axis") is None, "CuPy compares one pair of rows at a time"
    return np.unique(x, **options)


#: What CuPy computes in another way.
_OWN = {f.__name__.lstrip("_"): f for f in (_remainder, _floor_divide, _fmod, _full, _unique)}


#: What is added at places.
_ADDED = ("int32", "int64", "float16", "float32", "float64", "uint32", "uint64")


class Function:
    """One of NumPy's functions on arrays of the device."""

    def __init__(self, function: Any, path: str = "cupy", name: str = "") -> None:
        self.function, self.path = function, path
        self.name = name or function.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        cupy_surface.check_call(self.path, self.name, args, kwargs)
        given = {k: plain(v) for k, v in kwargs.items()}
        with np.errstate(all="ignore"):
            result = self.function(*map(plain, args), **given)
        if isinstance(self.function, np.ufunc) and not kwargs:
            self.check_dtypes(args[: self.function.nin], result)
        return wrapped(result, [*args, *kwargs.values()])

    def check_dtypes(self, args: Any, result: Any) -> None:
        """Has CuPy a loop for these, and does it give what NumPy gives?"""
        given = [x.dtype if isinstance(x, (ndarray, np.generic)) else None for x in args]
        if None in given:
            return  # a Python number adapts itself
        found = cupy_surface.loop(self.path, self.name, given)
        results = result if isinstance(result, tuple) else (result,)
        same = found is None or found == tuple(x.dtype for x in results)
        assert same, f"{self.name} of {given} is {found} in CuPy"

    def at(self, target: ndarray, places: Any, values: Any) -> None:
        if self.function.__name__ not in ("add", "maximum", "minimum"):
            raise NotImplementedError(f"`{self.function.__name__}.at` is not supported yet")
        if target.dtype.name not in _ADDED:
            raise TypeError(f"cupy.{self.name}.at only supports {', '.join(_ADDED)} as data type")
        self.function.at(target._host, plain(places), plain(values))


def _taken_over(
    value: Any, dtype: Any = None, copy: bool | None = None, order: Any = None
) -> ndarray:
    """``array``: the one way in for memory of the host; single numbers are filled in."""
    if isinstance(value, (np.ndarray, np.generic, int, float, complex)) and not np.ndim(value):
        number = np.array(value, dtype)
        value = number if number else np.zeros((), number.dtype)
    if isinstance(value, ndarray):
        found = np.array(value._host, dtype, copy=copy, order=order or "K")
        if found is value._host and value.device.id == CURRENT.device:
            return value
        return ndarray._of(
            found.copy(order="K") if found.base is not None else found, None, CURRENT.device
        )
    if hasattr(value, "__cuda_array_interface__"):
        return ndarray._of(_from_interface(value), value, CURRENT.device)
    if isinstance(value, (list, tuple)) and any(isinstance(x, ndarray) for x in value):
        value = [plain(x) for x in value]
    return ndarray._of(np.array(value, dtype, order=order or "K"), None, CURRENT.device)


def _from_interface(value: Any) -> np.ndarray:
    holder = types.SimpleNamespace(__array_interface__=dict(value.__cuda_array_interface__))
    return np.asarray(holder)


class Graph:
    """What was done while capturing, to be done again."""

    def __init__(self, calls: list[Any]) -> None:
        self.calls = calls

    def launch(self, stream: Any = None) -> None:
        LOG.append("graph")
        for function, arguments in self.calls:
            function(*arguments)


class Stream:
    null: Any

    def __init__(
        self, null: bool = False, non_blocking: bool = False, priority: Any = None
    ) -> None:
        self.ptr = 0 if null else id(self)
        self.done = True

    def __enter__(self) -> Stream:
        self.before = CURRENT.stream
        CURRENT.stream = self
        return self

    def __exit__(self, *_: object) -> None:
        CURRENT.stream = self.before

    def use(self) -> None:
        CURRENT.stream = self

    def is_capturing(self) -> bool:
        return CURRENT.capture is not None

    def synchronize(self) -> None:
        LOG.append("synchronize")

    def begin_capture(self) -> None:
        assert CURRENT.stream is self
        CURRENT.capture = []

    def end_capture(self) -> Graph:
        found, CURRENT.capture = CURRENT.capture, None
        assert found is not None
        return Graph(found)

    def wait_event(self, event: Any) -> None:
        LOG.append("wait")


Stream.null = Stream(null=True)


class Event:
    done = True

    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        self.disable_timing = disable_timing

    def record(self, stream: Any = None) -> None:
        LOG.append("record")

    def synchronize(self) -> None:
        LOG.append("synchronize")


class PinnedMemoryPointer(bytearray):
    """Memory of the host that devices can write to."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(self, nbytes: int) -> None:
        super().__init__(nbytes)
        self.bytes = np.frombuffer(memoryview(self), np.uint8)
        self.ptr = self.bytes.ctypes.data
        with GROWS:
            LIVE.add(self)


class CUDARuntimeError(RuntimeError):
    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"error {status}")


class Module(types.ModuleType):
    """The functions of NumPy that CuPy has, on arrays of the device."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(np, name)
        if isinstance(found, type) or not callable(found):
            return found
        if not cupy_surface.has("cupy", name):
            raise AttributeError(f"module 'cupy' has no attribute {name!r}")
        return Function(_OWN.get(name, found), "cupy", name)


class Special(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if not cupy_surface.has(self.__name__, name):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return Function(getattr(scipy.special, name), self.__name__, name)


def _from_dlpack(source: Any) -> ndarray:
    host = np.from_dlpack(
        types.SimpleNamespace(
            __dlpack__=lambda **options: source.__dlpack__(max_version=options["max_version"]),
            __dlpack_device__=lambda: (1, 0),
        )
    )
    return ndarray._of(host, source, source.__dlpack_device__()[1])


#: Bytes of memory of a device.
TOTAL = 1 << 30


def _properties(index: int) -> dict[str, Any]:
    name = f"stand-in {index}".encode()
    return {"name": name, "totalGlobalMem": TOTAL, "multiProcessorCount": 132}


def make_module() -> tuple[Module, dict[str, types.ModuleType]]:
    """CuPy, and the entries of ``sys.modules`` that stand for it."""
    module = Module("cupy")
    module.ndarray = ndarray
    module.array = lambda value, dtype=None, copy=True, order="K": _taken_over(
        value, dtype, copy, order
    )
    module.asarray = lambda value, dtype=None, order=None: _taken_over(value, dtype, None, order)
    module.ascontiguousarray = lambda value, dtype=None: _taken_over(value, dtype, None, "C")
    module.asnumpy = lambda value: value.get()
    module.from_dlpack = _from_dlpack
    module.get_default_memory_pool = lambda: POOL
    module.get_default_pinned_memory_pool = lambda: Pool()
    path = "cupy.lib.stride_tricks"
    tricks = types.SimpleNamespace(as_strided=Function(np.lib.stride_tricks.as_strided, path))
    module.lib = types.SimpleNamespace(stride_tricks=tricks)
    names = ("inv", "solve", "det", "slogdet", "cholesky", "eig", "eigh", "eigvalsh", "qr", "svd")
    module.linalg = types.SimpleNamespace(
        **{n: Function(_unwatched(getattr(np.linalg, n)), "cupy.linalg", n) for n in names}
    )
    names = tuple(f"{kind}fft{n}" for kind in ("", "i", "r", "ir") for n in ("", "n"))
    module.fft = types.SimpleNamespace(
        **{n: Function(getattr(np.fft, n), "cupy.fft", n) for n in names}
    )
    ALLOCATORS[1:] = []
    module.cuda = types.SimpleNamespace(
        Device=Device,
        Stream=Stream,
        Event=Event,
        alloc=lambda nbytes: ALLOCATORS[-1](nbytes),
        get_allocator=lambda: ALLOCATORS[-1],
        set_allocator=ALLOCATORS.append,
        get_current_stream=lambda: CURRENT.stream or Stream.null,
        get_elapsed_time=lambda a, b: 0.5,
        memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        alloc_pinned_memory=PinnedMemoryPointer,
        PinnedMemoryPointer=PinnedMemoryPointer,
        runtime=types.SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError,
            getDevice=lambda: CURRENT.device,
            runtimeGetVersion=lambda: 13000,
            driverGetVersion=lambda: 13000,
            getDeviceProperties=_properties,
            memGetInfo=lambda: (TOTAL - POOL.used_bytes(), TOTAL),
            deviceCanAccessPeer=lambda device, peer: int(device != peer),
        ),
    )
    extra = types.ModuleType("cupyx")
    extra.errstate = _errstate
    science = types.ModuleType("cupyx.scipy")
    special = Special("cupyx.scipy.special")
    linear = types.ModuleType("cupyx.scipy.linalg")
    linear.expm = Function(_exponential, linear.__name__, "expm")
    linear.solve_triangular = Function(_solution, linear.__name__, "solve_triangular")
    linear.lu_factor = Function(_factors, linear.__name__, "lu_factor")
    extra.scipy, science.special, science.linalg = science, special, linear
    names = {m.__name__: m for m in (module, extra, science, special, linear)}
    return module, names


_watching: list[str] = ["ignore"]


@contextmanager
def _errstate(*, linalg: str) -> Iterator[None]:
    """Whether matrices that cannot be treated are an error."""
    _watching.append(linalg)
    try:
        yield
    finally:
        _watching.pop()


def _unwatched(function: Any) -> Any:
    @wraps(function)
    def called(*matrices: Any, **options: Any) -> Any:
        if len(matrices) == 2:
            rows = {x.shape[:-1] for x in matrices}
            assert len(rows) == 1, f"CuPy broadcasts no batches: {rows}"
        try:
            return function(*matrices, **options)
        except np.linalg.LinAlgError:
            if _watching[-1] == "raise":
                raise
            return np.full_like(matrices[-1], np.nan)

    return called


def _exponential(matrix: np.ndarray) -> np.ndarray:
    assert matrix.ndim == 2, "CuPy takes one matrix"
    return scipy.linalg.expm(matrix)


def _factors(matrix: np.ndarray, *, check_finite: bool) -> tuple[np.ndarray, np.ndarray]:
    assert not check_finite, "numbers that are not finite are an error by default"
    with warnings.catch_warnings(action="ignore"):
        return scipy.linalg.lu_factor(matrix, check_finite=False)


def _solution(matrix: np.ndarray, right: np.ndarray, **options: Any) -> np.ndarray:
    assert matrix.ndim == 2, "CuPy takes one matrix"
    return scipy.linalg.solve_triangular(matrix, right, **options)


#: The modules that stand for libraries and for the device.
_STAND_INS = frozenset(
    {
        *("cupy_surface", "graph_tools", "stand_in", "stand_in_arrays", "stand_in_driver"),
        *("ptx_instructions", "ptx_machine", "ptx_parser", "ptx_text"),
    }
)


def install(monkeypatch: Any, driver: Any, arrays: Any, library: Any) -> Module:
    """Let the package find two devices and this module for the length of a test."""
    module, names = make_module()
    for name, found in names.items():
        monkeypatch.setitem(sys.modules, name, found)
    # What stands for a library is one: a recording does not take its calls for the user's.
    monkeypatch.setattr(state_reads, "_NUMERIC", state_reads._NUMERIC | _STAND_INS)
    monkeypatch.setattr(driver, "probe", lambda: driver.Probe(library, DEVICES, "", os.getpid()))
    monkeypatch.setattr(driver, "_drivers", {})
    monkeypatch.setattr(CURRENT, "device", 0, raising=False)
    monkeypatch.setattr(CURRENT, "stream", None, raising=False)
    monkeypatch.setattr(CURRENT, "context", None, raising=False)
    monkeypatch.setattr(driver._here, "bound", False)
    monkeypatch.setattr(POOL, "limit", None)
    LOG.clear()
    saved = dict(arrays.MODULES)
    arrays.MODULES.clear()
    arrays.MODULES.update(saved)
    return module
