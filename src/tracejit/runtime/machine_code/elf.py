"""The little of the ELF-64 format needed to trust an object before linking it, and to link it.

Reads the header, the section table and the symbol table, and checks that each lies inside the
file. Source: System V ABI, "Object Files" (gABI 4.1) with the ELF-64 field sizes.
"""

from __future__ import annotations

import struct
import sys
from typing import NamedTuple

__all__ = [
    "ABSENT",
    "NOBITS",
    "RELA",
    "RESERVED",
    "SYMBOLS",
    "MalformedObjectError",
    "Section",
    "Symbol",
    "is_elf",
    "machine",
    "relocations",
    "sections",
    "symbol_table",
    "symbols",
]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_RELOCATABLE = 1
#: Kinds of sections: symbols, relocations, memory that starts as zeros.
SYMBOLS, RELA, NOBITS = 2, 4, 8
#: Section numbers of symbols: defined elsewhere; from here on not sections.
ABSENT, RESERVED = 0, 0xFF00
_LOCAL = 0  # binding


class MalformedObjectError(ValueError):
    """An ELF file whose tables do not fit inside it."""


class Section(NamedTuple):
    """What the section table says of a section."""

    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


class Symbol(NamedTuple):
    """A symbol: where it is, and whether other objects may refer to it."""

    name: str
    section: int
    value: int
    local: bool


def is_elf(data: bytes) -> bool:
    """Whether `data` starts like a little-endian ELF-64 file.

    >>> is_elf(b"nothing of the kind")
    False
    """
    return data[:6] == b"\x7fELF\x02\x01" and sys.byteorder == "little"


def machine(data: bytes) -> int:
    """The number of the architecture an object is for: 62 is x86-64.

    >>> machine(bytes(64))
    0
    """
    found: int = _HEADER.unpack_from(data)[2]
    return found


def symbols(data: bytes) -> tuple[set[str], set[str]]:
    """Names a relocatable object defines for others, and names it expects others to define.

    Raises `MalformedObjectError` when a table or section reaches outside the file.

    >>> symbols(bytes(64))
    Traceback (most recent call last):
    ...
    tracejit.runtime.machine_code.elf.MalformedObjectError: not a relocatable object
    """
    found = [s for s in symbol_table(data, sections(data)) if s.name]
    needed = {s.name for s in found if s.section == ABSENT}
    return {s.name for s in found if s.section != ABSENT and not s.local}, needed


def symbol_table(data: bytes, found: list[Section]) -> list[Symbol]:
    """The symbols of an object with these sections, in the order in which relocations count them.

    Raises `MalformedObjectError` for a name or a section that does not exist.

    >>> symbol_table(b"", [])
    []
    """
    table: list[Symbol] = []
    for part in found:
        if part.kind != SYMBOLS:
            continue
        if part.link >= len(found):
            raise MalformedObjectError("symbol table without names")
        names = found[part.link]
        strings = data[names.offset : names.offset + names.size]
        rows = data[part.offset : part.offset + part.size - part.size % _SYMBOL.size]
        for name_at, info, _, section, value, _ in _SYMBOL.iter_unpack(rows):
            if ABSENT < section < RESERVED and section >= len(found):
                raise MalformedObjectError("symbol in a section that does not exist")
            name = _string(strings, name_at) if name_at else ""
            table.append(Symbol(name, section, value, info >> 4 == _LOCAL))
    return table


def relocations(data: bytes, part: Section) -> list[tuple[int, int, int, int]]:
    """(offset, kind, symbol number, addend) of each relocation in a section of them.

    >>> relocations(struct.pack("<QQq", 16, 3 << 32 | 2, -4), Section(RELA, 0, 0, 24, 0, 0, 8))
    [(16, 2, 3, -4)]
    """
    rows = data[part.offset : part.offset + part.size - part.size % _RELOCATION.size]
    return [
        (offset, info & 0xFFFFFFFF, info >> 32, addend)
        for offset, info, addend in _RELOCATION.iter_unpack(rows)
    ]


def sections(data: bytes) -> list[Section]:
    """Every section, each inside the file.

    Raises `MalformedObjectError` when a table or section reaches outside the file.

    >>> sections(b"")
    Traceback (most recent call last):
    ...
    tracejit.runtime.machine_code.elf.MalformedObjectError: shorter than its header
    """
    if len(data) < _HEADER.size:
        raise MalformedObjectError("shorter than its header")
    header = _HEADER.unpack_from(data)
    kind, table, entry_size, count = header[1], header[6], header[11], header[12]
    if kind != _RELOCATABLE or entry_size != _SECTION.size or count == 0:
        raise MalformedObjectError("not a relocatable object")
    if table + count * entry_size > len(data):
        raise MalformedObjectError("cut off before its section table")
    found = []
    for index in range(count):
        fields = _SECTION.unpack_from(data, table + index * entry_size)
        _, section_kind, flags, _, offset, size, link, info, alignment, _ = fields
        if section_kind != NOBITS and offset + size > len(data):
            raise MalformedObjectError("a section reaches past the end of the file")
        if section_kind == RELA and info >= count:
            raise MalformedObjectError("relocations of a section that does not exist")
        found.append(Section(section_kind, flags, offset, size, link, info, alignment))
    return found


def _string(strings: bytes, start: int) -> str:
    end = strings.find(b"\0", start)
    if start >= len(strings) or end < 0:
        raise MalformedObjectError("a symbol name outside the name table")
    return strings[start:end].decode("utf-8", "replace")
