"""What tensors of other classes than the usual one do, for modules below those that know: installed by `listening`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["ANSWERS", "Answers", "watched"]


def _unloaded(*_: Any) -> Any:
    raise RuntimeError("tracejit.listening is not loaded")


class Answers:
    """``watch`` has functions look for a tensor, ``as_class`` makes it one of a class, ``default`` runs a function of
    such tensors, ``made_of`` makes one without elements; ``ones_like`` lets listeners know where a pass begins.
    """

    watch: Callable[..., Any] = _unloaded
    as_class: Callable[..., Any] = _unloaded
    default: Callable[..., Any] = _unloaded
    made_of: Callable[..., Any] = _unloaded
    ones_like: Callable[..., Any] = _unloaded


ANSWERS = Answers()


def watched(made: Any) -> Any:
    """A new tensor, for which functions look from now on if it is of a program's own class.

    >>> watched(3)
    3
    """
    if type(made).__module__.partition(".")[0] == "tracejit":
        return made
    return ANSWERS.watch(made)
