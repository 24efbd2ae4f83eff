"""Functions in whose place others can be put while programs hold their addresses.

Before, a module exports the function itself::

    define i32 @f(ptr %args, i64 %lo, i64 %hi, i64 %worker) nounwind { ... }

After, what it exports goes where a cell in memory says::

    @f.now = global ptr @f.first
    define i32 @f.first(ptr %args, i64 %lo, i64 %hi, i64 %worker) nounwind { ... }
    define i32 @f(ptr %args, i64 %lo, i64 %hi, i64 %worker) nounwind {
      %now = load atomic ptr, ptr @f.now monotonic, align 8
      %code = tail call i32 %now(ptr %args, i64 %lo, i64 %hi, i64 %worker)
      ret i32 %code
    }

Threads that are inside the first function stay there; the next call of each reads the cell anew. The object travels
with the text that better code is made from, so that nobody has to read the kernel's source again while the program does
something else: where two threads read source at once, older Pythons fail in either of them (gh-106905).
"""

from __future__ import annotations

import ctypes
import struct
import zlib

__all__ = ["cell_of", "made_replaceable", "packed", "replace", "unpacked"]

_HEADER = struct.Struct("<16sQ")  # magic, length of the object code
_MAGIC = b"tracejit first\0\0"

_PARAMETERS = "ptr %args, i64 %lo, i64 %hi, i64 %worker"


def cell_of(symbol: str) -> str:
    """The symbol of the memory that says where calls of ``symbol`` go.

    >>> cell_of("f")
    'f.now'
    """
    return f"{symbol}.now"


def made_replaceable(text: str, symbol: str) -> str:
    """The LLVM module ``text`` with a cell behind the kernel it exports.

    >>> text = "define i32 @f(ptr %args, i64 %lo, i64 %hi, i64 %worker) nounwind { ret i32 0 }"
    >>> "define i32 @f.first(" in made_replaceable(text, "f")
    True
    """
    before = f"define i32 @{symbol}({_PARAMETERS})"
    if text.count(before) != 1:
        raise ValueError(f"the module does not define {symbol} once")
    renamed = text.replace(before, f"define i32 @{symbol}.first({_PARAMETERS})")
    return f"""{renamed}
@{cell_of(symbol)} = global ptr @{symbol}.first

{before} nounwind {{
  %now = load atomic ptr, ptr @{cell_of(symbol)} monotonic, align 8
  %code = tail call i32 %now({_PARAMETERS})
  ret i32 %code
}}
"""


def packed(object_code: bytes, text: str) -> bytes:
    """Object code with the LLVM module that better code is made from.

    >>> packed(b"object", "module")[:14]
    b'tracejit first'
    """
    header = _HEADER.pack(_MAGIC, len(object_code))
    return header + object_code + zlib.compress(text.encode(), 1)


def unpacked(data: bytes) -> tuple[bytes, str] | None:
    """The object code and the module of :func:`packed`; None for object code that is to stay.

    >>> unpacked(packed(b"object", "module")), unpacked(b"object")
    ((b'object', 'module'), None)
    """
    if not data.startswith(_MAGIC):
        return None
    _, length = _HEADER.unpack_from(data)
    end = _HEADER.size + length
    return data[_HEADER.size : end], zlib.decompress(data[end:]).decode()


def replace(cell: int, function: int) -> None:
    """Have calls go to the code at ``function`` from the next one on; both are addresses.

    >>> memory = ctypes.c_void_p(1)
    >>> replace(ctypes.addressof(memory), 2)
    >>> memory.value
    2
    """
    ctypes.c_void_p.from_address(cell).value = function
