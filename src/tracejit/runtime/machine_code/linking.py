"""Linking the object code of kernels into memory, where that takes no compiler's library.

A kernel's object is text, constants, and a few references between them and to functions of the process. On x86-64
Linux they are put into place here, in a fraction of a millisecond; a process whose kernels are all in the store never
loads LLVM. Whatever is not understood in full is left to LLVM's linker. Source of the relocations: System V ABI, AMD64
supplement, table 4.9.

An object lies in one mapping, so its parts are never too far apart: first what is only read (text, constants, addresses
of functions of the process and jumps to them), then what is written. No page is ever both writable and executable.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tracejit.runtime.machine_code import elf
from tracejit.runtime.machine_code.elf import MalformedObjectError, Section, Symbol

__all__ = ["Unlinkable", "able", "link"]

_X86_64 = 62
_WRITE, _ALLOC, _EXECUTE, _THREAD_LOCAL = 1, 2, 4, 0x400
#: Kinds of sections that are loaded as they are: data, zeros, unwinding tables.
_PLAIN = (1, elf.NOBITS, 0x70000001)
#: Kinds that say nothing about what is loaded: none, symbols, strings, relocations, notes, LLVM's own.
_APART = (0, 2, 3, elf.RELA, 7, 0x6FFF4C03)
_ADDRESS, _RELATIVE, _CALL, _RELATIVE_64 = 1, 2, 4, 24
_THROUGH_TABLE = (9, 41, 42)
_JUMP = b"\xff\x25"  # jmp *displacement(%rip)
_STUB = 16
_LARGEST = 1 << 28


class Unlinkable(Exception):
    """Something in an object that only LLVM's linker knows."""


def able(data: bytes) -> bool:
    """Is the object for this process, and this process one where objects can be linked here?

    >>> able(b"not an object")
    False
    """
    here = sys.platform == "linux" and platform.machine() == "x86_64" and sys.maxsize > 1 << 32
    return here and elf.is_elf(data) and len(data) >= 64 and elf.machine(data) == _X86_64


def link(data: bytes, imports: Mapping[str, int]) -> dict[str, int]:
    """Put an object into memory for the life of the process; the addresses of what it defines for others.

    `imports` are the addresses of everything it needs. Raises :class:`Unlinkable` for what LLVM has to link, and
    ``MalformedObjectError`` for damage.

    >>> link(b"not an object", {})
    Traceback (most recent call last):
    ...
    tracejit.runtime.machine_code.elf.MalformedObjectError: shorter than its header
    """
    return _Linking(data, imports).run()


