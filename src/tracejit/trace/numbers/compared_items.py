"""``t.item()`` that Python only compares: the outcome is all that is decided, whatever the number is.

``item`` must return a number, which hides what becomes of it. The caller's bytecode tells: where the very next
instructions load a number and compare the two, nothing else ever sees what was read. So ``while error.item() > 1e-6``
is a loop that a tensor ends, as ``while error > 1e-6`` is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from ...bytecode import Step, Unfollowed, at_offset, steps_of
from ...dtypes import DType, float64, int64
from ...errors import user_frame
from ...ops import comparison
from ...ops.table import Op

#: How numbers are compared, and the op that compares tensors so.
_RELATIONS: Mapping[str, tuple[Callable[[Any, Any], bool], Op]] = {
    "<": (operator.lt, comparison.lt),
    "<=": (operator.le, comparison.le),
    "==": (operator.eq, comparison.eq),
    "!=": (operator.ne, comparison.ne),
    ">": (operator.gt, comparison.gt),
    ">=": (operator.ge, comparison.ge),
}
#: Whole numbers below are floats as they are.
_EXACT = 1 << 53


def comparison_of_item() -> tuple[Callable[[Any, Any], bool], Op, Any] | None:
    """How the code that calls ``item`` compares the result, and with which number; None where it does more."""
    frame = user_frame()
    if frame is None:
        return None
    try:
        steps = steps_of(frame.f_code)
    except Unfollowed:
        return None
    call = at_offset(steps, frame.f_lasti)
    if call < 1 or call + 2 >= len(steps):
        return None
    reads, calls, loads, compares = steps[call - 1 : call + 3]
    if calls.name != "CALL" or calls.argument or not _reads_item(reads):
        return None
    if compares.name != "COMPARE_OP" or compares.value not in _RELATIONS:
        return None
    limit = _loaded(frame, loads)
    return None if limit is None else (*_RELATIONS[compares.value], limit)


def _reads_item(step: Step) -> bool:
    return step.name in ("LOAD_METHOD", "LOAD_ATTR") and step.value == "item"


def _loaded(frame: FrameType, step: Step) -> Any:
    """The number that a step loads."""
    value: Any = None
    if step.name == "LOAD_CONST":
        value = step.value
    elif step.name in ("LOAD_FAST", "LOAD_DEREF"):
        value = frame.f_locals.get(step.value)
    elif step.name == "LOAD_GLOBAL":
        value = frame.f_globals.get(step.value)
    return value if type(value) in (int, float) else None


def compared_in(dtype: DType, limit: Any) -> DType | None:
    """The type in which numbers of a dtype compare with ``limit`` as Python's do; None where there is none."""
    if type(limit) is int and abs(limit) > _EXACT:
        return None
    if dtype.is_floating_point:
        return float64
    return (
        int64 if dtype.category == "int" and type(limit) is int and dtype.short != "u64" else None
    )
