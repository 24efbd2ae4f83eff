"""Entering and leaving of listeners, and how they are told."""

from __future__ import annotations

from typing import Any

from ..answering import ANSWERS
from ..modes import MODES
from .stack import LISTENERS, door

__all__ = ["enter", "leave", "tell"]


def enter(kind: str, mode: Any) -> None:
    """Let ``mode`` be the innermost listener of its kind, "dispatch" or "functions".

    >>> class Deaf:
    ...     pass
    >>> enter("functions", mode := Deaf())
    >>> leave("functions")
    """
    if MODES.recorder is not None:
        MODES.recorder.unsupported(f"{type(mode).__name__}, a mode, inside a compiled function")
    setattr(LISTENERS, kind, (*getattr(LISTENERS, kind), mode))
    door().listen()
    LISTENERS.entered += 1
    MODES.listening = True
    MODES.note()


def leave(kind: str) -> None:
    """The innermost listener of that kind is gone.

    >>> enter("functions", object())
    >>> leave("functions")
    """
    setattr(LISTENERS, kind, getattr(LISTENERS, kind)[:-1])
    door().unlisten()
    LISTENERS.entered -= 1
    MODES.listening = LISTENERS.entered > 0
    MODES.note()


def tell(function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """What the innermost listener to functions answers; ``NotImplemented`` where it has nothing to say.

    >>> class Counts:
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         return func, len(LISTENERS.functions)
    >>> enter("functions", Counts())
    >>> tell(max, (), (1, 2), {})
    (<built-in function max>, 0)
    >>> leave("functions")
    """
    before = LISTENERS.functions
    *rest, mode = before
    LISTENERS.functions = tuple(rest)
    try:
        return mode.__torch_function__(function, types, args, kwargs)
    finally:
        LISTENERS.functions = before


def _ones_like(x: Any) -> Any:
    from ..aten import ATEN

    return ATEN.ones_like(x)


ANSWERS.ones_like = _ones_like
