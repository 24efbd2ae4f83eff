"""PTX to machine code for one GPU architecture, behind one function; no GPU and no driver are needed.

Two assemblers do the same work: the nvJitLink library (wheel `nvidia-nvjitlink`, or beside a toolkit) inside this
process, and the program `ptxas` (wheel `nvidia-cuda-nvcc`, a toolkit, or the search path). Without either, PTX
itself can be handed to a driver, which assembles it when it is loaded.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tracejit.errors import TracejitError

__all__ = ["AssemblerError", "Resources", "assemble", "assembler", "resources"]

_PTX = 2  # nvJitLink's number for this kind of input
_SECONDS = 120
_SPILL = re.compile(r"[1-9]\d* bytes spill")


class AssemblerError(TracejitError, RuntimeError):
    """There is no assembler, or it refused a kernel's PTX."""


@dataclass(frozen=True)
class Resources:
    """What the machine code of a kernel takes: registers of a thread, and bytes of memory."""

    registers: int
    stack_bytes: int
    spilled_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class Assembled:
    """Machine code, and what the assembler said about it."""

    code: bytes
    log: str


@dataclass(frozen=True)
class Assembler:
    """A way to assemble PTX: its name with its version, and the function (PTX, architecture)."""

    name: str
    run: Callable[[str, str], Assembled]


def assemble(ptx: str, architecture: str) -> bytes:
    """The machine code (a cubin) of a PTX module for an architecture such as ``"sm_90"``.

    Raises `AssemblerError` where there is no assembler, or with the assembler's own words.

    >>> assemble("not PTX", "sm_90")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    tracejit.codegen.cuda.cubin.AssemblerError: ...
    """
    return _assembled(ptx, architecture).code


def resources(ptx: str, architecture: str) -> Resources:
    """What the one kernel of a PTX module takes when it is assembled.

    >>> resources("not PTX", "sm_90")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    tracejit.codegen.cuda.cubin.AssemblerError: ...
    """
    log = _assembled(ptx, architecture).log

    def number(pattern: str) -> int:
        return sum(int(found) for found in re.findall(pattern, log))

    return Resources(
        number(r"Used (\d+) registers"),
        number(r"(\d+) bytes stack frame"),
        number(r"(\d+) bytes spill"),
        number(r"(\d+) bytes smem"),
    )


def _assembled(ptx: str, architecture: str) -> Assembled:
    """Machine code without spills where there is a choice.

    Assemblers aim at full occupancy, or at as many blocks per multiprocessor as a kernel asks for, and may spill a few
    registers for it. Asked for one block only, they do not.
    """
    run = _required().run
    found = run(ptx, architecture)
    if _SPILL.search(found.log):
        free = re.sub(r"\.minnctapersm .*\n", "", ptx)
        relaxed = run(re.sub(r"(\.reqntid .*)", r"\1\n.minnctapersm 1", free), architecture)
        found = found if _SPILL.search(relaxed.log) else relaxed
    return found


def _required() -> Assembler:
    found = assembler()
    if found is None:
        raise AssemblerError(
            "no assembler for GPU code is installed: pip install nvidia-nvjitlink, or put a CUDA toolkit's ptxas "
            "on the search path"
        )
    return found


@lru_cache(maxsize=1)
def assembler() -> Assembler | None:
    """The assembler that `assemble` uses, or None where there is none.

    >>> assembler() is assembler()
    True
    """
    for library in _libraries():
        try:
            return _nvjitlink(library)
        except (OSError, AttributeError):
            continue
    for program in _programs():
        version = _run([program, "--version"], None)
        found = re.search(r"V([\d.]+)", version.stdout)
        return Assembler(f"ptxas {found[1] if found else '?'}", _ptxas(program))
    return None


# --- where they are --------------------------------------------------------------------------------------------------


