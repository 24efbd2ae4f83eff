"""The driver library by ctypes: probed once, with an error that says what is missing instead of a wait or a crash.

The driver is asked before anything else touches CUDA, because libraries above it may wait for ever where there is none.
A process that was forked after its parent had started CUDA cannot use it; this is noticed and said.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..errors import DeviceError, NoDeviceError

__all__ = [
    "Driver",
    "ImageError",
    "Probe",
    "device_count",
    "driver",
    "fault",
    "is_available",
    "probe",
    "require",
    "why_unavailable",
]

#: What the driver answers where a machine is simply not equipped, in plain words.
_REASONS = {
    3: "the CUDA driver is shutting down",
    34: "the CUDA driver library is a stub that only serves linking",
    35: "the CUDA driver is older than the CUDA version that is asked for",
    46: "the CUDA device is busy or unavailable (exclusive mode?)",
    100: "there is no CUDA device, or none is visible (CUDA_VISIBLE_DEVICES)",
    101: "the CUDA device number is out of range",
    802: "the GPU is not ready yet (machines with NVLink switches need the service nvidia-fabricmanager)",
    803: "the CUDA driver library does not match the kernel module: reboot after updating the driver",
    804: "this GPU does not support the forward-compatible driver that is installed",
    999: "the CUDA driver could not start (is the kernel module loaded, may this user use the device?)",
}
#: A kernel faulted, or the memory did: nothing works in this process from then on.
_STICKY = frozenset({214, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719})
#: Images that this driver or this device does not take.
_IMAGE = frozenset({200, 209, 218, 221, 222, 223})
_MAJOR, _MINOR, _MULTIPROCESSORS = 75, 76, 16


@dataclass(frozen=True)
class Probe:
    """What was found: the driver library, how many devices it has, and why it cannot be used if it cannot."""

    library: Any
    devices: int
    reason: str
    process: int


@lru_cache(maxsize=1)
def probe() -> Probe:
    """Look for a driver and its devices, once; takes a fraction of a millisecond where there is none.

    >>> found = probe()
    >>> (found.devices > 0) == (found.reason == "")
    True
    """
    names = {"linux": "libcuda.so.1", "win32": "nvcuda.dll"}
    name = names.get(sys.platform)
    if name is None:
        return Probe(None, 0, f"there is no CUDA for {sys.platform}", os.getpid())
    try:
        library = ctypes.CDLL(name)
    except OSError:
        return Probe(None, 0, f"no NVIDIA driver is installed ({name} was not found)", os.getpid())
    return probe_library(library)


def probe_library(library: Any) -> Probe:
    """Start a driver library and count its devices."""
    count = ctypes.c_int(0)
    code = library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count))
    if code == 0 and count.value == 0:
        code = 100
    reason = "" if code == 0 else _REASONS.get(code, f"the CUDA driver answers with error {code}")
    return Probe(library, count.value if code == 0 else 0, reason, os.getpid())


def is_available() -> bool:
    """Is there a GPU that this process can use?

    >>> is_available() == (device_count() > 0)
    True
    """
    return device_count() > 0


def device_count() -> int:
    """How many GPUs there are; 0 where CUDA cannot be used.

    >>> device_count() >= 0
    True
    """
    return probe().devices if probe().process == os.getpid() else 0


def why_unavailable() -> str:
    """Why no GPU can be used, in a sentence; empty where one can.

    >>> (why_unavailable() == "") == is_available()
    True
    """
    found = probe()
    if found.process != os.getpid() and found.library is not None:
        return "this process was forked after CUDA had been started; start it by the method 'spawn'"
    return found.reason


class ImageError(DeviceError):
    """The driver does not take an image of a kernel: it is for another architecture, or of a newer toolkit."""


class _Here(threading.local):
    """What this thread knows: has it a context?"""

    bound = False


_here = _Here()


class Driver:
    """One device's primary context, and the few calls of the driver that kernels need."""

    def __init__(self, library: Any, index: int = 0) -> None:
        self.library, self.index, self.process = library, index, os.getpid()
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(device), index)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.device, self.context = device, context

    def bind(self) -> None:
        """Give this thread the context unless it has one: launches need it, and new threads have none."""
        if _here.bound:
            return
        current = ctypes.c_void_p()
        self._call("cuCtxGetCurrent", ctypes.byref(current))
        if not current.value:
            self._call("cuCtxSetCurrent", self.context)
        _here.bound = True

    def attribute(self, number: int) -> int:
        """An attribute of the device by its number in the driver's interface."""
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), number, self.device)
        return value.value

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability, (9, 0) for sm_90."""
        return self.attribute(_MAJOR), self.attribute(_MINOR)

    @property
    def multiprocessors(self) -> int:
        """How many multiprocessors the device has."""
        return self.attribute(_MULTIPROCESSORS)

    def address(self, name: str) -> int:
        """The address of a function of the driver, for native code."""
        function = ctypes.cast(getattr(self.library, name), ctypes.c_void_p)
        return int(function.value or 0)

    def load(self, image: bytes, entry: str) -> int:
        """Load a cubin or PTX; the handle of its kernel ``entry``. Which device is current does not change."""
        self._call("cuCtxPushCurrent_v2", self.context)
        try:
            return self._load(image, entry)
        finally:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def _load(self, image: bytes, entry: str) -> int:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        log = ctypes.create_string_buffer(8192)
        # Options 5 and 6: a buffer for what is wrong with the image, and its size.
        options = (ctypes.c_int * 2)(5, 6)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        loaded = ctypes.byref(module)
        code = self.library.cuModuleLoadDataEx(loaded, image + b"\0", 2, options, values)
        if code:
            said = log.value.decode(errors="replace").strip()
            kind = ImageError if code in _IMAGE else DeviceError
            raise self.error(f"kernel {entry!r} could not be loaded", code, said, kind)
        self._call("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
        return int(function.value or 0)

    def synchronize(self) -> None:
        """Wait until the device has done all it was given."""
        self.bind()
        self._call("cuCtxSynchronize")

    def _call(self, name: str, *arguments: Any) -> None:
        if self.process != os.getpid():
            raise DeviceError(
                "CUDA was started before this process was forked, so it cannot be used here",
                "Start processes by the method 'spawn', or use the GPU in child processes only.",
            )
        function: Callable[..., int] = getattr(self.library, name)
        code = function(*arguments)
        if code:
            raise self.error(name, code)

    def error(
        self, what: str, code: int, said: str = "", kind: type[DeviceError] = DeviceError
    ) -> DeviceError:
        """The error for a status of the driver."""
        return _error(self.library, what, code, said, kind)


def fault(what: str, code: int) -> DeviceError:
    """The error for a status of the driver or of CUDA's runtime, whose numbers for faults are the same.

    >>> "error 700" in str(fault("the device was waited for", 700))
    True
    """
    return _error(probe().library, what, code, "", DeviceError)


def _error(library: Any, what: str, code: int, said: str, kind: type[DeviceError]) -> DeviceError:
    text = ctypes.c_char_p()
    if library is not None:
        library.cuGetErrorString(code, ctypes.byref(text))
    message = (text.value or b"unknown error").decode(errors="replace")
    hint = f"{reason[0].upper()}{reason[1:]}. " if (reason := _REASONS.get(code, "")) else ""
    if code in _STICKY:
        hint = "The GPU cannot be used by this process any more: a kernel faulted. Restart the process."
    elif code == 2:
        hint = "Free tensors on the GPU, or use smaller batches."
    elif code in _IMAGE:
        hint = "Kernels were compiled for another GPU or a newer driver: update the driver, or clear the store."
    else:
        hint += (
            'The command nvidia-smi shows how the GPU is. Restart the process, or use device="cpu".'
        )
    return kind(f"CUDA: {what}: {message} (error {code}){': ' if said else ''}{said}", hint)


def require(index: int = 0) -> None:
    """`DeviceError`, saying what is missing, unless this process can use the device.

    >>> is_available() or require()  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    tracejit.errors.NoDeviceError: ...
    """
    reason = why_unavailable()
    if reason:
        raise NoDeviceError(
            f"no GPU can be used: {reason}",
            'Use device="cpu", or ask the command nvidia-smi what the driver sees.',
        )
    count = device_count()
    if not 0 <= index < count:
        raise DeviceError(
            f"there is no device 'cuda:{index}': {count} found",
            'Use a lower number, or device="cpu".',
        )


_drivers: dict[int, Driver] = {}
_lock = threading.Lock()


def driver(index: int = 0) -> Driver:
    """The driver for a device; `DeviceError`, saying what is missing, where there is none.

    >>> is_available() or driver()  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    tracejit.errors.NoDeviceError: ...
    """
    require(index)
    with _lock:
        if index not in _drivers:
            _drivers[index] = Driver(probe().library, index)
        return _drivers[index]
