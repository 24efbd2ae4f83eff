"""Marks that code written for PyTorch's script compiler carries: they say nothing here and change nothing.

There is no second language to translate into, so every mark leaves what it marks as it is, and the questions whether
a script is being compiled are answered with no. :func:`tracejit.compile` is what makes programs faster.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

T = TypeVar("T")

__all__ = [
    "Final",
    "annotate",
    "export",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "script",
    "script_if_tracing",
    "unused",
]


def is_scripting() -> bool:
    """False: functions run as the Python they are.

    >>> is_scripting()
    False
    """
    return False


def is_tracing() -> bool:
    """False: recording is an ordinary run, on real values.

    >>> is_tracing()
    False
    """
    return False


def script(obj: T, *_: Any, **__: Any) -> T:
    """``obj`` itself: functions, classes and modules need no translation.

    >>> script(len) is len
    True
    """
    return obj


def _unchanged(marked: Any) -> Any:
    """What a decorator without effect returns, with and without parentheses."""
    return marked if callable(marked) else lambda inner: inner


def ignore(function: Any = None, **_: Any) -> Any:
    """A mark (``ignore``) without effect: the function itself.

    >>> ignore(len) is len
    True
    """
    return _unchanged(function)


def unused(function: Any = None, **_: Any) -> Any:
    """A mark (``unused``) without effect: the function itself.

    >>> unused(len) is len
    True
    """
    return _unchanged(function)


def export(function: Any = None, **_: Any) -> Any:
    """A mark (``export``) without effect: the function itself.

    >>> export(len) is len
    True
    """
    return _unchanged(function)


def interface(function: Any = None, **_: Any) -> Any:
    """A mark (``interface``) without effect: the function itself.

    >>> interface(len) is len
    True
    """
    return _unchanged(function)


def script_if_tracing(function: Any = None, **_: Any) -> Any:
    """A mark (``script_if_tracing``) without effect: the function itself.

    >>> script_if_tracing(len) is len
    True
    """
    return _unchanged(function)


def annotate(the_type: Any, the_value: T) -> T:
    """The value.

    >>> annotate(list, [1])
    [1]
    """
    return the_value