def _wheels(pattern: str) -> Iterator[str]:
    """Files of NVIDIA's wheels, which share the namespace package `nvidia`; the newest toolkit first."""
    found = importlib.util.find_spec("nvidia")
    for folder in (found.submodule_search_locations or ()) if found else ():
        yield from sorted(map(str, Path(folder).glob(pattern)), reverse=True)


def _toolkits(pattern: str) -> Iterator[str]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if variable in os.environ:
            yield from sorted(map(str, Path(os.environ[variable]).glob(pattern)), reverse=True)


def _libraries() -> Iterator[str]:
    yield from _wheels("*/lib/libnvJitLink.so.*")
    yield from _toolkits("lib64/libnvJitLink.so.*")
    yield from ("libnvJitLink.so.13", "libnvJitLink.so.12")


def _programs() -> Iterator[str]:
    yield from _wheels("*/bin/ptxas")
    yield from _toolkits("bin/ptxas")
    if (found := shutil.which("ptxas")) is not None:
        yield found


# --- ptxas -----------------------------------------------------------------------------------------------------------


def _run(command: list[str], folder: str | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=_SECONDS, check=False, cwd=folder
    )


def _ptxas(program: str) -> Callable[[str, str], Assembled]:
    def run(ptx: str, architecture: str) -> Assembled:
        with tempfile.TemporaryDirectory(prefix="tracejit-") as folder:
            source, target = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
            source.write_text(ptx, encoding="utf-8")
            options = ["-v", "-O3", f"-arch={architecture}"]
            done = _run([program, *options, source.name, "-o", target.name], folder)
            if done.returncode:
                raise AssemblerError(f"ptxas refused a kernel for {architecture}: {done.stderr}")
            return Assembled(target.read_bytes(), done.stderr)

    return run


# --- nvJitLink -------------------------------------------------------------------------------------------------------


def _nvjitlink(path: str) -> Assembler:
    library = ctypes.CDLL(path)
    major, minor = ctypes.c_uint(), ctypes.c_uint()
    library.nvJitLinkVersion(ctypes.byref(major), ctypes.byref(minor))

    def run(ptx: str, architecture: str) -> Assembled:
        options = [f"-arch={architecture}".encode(), b"-O3", b"-Xptxas=-v"]
        handle = ctypes.c_void_p()
        pointers = (ctypes.c_char_p * len(options))(*options)
        code = library.nvJitLinkCreate(ctypes.byref(handle), len(options), pointers)
        if code:
            raise AssemblerError(f"nvJitLink does not know {architecture}: error {code}")
        try:
            return _linked(library, handle, ptx.encode(), architecture)
        finally:
            library.nvJitLinkDestroy(ctypes.byref(handle))

    return Assembler(f"nvJitLink {major.value}.{minor.value}", run)


def _linked(
    library: ctypes.CDLL, handle: ctypes.c_void_p, ptx: bytes, architecture: str
) -> Assembled:
    data = ctypes.c_char_p(ptx)
    code = library.nvJitLinkAddData(handle, _PTX, data, ctypes.c_size_t(len(ptx)), b"kernel")
    code = code or library.nvJitLinkComplete(handle)
    if code:
        log = _text(library, handle, "Error").decode(errors="replace").rstrip("\0\n")
        raise AssemblerError(f"nvJitLink refused a kernel for {architecture} (error {code}): {log}")
    log = _text(library, handle, "Info").decode(errors="replace")
    size = ctypes.c_size_t()
    if library.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size)):
        raise AssemblerError(f"nvJitLink made no code for {architecture}: {log}")
    buffer = ctypes.create_string_buffer(size.value)
    library.nvJitLinkGetLinkedCubin(handle, buffer)
    return Assembled(buffer.raw, log)


def _text(library: ctypes.CDLL, handle: ctypes.c_void_p, which: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvJitLinkGet{which}LogSize")(handle, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(max(size.value, 1))
    getattr(library, f"nvJitLinkGet{which}Log")(handle, buffer)
    return buffer.raw
