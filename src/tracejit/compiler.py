"""Marks and questions around compilation under PyTorch's names: recording is an ordinary run, they change nothing."""

from __future__ import annotations

from typing import Any

from .scripting import unchanged

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "reset",
]


def is_compiling() -> bool:
    """False: functions run as the Python they are, while they are recorded too.

    >>> is_compiling()
    False
    """
    return False


def is_dynamo_compiling() -> bool:
    """False: there is no such compiler.

    >>> is_dynamo_compiling()
    False
    """
    return False


def is_exporting() -> bool:
    """False: nothing is exported.

    >>> is_exporting()
    False
    """
    return False


def disable(fn: Any = None, recursive: bool = True, **_: Any) -> Any:
    """The function itself: what it does in compiled code is what it does anywhere.

    >>> disable(len) is disable()(len) is len
    True
    """
    return unchanged(fn)


def allow_in_graph(fn: Any) -> Any:
    """The function itself: every function may be called in compiled code.

    >>> allow_in_graph(len) is len
    True
    """
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function itself: what it returns is looked at whenever it is recorded.

    >>> assume_constant_result(len) is len
    True
    """
    return fn


def reset() -> None:
    """Accepted and without effect: programs belong to the functions that were compiled, and go with them.

    >>> reset()
    """


def cudagraph_mark_step_begin() -> None:
    """Accepted and without effect: results of compiled calls are tensors of their own.

    >>> cudagraph_mark_step_begin()
    """
