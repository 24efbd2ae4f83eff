"""NaN and infinities are results like any other: NumPy's warnings about them, off for the length of an op.

``with np.errstate(all="ignore")`` says the same, but costs more than the arithmetic on a small array: a new object
and a new setting every time. What it sets is a context variable, so the setting is made once and put in place by
itself::

    before = ignore()
    try:
        ...
    finally:
        restore(before)
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any

import numpy as np

__all__ = ["ignore", "restore"]


def _setting() -> tuple[ContextVar[Any], Any] | None:
    """The variable that ``np.errstate`` sets, with the value that ignores; None where it sets something else."""
    before = copy_context()
    with np.errstate(all="ignore"):
        inside = copy_context()
    changed = [(v, inside[v]) for v in inside if v not in before or before[v] is not inside[v]]
    return changed[0] if len(changed) == 1 else None


def _enter() -> np.errstate:
    setting = np.errstate(all="ignore")
    setting.__enter__()
    return setting


def _leave(setting: np.errstate) -> None:
    setting.__exit__(None, None, None)


def _switches() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    found = _setting()
    if found is None:
        return _enter, _leave
    variable, value = found
    return partial(variable.set, value), variable.reset


#: Ignore floating point errors from now on: what :func:`restore` needs. And: as it was before.
ignore, restore = _switches()
