"""Functions that a program wants recorded as calls, and names in modules that stand for others meanwhile."""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from .node import map_aggregate
from .proxy import Proxy
from .spelling import publish_as

W = TypeVar("W")

__all__ = ["Patcher", "assert_is_none", "wrap"]

#: Where names are looked up by functions that are to be recorded: by the identity of the globals, and the name.
_wrapped: dict[tuple[int, str], dict[str, Any]] = {}


def wrap(fn_or_name: W) -> W:
    """Have calls of a function, by its name in the module that calls this, recorded instead of followed.

    It is called where the module is defined, also as a decorator. Raises ``NotImplementedError`` elsewhere.

    >>> def double(x):
    ...     return x.tolist() * 2
    >>> wrap("double")
    'double'
    >>> import tracejit as tj
    >>> traced = tj.fx.symbolic_trace(lambda x: double(x))
    >>> [node.name for node in traced.graph.nodes], traced(tj.ones(1))
    (['x', 'double', 'output'], [1.0, 1.0])
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__  # type: ignore[attr-defined]
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def find_proxy(*values: Any) -> Proxy | None:
    """A proxy among values and what they contain, if there is one."""
    found: list[Proxy] = []
    map_aggregate(values, lambda x: found.append(x) if isinstance(x, Proxy) else None)
    return found[-1] if found else None


def _recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, whose calls with proxies are nodes."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    call.__fx_already_patched = True  # type: ignore[attr-defined]
    return call


class Patcher:
    """Puts things where others are, and everything back in the end.

    >>> names = {"size": len}
    >>> with Patcher() as patcher:
    ...     patcher.item(names, "size", max)
    ...     names["size"]((1, 2))
    2
    >>> names["size"]((1, 2))
    2
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], Any]] = []
        self._visited: set[int] = set()

    def item(self, names: dict[str, Any], name: str, value: Any) -> None:
        """Something else by a name in a dict."""
        if name in names:
            self._undo.append(functools.partial(names.__setitem__, name, names[name]))
        else:
            self._undo.append(functools.partial(names.__delitem__, name))
        names[name] = value

    def attribute(self, owner: Any, name: str, value: Any) -> None:
        """Something else as an attribute."""
        self._undo.append(functools.partial(setattr, owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def function(self, names: dict[str, Any], name: str, own: Any = None) -> None:
        """Calls of the function of a name recorded, unless they are."""
        own = names.get(name, getattr(builtins, name, None)) if own is None else own
        if own is None:
            raise KeyError(name)
        if not getattr(own, "__fx_already_patched", False):
            self.item(names, name, _recorded(own))

    def functions(self, names: dict[str, Any], wanted: set[int]) -> None:
        """The same for all functions in ``names`` with one of these identities; a dict is looked at once."""
        if id(names) in self._visited:
            return
        self._visited.add(id(names))
        for name, value in list(names.items()):
            if not name.startswith("_") and id(value) in wanted and callable(value):
                self.function(names, name, value)

    def wrapped(self) -> None:
        """The same for all that programs have wrapped."""
        for (_, name), names in list(_wrapped.items()):
            self.function(names, name)

    def __enter__(self) -> Patcher:
        return self

    def __exit__(self, *_: object) -> None:
        while self._undo:
            self._undo.pop()()


def assert_is_none(value: Any, msg: str) -> None:
    """``AssertionError`` unless ``value`` is None: what traced code has for an argument that was None.

    >>> assert_is_none(None, "not here")
    """
    assert value is None, msg


_wrapped[id(globals()), "assert_is_none"] = globals()
publish_as("tracejit.fx._symbolic_trace.wrap", wrap)
publish_as("tracejit.fx._symbolic_trace._assert_is_none", assert_is_none)
