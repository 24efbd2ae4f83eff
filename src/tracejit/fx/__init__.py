"""Symbolic tracing, which this package does not do: nothing is ever traced, and programs that ask are told so."""

from __future__ import annotations

from typing import Any, NoReturn

from ..scripting import unchanged

__all__ = ["GraphModule", "Proxy", "symbolic_trace", "wrap"]


class Proxy:
    """What stands for a value while PyTorch traces; there are none."""


class GraphModule:
    """What PyTorch's tracing makes; there are none."""


def wrap(fn_or_name: Any) -> Any:
    """The function, or name of a function, itself.

    >>> wrap(len) is len
    True
    """
    return unchanged(fn_or_name) if callable(fn_or_name) else fn_or_name


def symbolic_trace(*_: Any, **__: Any) -> NoReturn:
    """Refused. Raises ``NotImplementedError``.

    >>> symbolic_trace(None)
    Traceback (most recent call last):
    NotImplementedError: modules are not traced symbolically; compile(module) records a run of them
    """
    raise NotImplementedError(
        "modules are not traced symbolically; compile(module) records a run of them"
    )