class _Linking:
    """One object on its way into memory."""

    def __init__(self, data: bytes, imports: Mapping[str, int]) -> None:
        self.data = data
        self.imports = imports
        self.sections = elf.sections(data)
        self.symbols: list[Symbol] = elf.symbol_table(data, self.sections)
        self.places: dict[int, int] = {}  # of sections, from the start of the image
        self.table: dict[str, int] = {}  # of addresses of what is shared
        self.stubs: dict[str, int] = {}
        self.base = 0

    def run(self) -> dict[str, int]:
        """Lay out, copy, relocate, protect."""
        loaded = self._loaded()
        read_only = self._lay_out(loaded, 0, written=False)
        names = self._needed()
        shared = [s.name for s in self.symbols if s.name and not s.local]
        for table, listed, size in ((self.table, shared, 8), (self.stubs, names, _STUB)):
            read_only = _up(read_only, size)
            for name in listed:
                table[name] = read_only
                read_only += size
        read_only = _up(max(read_only, 1), mmap.PAGESIZE)
        end = _up(self._lay_out(loaded, read_only, written=True), mmap.PAGESIZE)
        if end > _LARGEST:
            raise Unlinkable("its size")
        image = bytearray(end)
        for number, place in self.places.items():
            part = self.sections[number]
            if part.kind != elf.NOBITS:
                image[place : place + part.size] = self.data[part.offset : part.offset + part.size]
        self.base = _mapped(end)
        try:
            self._fill(image)
            _commit(self.base, image, read_only)
        except BaseException:
            _unmap(self.base, end)
            raise
        return {
            s.name: self._address(s)
            for s in self.symbols
            if s.name and not s.local and s.section != elf.ABSENT
        }

    def _needed(self) -> list[str]:
        """The names of what the process has to give."""
        if sum(part.kind == elf.SYMBOLS for part in self.sections) != 1:
            raise Unlinkable("not one symbol table")
        absent = [s for s in self.symbols if s.section == elf.ABSENT and not s.local]
        names = [s.name for s in absent if s.name]
        for name in names:
            if name not in self.imports:
                raise Unlinkable(f"a reference to {name}")
        return names

    def _loaded(self) -> list[tuple[int, Section]]:
        """The sections that have a place in memory."""
        found = []
        for number, part in enumerate(self.sections):
            if not part.flags & _ALLOC:
                if part.kind not in _APART and part.kind not in _PLAIN:
                    raise Unlinkable(f"a section of kind {part.kind:#x}")
                continue
            if part.kind not in _PLAIN or part.flags & _THREAD_LOCAL:
                raise Unlinkable(f"a section of kind {part.kind:#x}")
            if part.flags & _WRITE and part.flags & _EXECUTE:
                raise Unlinkable("code that is written")
            alignment = max(part.alignment, 1)
            if alignment & (alignment - 1) or alignment > mmap.PAGESIZE or part.size > _LARGEST:
                raise Unlinkable(f"a section of {part.size} bytes aligned to {alignment}")
            found.append((number, part))
        return found

    def _lay_out(self, loaded: list[tuple[int, Section]], start: int, written: bool) -> int:
        """Give the sections that are (not) written their places; the end."""
        for number, part in loaded:
            if bool(part.flags & _WRITE) == written:
                start = self.places[number] = _up(start, max(part.alignment, 1))
                start += part.size
        return start

    def _fill(self, image: bytearray) -> None:
        """Everything in the image that depends on addresses."""
        for symbol in self.symbols:
            if symbol.name in self.table and not symbol.local:
                at = self.table[symbol.name]
                image[at : at + 8] = self._address(symbol).to_bytes(8, "little")
        for name, stub in self.stubs.items():
            jump = _JUMP + _signed(self.table[name] - (stub + 6), 4)
            image[stub : stub + len(jump)] = jump
        for part in self.sections:
            if part.kind == elf.RELA and part.info in self.places:
                size, start = self.sections[part.info].size, self.places[part.info]
                for offset, kind, number, addend in elf.relocations(self.data, part):
                    if number >= len(self.symbols):
                        raise MalformedObjectError("a relocation to a symbol that does not exist")
                    value, width = self._value(kind, self.symbols[number], addend, start + offset)
                    if offset + width > size:
                        raise MalformedObjectError("a relocation outside its section")
                    image[start + offset : start + offset + width] = _signed(value, width)

    def _value(self, kind: int, symbol: Symbol, addend: int, at: int) -> tuple[int, int]:
        """What a relocation writes, and how many bytes of it."""
        absent = symbol.section == elf.ABSENT
        here = self.base + at
        if kind in _THROUGH_TABLE:
            return self.base + self._of(self.table, symbol) + addend - here, 4
        if kind == _CALL and absent:
            return self.base + self._of(self.stubs, symbol) + addend - here, 4
        address = self._address(symbol) + addend
        if kind == _ADDRESS:
            return address if address < 1 << 63 else address - (1 << 64), 8
        if kind in (_RELATIVE, _CALL):
            return address - here, 4
        if kind == _RELATIVE_64:
            return address - here, 8
        raise Unlinkable(f"a relocation of kind {kind}")

    @staticmethod
    def _of(table: dict[str, int], symbol: Symbol) -> int:
        found = table.get(symbol.name)
        if found is None:
            raise MalformedObjectError("a relocation to no symbol")
        return found

    def _address(self, symbol: Symbol) -> int:
        if symbol.section == elf.ABSENT:
            return 0 if symbol.local else self.imports[symbol.name]
        place = self.places.get(symbol.section)
        if place is None:
            raise Unlinkable(f"a symbol in section {symbol.section:#x}")
        if symbol.value > self.sections[symbol.section].size:
            raise MalformedObjectError("a symbol outside its section")
        return self.base + place + symbol.value


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _signed(value: int, width: int) -> bytes:
    try:
        return value.to_bytes(width, "little", signed=True)
    except OverflowError:
        raise Unlinkable("a reference that reaches too far") from None


# --- memory ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _libc() -> Any:
    """Mapping without an owner in Python: what is mapped stays until the process ends."""
    word, number = ctypes.c_size_t, ctypes.c_int
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.argtypes = [word, word, number, number, number, ctypes.c_long]
    libc.mmap.restype = word
    libc.mprotect.argtypes = [word, word, number]
    libc.munmap.argtypes = [word, word]
    return libc


def _mapped(size: int) -> int:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address: int = _libc().mmap(0, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if address == ctypes.c_size_t(-1).value:
        raise Unlinkable("no memory for it")
    return address


def _commit(base: int, image: bytearray, read_only: int) -> None:
    """Copy the image to where it belongs; its first bytes become code."""
    ctypes.memmove(base, bytes(image), len(image))
    if _libc().mprotect(base, read_only, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        raise Unlinkable("memory that may not hold code")


def _unmap(base: int, size: int) -> None:
    _libc().munmap(base, size)
