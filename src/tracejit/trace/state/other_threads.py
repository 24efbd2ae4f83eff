"""Threads beside the one that records: who might see what stands in the user's names meanwhile, and which code."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any

from .reads import codes_in, owner_of

#: Parts of a program that watch over it, and whose threads run nothing of the user's: they are behind every progress
#: bar and in every notebook.
_WATCHES = (
    *("IPython.", "_pydevd_bundle.", "debugpy.", "execnet.", "ipykernel.", "tensorboard.", "tqdm."),
    *("wandb.", "zmq."),
)


def others_run() -> bool:
    """Are there threads that may run the user's code? Those of the package only run kernels and compile them."""
    return bool(_others())


def _others() -> list[FrameType]:
    """Where the threads are that may run the user's code. What has no frame is not in Python, or over."""
    frames, here = sys._current_frames(), threading.get_ident()
    return [
        frames[thread.ident]
        for thread in threading.enumerate()
        if thread.ident != here and thread.ident in frames and not _is_known(thread)
    ]


def _is_known(thread: threading.Thread) -> bool:
    target = getattr(thread, "_target", None)
    homes = type(thread).__module__, getattr(target, "__module__", None)
    return thread.name.startswith("tracejit") or any(f"{x}.".startswith(_WATCHES) for x in homes)


def others_compute() -> bool:
    """Are other threads inside of this package, and so perhaps about to record, or to ask what was recorded?"""
    waiting: list[FrameType | None] = [*_others()]
    while waiting:
        frame = waiting.pop()
        if frame is not None:
            if owner_of(frame.f_code, frame.f_globals) == "package":
                return True
            waiting.append(frame.f_back)
    return False


def codes_of(namespace: dict[str, Any]) -> Iterator[CodeType]:
    """The code of the functions and classes of a module, as far as they can be found in it.

    >>> [code.co_name for code in codes_of({"f": others_run})]  # a function of another module
    []
    >>> names = [code.co_name for code in codes_of(others_run.__globals__)]
    >>> "others_run" in names, "owner_of" in names
    (True, False)
    """
    waiting, seen = [*namespace.values()], set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, FunctionType):
            if value.__globals__ is namespace:
                yield from codes_in(value.__code__)
            waiting += _contents(value.__closure__ or ())
        elif isinstance(value, type):
            if value.__module__ == namespace.get("__name__"):
                waiting += [*vars(value).values()]
        elif isinstance(value, property):
            waiting += [value.fget, value.fset, value.fdel]
        elif isinstance(value, (staticmethod, classmethod)):
            waiting.append(value.__func__)
        else:  # what a decorator made of a function
            with suppress(AttributeError):
                waiting.append(object.__getattribute__(value, "__dict__").get("__wrapped__"))


def _contents(cells: Sequence[CellType]) -> Iterator[Any]:
    for cell in cells:
        with suppress(ValueError):  # it is empty
            yield cell.cell_contents
