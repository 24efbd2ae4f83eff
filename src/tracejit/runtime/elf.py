"""The little of the ELF-64 format needed to trust an object before linking it.

Reads the header, the section table and the symbol table, and checks that each lies inside the
file. Source: System V ABI, "Object Files" (gABI 4.1) with the ELF-64 field sizes.
"""

from __future__ import annotations

import struct
import sys

__all__ = ["MalformedObjectError", "is_elf", "symbols"]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATABLE = 1
_SYMTAB, _RELA, _NOBITS = 2, 4, 8
_ABSENT, _RESERVED = 0, 0xFF00  # section numbers
_LOCAL = 0  # binding


class MalformedObjectError(ValueError):
    """An ELF file whose tables do not fit inside it."""


def is_elf(data: bytes) -> bool:
    """Whether `data` starts like a little-endian ELF-64 file.

    >>> is_elf(b"nothing of the kind")
    False
    """
    return data[:6] == b"\x7fELF\x02\x01" and sys.byteorder == "little"


def symbols(data: bytes) -> tuple[set[str], set[str]]:
    """Names a relocatable object defines for others, and names it expects others to define.

    Raises `MalformedObjectError` when a table or section reaches outside the file.

    >>> symbols(bytes(64))
    Traceback (most recent call last):
    ...
    tracejit.runtime.elf.MalformedObjectError: not a relocatable object
    """
    sections = _sections(data)
    defined: set[str] = set()
    needed: set[str] = set()
    for kind, offset, size, link in sections:
        if kind != _SYMTAB:
            continue
        if link >= len(sections):
            raise MalformedObjectError("symbol table without names")
        _, names_at, names_size, _ = sections[link]
        strings = data[names_at : names_at + names_size]
        table = data[offset : offset + size - size % _SYMBOL.size]
        for name_at, info, _, section, _, _ in _SYMBOL.iter_unpack(table):
            if _ABSENT < section < _RESERVED and section >= len(sections):
                raise MalformedObjectError("symbol in a section that does not exist")
            if name_at and section == _ABSENT:
                needed.add(_string(strings, name_at))
            elif name_at and info >> 4 != _LOCAL:
                defined.add(_string(strings, name_at))
    return defined, needed


def _sections(data: bytes) -> list[tuple[int, int, int, int]]:
    """(type, offset, size, link) of every section, each inside the file."""
    if len(data) < _HEADER.size:
        raise MalformedObjectError("shorter than its header")
    header = _HEADER.unpack_from(data)
    kind, table, entry_size, count = header[1], header[6], header[11], header[12]
    if kind != _RELOCATABLE or entry_size != _SECTION.size or count == 0:
        raise MalformedObjectError("not a relocatable object")
    if table + count * entry_size > len(data):
        raise MalformedObjectError("cut off before its section table")
    sections = []
    for index in range(count):
        fields = _SECTION.unpack_from(data, table + index * entry_size)
        _, section_kind, _, _, offset, size, link, info, _, _ = fields
        if section_kind != _NOBITS and offset + size > len(data):
            raise MalformedObjectError("a section reaches past the end of the file")
        if section_kind == _RELA and info >= count:
            raise MalformedObjectError("relocations of a section that does not exist")
        sections.append((section_kind, offset, size, link))
    return sections


def _string(strings: bytes, start: int) -> str:
    end = strings.find(b"\0", start)
    if start >= len(strings) or end < 0:
        raise MalformedObjectError("a symbol name outside the name table")
    return strings[start:end].decode("utf-8", "replace")
