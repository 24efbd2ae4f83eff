"""Object code becomes callable addresses.

Kernels are kept as relocatable object code (see `store`). Loading one means handing it to LLVM's
runtime linker, which takes some 35 microseconds and runs no compiler. All objects share one
execution engine, because an engine of its own costs each object 0.6 ms and 50 KiB; a further
engine is opened only when two different objects define the same symbol, since one engine keeps one
definition per name. Loaded code is never unloaded: programs hold its addresses.

LLVM ends the process when it is handed a damaged object or one that needs a symbol nobody
defines, so everything it would die of is checked here first and raised as `LoadError`.
"""

from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tracejit.runtime.elf import MalformedObject, is_elf, symbols

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["LoadError", "load_object", "loaded_count"]


class LoadError(RuntimeError):
    """Object code that cannot be linked into this process."""


@dataclass
class _Engine:
    """One LLVM execution engine and the symbols its objects define."""

    engine: Any
    symbols: set[str] = field(default_factory=set)


_lock = threading.Lock()
_engines: list[_Engine] = []
_retired: list[_Engine] = []
_objects: dict[bytes, _Engine] = {}
_addresses: dict[tuple[str, bytes], int] = {}


def _reset_lock() -> None:
    # Another thread may have held the lock when the process forked; it does not exist here.
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_lock)


def load_object(object_code: bytes, symbol: str) -> int:
    """Link relocatable object code into the process and return the address of `symbol`.

    The memory stays for the life of the process. The same bytes are linked once, however often
    and for whichever of their symbols they are asked for; the same symbol of other bytes is
    another function.

    Raises `LoadError` when the object is damaged, is for another machine, does not define
    `symbol`, or needs a symbol that the process lacks.

    >>> load_object(b"not an object", "f")
    Traceback (most recent call last):
    ...
    tracejit.runtime.loader.LoadError: cannot load 'f': not object code of this platform
    """
    digest = hashlib.sha256(object_code).digest()
    address = _addresses.get((symbol, digest))
    if address is not None:
        return address
    with _lock:
        slot = _objects.get(digest)
        if slot is None:
            slot = _objects[digest] = _link(object_code, symbol)
        address = int(slot.engine.get_function_address(symbol))
        if address == 0:
            raise LoadError(f"cannot load {symbol!r}: the object does not define that symbol")
        _addresses[symbol, digest] = address
        return address


def loaded_count() -> int:
    """How many distinct objects this process has linked."""
    return len(_objects)


def _link(object_code: bytes, symbol: str) -> _Engine:
    import llvmlite.binding as llvm

    defined = _defined(object_code, symbol)
    slot = _engine_without(defined)
    try:
        reference = llvm.ObjectFileRef.from_data(object_code)
        slot.engine.add_object_file(reference)
        slot.engine.finalize_object()
    except Exception as error:
        # The engine may hold half an object: keep it alive for the code it already serves, but
        # let nothing else be added to it.
        _engines.remove(slot)
        _retired.append(slot)
        raise LoadError(f"cannot load {symbol!r}: {error}") from error
    slot.symbols |= defined
    return slot


def _engine_without(defined: set[str]) -> _Engine:
    for slot in _engines:
        if slot.symbols.isdisjoint(defined):
            return slot
    slot = _Engine(_create_engine())
    _engines.append(slot)
    return slot


def _create_engine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def _defined(object_code: bytes, symbol: str) -> set[str]:
    """The symbols an object defines; raises for what LLVM would end the process on."""
    if not is_elf(object_code):
        _check_foreign_format(object_code, symbol)
        return {symbol}
    try:
        defined, needed = symbols(object_code)
    except MalformedObject as error:
        raise LoadError(f"cannot load {symbol!r}: damaged object code ({error})") from error
    if symbol not in defined:
        raise LoadError(f"cannot load {symbol!r}: the object does not define that symbol")
    missing = sorted(_unresolvable(needed))
    if missing:
        raise LoadError(f"cannot load {symbol!r}: no definition of {', '.join(missing)}")
    return defined


def _check_foreign_format(object_code: bytes, symbol: str) -> None:
    # Mach-O (64-bit) and COFF (x86-64, ARM64) start with these bytes.
    if object_code[:4] == b"\xcf\xfa\xed\xfe" or object_code[:2] in (b"\x64\x86", b"\x64\xaa"):
        return
    raise LoadError(f"cannot load {symbol!r}: not object code of this platform")


def _unresolvable(names: Iterable[str]) -> set[str]:
    import ctypes

    import llvmlite.binding as llvm

    missing = set()
    for name in names:
        if name == "_GLOBAL_OFFSET_TABLE_" or llvm.address_of_symbol(name):
            continue
        # libc may keep memcpy and friends out of LLVM's own view but in the process's.
        if not hasattr(ctypes.pythonapi, name):
            missing.add(name)
    return missing
