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

Threads that are inside the first function stay there; the next call of each reads the cell anew.
"""

from __future__ import annotations

import ctypes

__all__ = ["cell_of", "is_replaceable", "made_replaceable", "replace"]

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


def is_replaceable(object_code: bytes, symbol: str) -> bool:
    """Was the object made from such a module?

    >>> is_replaceable(b"...", "f")
    False
    """
    return cell_of(symbol).encode() in object_code


def replace(cell: int, function: int) -> None:
    """Have calls go to the code at ``function`` from the next one on; both are addresses.

    >>> memory = ctypes.c_void_p(1)
    >>> replace(ctypes.addressof(memory), 2)
    >>> memory.value
    2
    """
    ctypes.c_void_p.from_address(cell).value = function
