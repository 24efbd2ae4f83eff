"""``t.item()`` or ``float(t)`` that Python only compares: the outcome is all that is decided, whatever the number is.

``item`` must return a number, which hides what becomes of it. The caller's bytecode tells: where the very next
instructions load a number and compare the two, nothing else ever sees what was read. So ``while error.item() > 1e-6``
is a loop that a tensor ends, as ``while error > 1e-6`` is. The same holds where what was read is kept in a local
variable, and all that the function ever does with that is one comparison: ``e = error.item()``, and later ``e > 1e-6``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from ...bytecode import Step, Unfollowed, at_offset, steps_of
from ...dtypes import DType, float64, int64
from ...errors import user_frame
from ...frames import variables_of
from ...ops import comparison
from ...ops.table import Op
from ..rounds.code import Flow, flow_of

#: How Python compares, the op that compares tensors so, and the number that something is compared with.
Comparison = tuple[Callable[[Any, Any], bool], Op, Any]
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


def comparison_of_item(floating: bool) -> Comparison | None:
    """How the code that calls ``item`` compares the result, and with which number; None where it does more.

    Or the code that calls ``float``, on a tensor of ``floating`` numbers.
    """
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
    reads, calls, after = steps[call - 1 : call + 2]
    if calls.name != "CALL":
        return None
    if not (floating and _calls_float(frame, call) if calls.argument else _reads_item(reads)):
        return None
    if after.name == "STORE_FAST":
        return _of_variable(frame, call + 1)
    return _compared(frame, call + 1)


def _compared(frame: FrameType, number: int) -> Comparison | None:
    """The comparison of what is on the stack with what the step of this number loads."""
    following = steps_of(frame.f_code)[number : number + 2]
    if len(following) < 2:
        return None
    loads, compares = following
    if compares.name != "COMPARE_OP" or compares.value not in _RELATIONS:
        return None
    limit = _loaded(frame, loads)
    return None if limit is None else (*_RELATIONS[compares.value], limit)


def _of_variable(frame: FrameType, number: int) -> Comparison | None:
    """The comparison that is all that becomes of what a step stores in a local variable."""
    flow = flow_of(frame.f_code)
    if flow is None or flow.hides:
        return None
    found: dict[Any, Comparison] = {}
    for place in flow.uses(flow.steps[number].value, number):
        one = _compared(frame, place + 1)
        if one is None or not _is_steady(flow, flow.steps[place + 1], number):
            return None
        found[one[1], type(one[2]), repr(one[2])] = one
    return next(iter(found.values())) if len(found) == 1 else None


def _is_steady(flow: Flow, loads: Step, number: int) -> bool:
    """Does a step load a constant, or a local variable that nothing sets from another step on?"""
    if loads.name == "LOAD_CONST":
        return True
    later = flow.reached(number)
    return loads.name == "LOAD_FAST" and not any(
        n in later and flow.steps[n].name != "LOAD_FAST" for n in flow.mentions(loads.value)
    )


def _reads_item(step: Step) -> bool:
    return step.name in ("LOAD_METHOD", "LOAD_ATTR") and step.value == "item"


def _calls_float(frame: FrameType, call: int) -> bool:
    """Is it ``float`` that a step calls, with one argument? It lies below that, and nothing or itself beside it."""
    flow = flow_of(frame.f_code)
    if flow is None or flow.steps[call].argument != 1 or call not in flow.depth:
        return False
    base = flow.depth[call] - 3
    begins = next((n for n in range(call - 1, -1, -1) if flow.depth.get(n, base) <= base), 0)
    step = flow.steps[begins]
    known = frame.f_globals.get("float", frame.f_builtins.get("float"))
    return step.name == "LOAD_GLOBAL" and step.value == "float" and known is float


def _loaded(frame: FrameType, step: Step) -> Any:
    """The number that a step loads."""
    value: Any = None
    if step.name == "LOAD_CONST":
        value = step.value
    elif step.name in ("LOAD_FAST", "LOAD_DEREF"):
        value = variables_of(frame).get(step.value)
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
