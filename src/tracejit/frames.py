"""Local variables of a frame, read and set without leaving a trace.

Until Python 3.12 the first look at ``frame.f_locals`` makes a dictionary that the frame keeps, with a reference to all
that the variables held at that moment. An object that goes later, in that frame, would not go: its ``__del__`` would
run when the frame ends, and its memory stay until then.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from inspect import CO_OPTIMIZED
from types import FrameType
from typing import Any

__all__ = ["set_variables", "variables_of"]


def variables_of(frame: FrameType) -> dict[str, Any]:
    """What the variables of a frame hold now, by name.

    >>> def f(x):
    ...     found = variables_of(sys._getframe())
    ...     return found["x"], len(found)
    >>> f(3)
    (3, 1)
    """
    kept: Any = frame.f_locals
    found = dict(kept)
    own = type(kept) is dict and frame.f_code.co_flags & CO_OPTIMIZED
    if own and sys.getrefcount(kept) == _OURS and not _is_watched():  # nobody else has it
        kept.clear()
    return found


def set_variables(frame: FrameType, values: Mapping[str, Any]) -> None:
    """Set local variables of a function that runs.

    >>> def f(x):
    ...     set_variables(sys._getframe(), {"x": 5})
    ...     return x
    >>> f(3)
    5
    """
    kept: Any = frame.f_locals
    kept.update(values)
    if type(kept) is dict:  # from Python 3.13 on it writes to the frame
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
        if sys.getrefcount(kept) == _OURS and not _is_watched():
            kept.clear()


def _is_watched() -> bool:
    """May a tracer or profiler be at work? What the dictionary holds is put back into the frame when it has been."""
    return sys.gettrace() is not None or sys.getprofile() is not None


def _references() -> int:
    """How many references are counted as above of a dictionary that the frame alone has."""
    kept = sys._getframe().f_locals
    return sys.getrefcount(kept)


_OURS = _references()
