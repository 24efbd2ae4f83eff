"""What a call is for those who listen to operators, and how an operator is called: history first, then listeners."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from ..aten import Overload, Packet, overload_of
from ..ops.composed import composed
from ..ops.op import Op
from ..ops.remembered import remembered
from . import (  # noqa: F401  # noqa: F401
    forms_indexing,
    forms_layers,
    forms_reductions,
    forms_windows,
    rules,
    rules_layers,
    rules_shapes,
)
from .forms import ALIASES, AS_SPELLED, AS_WRITTEN, FORMS
from .forms_ops import of_op
from .history import differentiated
from .signatures import forms_of

__all__ = ["call", "called", "perform", "written"]


def written(own: Callable[..., Any]) -> Callable[..., Any]:
    """A function without what remembers its steps, which nobody would see.

    >>> written(len) is len
    True
    """
    while getattr(own, "__code__", None) in _REMEMBERING:
        own = own.__wrapped__  # type: ignore[attr-defined]
    return own


def _nothing() -> None:
    """What is wrapped to know how that looks."""


_REMEMBERING = {remembered(_nothing).__code__, composed(_nothing).__code__}


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _fits(function: Callable[..., Any], args: Any, kwargs: Any) -> bool:
    try:
        _signature(function).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def perform(name: str, space: str, own: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A call of a public function: the operators that it is, or what it calls in turn.

    ``space`` is "F." for functions of layers and "Tensor." for methods, which may differ from those beside them.

    >>> perform("no_such_name", "", max, (1, 2), {})
    2
    """
    found = FORMS.get(f"{space}{name}") if space else None
    name = ALIASES.get(name, name)
    found = found or FORMS.get(name)
    if found is not None and _fits(found, args, kwargs):
        result = found(*args, **kwargs)
        if result is AS_WRITTEN:
            return written(own)(*args, **kwargs)
        if result is not AS_SPELLED:
            return result
    for form in forms_of(name):
        bound = form.bound(args, kwargs)
        if bound is not None:
            return call(overload_of(name, form.form), *bound)
    return written(own)(*args, **kwargs)


def called(target: Any, own: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A call of an operator as an object: of PyTorch's, or of the table that functions of this package are made of.

    >>> import tracejit as tj
    >>> called(tj.ops.aten.add, None, (tj.ones(1), 1), {})
    tensor([2.])
    """
    if isinstance(target, Op):
        return of_op(target, own, args, kwargs)
    name = target._opname if isinstance(target, Overload) else target.__name__
    for form in forms_of(name) if target.namespace == "aten" else ():
        if isinstance(target, Packet) or form.form == target._overloadname:
            bound = form.bound(args, kwargs)
            if bound is not None:
                return call(overload_of(name, form.form), *bound)
    op = target.default if isinstance(target, Packet) else target
    return call(op, args, kwargs)


call = differentiated
