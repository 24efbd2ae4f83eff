"""Published functions as programs call them: with NumPy's names of arguments, sizes by keyword, and ``out=``.

The functions themselves take their arguments under one name each; what is published of them translates the others,
which costs a call without them nothing but one look at its keywords.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache, wraps
from types import FunctionType
from typing import Any, NamedTuple

from .given_results import put, refuse_alike, told_by
from .op import Op
from .tensors_only import refuse_others, strict

#: Other names of arguments, as NumPy has them.
_OTHER_NAMES = {
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "input",
    "a": "input",
    "x1": "input",
    "x2": "other",
    "axis0": "dim0",
    "axis1": "dim1",
    "sections": "indices_or_sections",
    "indices": "indices_or_sections",
    "input": "A",
}
#: Functions of `linalg` too, where their argument is ``A``.
_OF_MATRICES = ("det", "inverse", "slogdet")
#: Arguments of factories that the functions themselves need not know: there is one layout; what is made is pinned then.
_OF_FACTORIES = ("layout", "pin_memory", "names")


class _Keywords(NamedTuple):
    """What a function does not take itself but is understood."""

    renamed: dict[str, str]
    sizes: frozenset[str]  # names for what it takes as ``*sizes``
    dropped: frozenset[str]
    takes_out: bool
    makes: bool  # a factory: ``out`` tells the dtype

    @property
    def understood(self) -> frozenset[str]:
        """All of them."""
        return (
            frozenset(self.renamed)
            | self.sizes
            | self.dropped
            | ({"out"} if self.takes_out else set())
        )


def _parameters(target: Callable[..., Any]) -> tuple[frozenset[str], str | None]:
    """The names of a function's parameters, and of the one that takes the rest of the positional ones.

    Read from the code where that says it all: `inspect.signature` of every function took a twentieth of the import.
    """
    while type(target) is FunctionType and target.__dict__.keys() == {"__wrapped__"}:
        target = target.__dict__["__wrapped__"]
    if type(target) is FunctionType and not target.__dict__:
        code = target.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        rest = bool(code.co_flags & inspect.CO_VARARGS)
        count += rest + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        star = code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if rest else None
        return frozenset(code.co_varnames[:count]), star
    found = inspect.signature(target).parameters
    named = (n for n, p in found.items() if p.kind is p.VAR_POSITIONAL)
    return frozenset(found), next(named, None)


def _keywords(target: Callable[..., Any], out: bool) -> _Keywords:
    parameters, star = _parameters(target)
    renamed = {
        old: new for old, new in _OTHER_NAMES.items() if new in parameters and old not in parameters
    }
    if target.__name__ in _OF_MATRICES:
        renamed["A"] = "input"
    names = {"sizes": ("size",), "size": ("size",), "dims": ("dims",)}.get(star or "", ())
    makes = parameters >= {"dtype", "device"}
    dropped = [name for name in _OF_FACTORIES if makes and name not in parameters]
    return _Keywords(
        renamed, frozenset(names), frozenset(dropped), out and "out" not in parameters, makes
    )


@cache
def as_called(target: Any, method: bool = False) -> Any:
    """``target`` with the other spellings of its arguments; ``out=`` too unless it is a method.

    ``out`` receives the result, takes its shape, and is returned. Raises ``RuntimeError`` when gradients would have to
    go through it, and when its dtype cannot hold the result.

    >>> import tracejit as tj
    >>> found = tj.zeros(2)
    >>> tj.sum(tj.ones(3, 2), axis=0, out=found) is found
    True
    >>> found
    tensor([3., 3.])
    """
    if isinstance(target, Op):  # takes ``out`` itself
        return strict(target.name, target)
    known = _keywords(target, not method)
    understood = known.understood
    if not understood:
        return strict(target.__name__, target)

    @wraps(target)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if not kwargs or understood.isdisjoint(kwargs):
                return target(*args, **kwargs)
            return _translated(target, known, args, kwargs)
        except AttributeError:
            refuse_others(target, args, kwargs)
            raise

    return call if method else strict(target.__name__, call)


def publish(namespace: dict[str, Any], names: Sequence[str]) -> None:
    """Functions of a module as programs call them: each takes the other spellings of its arguments.

    >>> import tracejit as tj
    >>> found = tj.zeros(())
    >>> tj.linalg.det(tj.eye(2), out=found) is found
    True
    """
    for name in names:
        if isinstance(namespace[name], (FunctionType, Op)):
            namespace[name] = as_called(namespace[name])


def _pinned(made: Any) -> Any:
    """What a factory made, where a GPU reads it by itself."""
    return made.detach().pin_memory().requires_grad_(made.requires_grad)


def _translated(
    target: Callable[..., Any], known: _Keywords, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The call under the function's own names; the result in ``out`` if there is one."""
    for old, new in known.renamed.items():
        if old in kwargs and new not in kwargs:
            kwargs[new] = kwargs.pop(old)
    for name in known.sizes:
        if name in kwargs:
            sizes = kwargs.pop(name)
            args = (*args, kwargs.pop("input"), sizes) if "input" in kwargs else (*args, sizes)
    dropped = {name: kwargs.pop(name, None) for name in known.dropped}
    out = kwargs.pop("out", None) if known.takes_out else None
    if out is None:
        result = target(*args, **kwargs)
        return _pinned(result) if dropped.get("pin_memory") else result
    name = target.__name__
    operands = (*args, *kwargs.values())
    refuse_alike(name, out, operands)
    dtype = told_by(name, known.makes, out, kwargs)
    if dtype is not None:
        kwargs["dtype"] = dtype
    return put(name, out, target(*args, **kwargs), operands)
