"""``len(t)`` of a size known only at run time: Python wants a plain number, but often only to compare it.

``len`` must return an int, which hides what becomes of it. The caller's bytecode tells: where the very next
instructions compare the number with a constant, or branch on it, the outcome is all that is decided.
"""

from __future__ import annotations

import builtins
import dis
import functools
import operator
import sys
from types import CodeType, FrameType
from typing import Any

_COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}

#: Instructions that load an argument without calling or branching, by how many values they add.
_LOADS = {"LOAD_FAST": 1, "LOAD_DEREF": 1, "LOAD_GLOBAL": 1, "LOAD_NAME": 1, "LOAD_CONST": 1}
_LOADS |= {"LOAD_ATTR": 0, "BINARY_SUBSCR": -1}


def compared_length(size: Any) -> int:
    """The number of ``size``, decided no further than the caller of ``len`` looks at it."""
    frame = sys._getframe(2)  # of the code that calls len; frame 1 is __len__
    code, at = _instructions(frame.f_code)
    call = at.get(frame.f_lasti, -1)
    if call >= 0 and code[call].opname == "PRECALL":
        call += 1
    if call < 0 or code[call].opname != "CALL" or code[call].arg != 1:
        return operator.index(size)
    start = _start(code, call)
    if start is None or not _is_len(frame):
        return operator.index(size)
    return _decided(size, code, start, call)


def _decided(size: Any, code: list[dis.Instruction], start: int, call: int) -> int:
    """The number, after deciding what the instructions around ask of it."""
    here, after = code[call + 1], code[call + 2 : call + 3]
    before = code[start - 1] if start else None
    if here.opname.startswith("POP_JUMP") and here.opname.endswith(("IF_TRUE", "IF_FALSE")):
        bool(size)
    elif here.opname == "LOAD_CONST" and type(here.argval) is int and _compares(after):
        _COMPARISONS[after[0].argval](size, here.argval)
    elif (
        before is not None
        and before.opname == "LOAD_CONST"
        and type(before.argval) is int
        and _compares([here])
    ):
        _COMPARISONS[here.argval](before.argval, size)
    else:
        return operator.index(size)
    number: int = size.value
    return number


def _compares(code: list[dis.Instruction]) -> bool:
    return bool(code) and code[0].opname == "COMPARE_OP" and code[0].argval in _COMPARISONS


def _start(code: list[dis.Instruction], call: int) -> int | None:
    """Where ``len`` is loaded for the call: before instructions that do nothing but load one argument."""
    added = 0
    for number in range(call - 1, -1, -1):
        found = code[number]
        if found.opname == "LOAD_GLOBAL" and found.argval == "len" and added == 1:
            return number
        if found.opname == "PRECALL":
            continue
        if found.opname not in _LOADS:
            return None
        added += _LOADS[found.opname]
    return None


def _is_len(frame: FrameType) -> bool:
    """Is ``len`` what it is everywhere?"""
    return frame.f_globals.get("len", builtins.len) is builtins.len


@functools.lru_cache(maxsize=64)
def _instructions(code: CodeType) -> tuple[list[dis.Instruction], dict[int, int]]:
    """The instructions of a function, and their numbers by offset."""
    found = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG")]
    return found, {instruction.offset: number for number, instruction in enumerate(found)}
