"""Object code becomes callable addresses.

Kernels are kept as relocatable object code (see `store`). Where `linking` can put one into memory, no
library of LLVM is needed; otherwise loading means handing it to LLVM's JITLink, which takes some
0.2 ms and runs no compiler. (LLVM's older linker is faster but places an
object's constants wherever there is room: more than 2 GiB from its code they are silently read
from the wrong place. JITLink lays out each object as a whole.) Loaded code is never unloaded:
programs hold its addresses, and threads may be inside it when the interpreter exits.

Every object is a library of its own, so equal names in different objects are no conflict.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
from typing import TYPE_CHECKING, Any

from tracejit.locks import awaited_rlock
from tracejit.runtime.machine_code import linking
from tracejit.runtime.machine_code.elf import MalformedObjectError, is_elf, symbols

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["LoadError", "load_object", "loaded_count"]


class LoadError(RuntimeError):
    """Object code that cannot be linked into this process."""


_lock = awaited_rlock(2)
_linker: Any = None
_libraries: dict[bytes, str | dict[str, int]] = {}
_addresses: dict[tuple[str, bytes], int] = {}
_numbers = itertools.count()


def load_object(object_code: bytes, symbol: str, imports: Mapping[str, int] | None = None) -> int:
    """Link relocatable object code into the process and return the address of `symbol`.

    The memory stays for the life of the process. The same bytes with the same `imports` are linked
    once, however often and for whichever of their symbols they are asked for; the same symbol of
    other bytes is another function. `imports` are addresses of functions the object calls; others
    are looked for in the process.

    Raises `LoadError` when the object is damaged, is for another machine, does not define
    `symbol`, or needs a symbol that nobody defines.

    >>> load_object(b"not an object", "f")
    Traceback (most recent call last):
    ...
    tracejit.runtime.machine_code.loader.LoadError: cannot load 'f': not object code of this platform
    """
    hashed = hashlib.sha256(object_code)
    if imports:
        hashed.update(repr(sorted(imports.items())).encode())
    digest = hashed.digest()
    address = _addresses.get((symbol, digest))
    if address is not None:
        return address
    with _lock:
        if digest in _libraries:
            address = _look_up(_libraries[digest], symbol)
        else:
            address = _link(object_code, digest, symbol, imports or {})
        _addresses[symbol, digest] = address
        return address


def loaded_count() -> int:
    """How many distinct objects this process has linked.

    >>> loaded_count() >= 0
    True
    """
    return len(_libraries)


def _link(object_code: bytes, digest: bytes, symbol: str, imports: Mapping[str, int]) -> int:
    found = _imports(object_code, symbol, imports)
    here = None if found is None else _linked_here(object_code, symbol, found)
    if here is not None:
        _libraries[digest] = here
        return here[symbol]
    import llvmlite.binding as llvm

    library = f"object{next(_numbers)}"
    builder = llvm.JITLibraryBuilder().add_object_img(object_code).export_symbol(symbol)
    if found is None:
        builder.add_current_process()
    for name, address in (imports if found is None else found).items():
        builder.import_symbol(name, address)
    address = _kept(symbol, lambda linker: builder.link(linker, library))
    _libraries[digest] = library
    return address


def _linked_here(
    object_code: bytes, symbol: str, imports: Mapping[str, int]
) -> dict[str, int] | None:
    """What the object defines, linked without LLVM; None where that is not possible."""
    if not linking.able(object_code):
        return None
    try:
        return linking.link(object_code, imports)
    except linking.Unlinkable:
        return None
    except MalformedObjectError as error:
        raise LoadError(f"cannot load {symbol!r}: damaged object code ({error})") from error


def _look_up(library: str | dict[str, int], symbol: str) -> int:
    if isinstance(library, dict):
        if symbol not in library:
            raise LoadError(f"cannot load {symbol!r}: the object does not define that symbol")
        return library[symbol]
    return _kept(symbol, lambda linker: linker.lookup(library, symbol))


def _kept(symbol: str, link: Callable[[Any], Any]) -> int:
    """The address of `symbol` in what `link` makes, which then lives for ever."""
    try:
        tracker = link(_the_linker())
    except RuntimeError as error:
        raise LoadError(f"cannot load {symbol!r}: {error}") from error
    address = int(tracker[symbol])
    tracker.detach()  # its end would unload the code
    return address


def _the_linker() -> Any:
    global _linker
    if _linker is None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", jit=True)
        _linker = llvm.create_lljit_compiler(machine, use_jit_link=True, suppress_errors=True)
        # One reference that nobody gives back: at exit too the code has to stay.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_linker))
    return _linker


def _imports(object_code: bytes, symbol: str, given: Mapping[str, int]) -> dict[str, int] | None:
    """Addresses of what an object needs, None for "ask the process"; raises for what is wrong."""
    if not is_elf(object_code):
        _check_foreign_format(object_code, symbol)
        return None
    try:
        defined, needed = symbols(object_code)
    except MalformedObjectError as error:
        raise LoadError(f"cannot load {symbol!r}: damaged object code ({error})") from error
    if symbol not in defined:
        raise LoadError(f"cannot load {symbol!r}: the object does not define that symbol")
    needed.discard("_GLOBAL_OFFSET_TABLE_")  # made by the linker itself
    found = {name: given.get(name) or _in_process(name) for name in needed}
    missing = sorted(name for name, address in found.items() if not address)
    if missing:
        raise LoadError(f"cannot load {symbol!r}: no definition of {', '.join(missing)}")
    return found


def _in_process(name: str) -> int:
    for library in (ctypes.pythonapi, ctypes.CDLL(None)):
        if hasattr(library, name):
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    from tracejit.runtime.machine_code.missing_functions import missing_function

    return missing_function(name)


def _check_foreign_format(object_code: bytes, symbol: str) -> None:
    # Mach-O (64-bit) and COFF (x86-64, ARM64) start with these bytes.
    if object_code[:4] == b"\xcf\xfa\xed\xfe" or object_code[:2] in (b"\x64\x86", b"\x64\xaa"):
        return
    raise LoadError(f"cannot load {symbol!r}: not object code of this platform")
