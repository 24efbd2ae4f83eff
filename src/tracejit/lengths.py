"""``len(t)`` of a size known only at run time: Python wants a plain number, but often only to compare it.

``len`` must return an int, which hides what becomes of it. The caller's bytecode tells: where the very next
instructions compare the number with a constant, or branch on it, the outcome is all that is decided.
"""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

from .bytecode import TESTS, Step, Unfollowed, at_offset, steps_of

_COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}

#: Steps that load an argument without calling or branching.
_LOADS = frozenset(
    {
        "LOAD_FAST",
        "LOAD_DEREF",
        "LOAD_GLOBAL",
        "LOAD_NAME",
        "LOAD_CONST",
        "LOAD_ATTR",
        "BINARY_SUBSCR",
    }
)


def compared_length(size: Any) -> int:
    """The number of ``size``, decided no further than the caller of ``len`` looks at it."""
    frame = sys._getframe(2)  # of the code that calls len; frame 1 is __len__
    try:
        steps = steps_of(frame.f_code)
    except Unfollowed:
        return operator.index(size)
    call = at_offset(steps, frame.f_lasti)
    if call < 0 or steps[call].name != "CALL" or steps[call].argument != 1:
        return operator.index(size)
    start = _start(steps, call)
    if start is None or not _is_len(frame):
        return operator.index(size)
    return _decided(size, steps, start, call)


def _decided(size: Any, steps: Sequence[Step], start: int, call: int) -> int:
    """The number, after deciding what the steps around ask of it."""
    here, after = steps[call + 1], steps[call + 2 : call + 3]
    before = steps[start - 1] if start else None
    if here.name in TESTS:
        bool(size)
    elif here.name == "LOAD_CONST" and type(here.value) is int and _compares(after):
        _COMPARISONS[after[0].value](size, here.value)
    elif (
        before is not None
        and before.name == "LOAD_CONST"
        and type(before.value) is int
        and _compares([here])
    ):
        _COMPARISONS[here.value](before.value, size)
    else:
        return operator.index(size)
    number: int = size.value
    return number


def _compares(steps: Sequence[Step]) -> bool:
    return bool(steps) and steps[0].name == "COMPARE_OP" and steps[0].value in _COMPARISONS


def _start(steps: Sequence[Step], call: int) -> int | None:
    """Where ``len`` is loaded for the call: before steps that do nothing but load one argument."""
    added = 0
    for number in range(call - 1, -1, -1):
        step = steps[number]
        if step.name == "LOAD_GLOBAL" and step.value == "len" and added == 1:
            return number
        if step.name not in _LOADS or step.onward is None:
            return None
        added += step.onward
    return None


def _is_len(frame: FrameType) -> bool:
    """Is ``len`` what it is everywhere?"""
    return frame.f_globals.get("len", builtins.len) is builtins.len
