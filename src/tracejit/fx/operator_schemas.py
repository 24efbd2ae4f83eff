"""The arguments of calls as the signatures of what is called have them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from ..nn.module import Module
from . import interception

__all__ = ["ArgsKwargsPair", "normalize_function", "normalize_module"]


class ArgsKwargsPair(NamedTuple):
    """Arguments by position, and by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def _bound(target: Any, args: Any, kwargs: Any, by_name: bool) -> ArgsKwargsPair | None:
    interception.settle()
    try:
        bound = inspect.signature(target).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    bound.apply_defaults()
    if not by_name:
        return ArgsKwargsPair(bound.args, bound.kwargs)
    first, named = [], {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            first += value
        elif kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        else:
            named[name] = value
    return ArgsKwargsPair(tuple(first), named)


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: Any = None,
    kwarg_types: Any = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a function with all defaults, or all by name; None where it does not take them.

    >>> import tracejit as tj
    >>> normalize_function(tj.nn.functional.dropout, (1,), {}, None, None, True).kwargs
    {'input': 1, 'p': 0.5, 'training': True, 'inplace': False}
    """
    return _bound(target, args, kwargs or {}, normalize_to_only_use_kwargs)


def normalize_module(
    root: Module,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The same of the ``forward`` of a module inside of ``root``.

    >>> import tracejit as tj
    >>> normalize_module(tj.nn.Sequential(tj.nn.ReLU()), "0", (1,), {}, True).kwargs
    {'input': 1}
    """
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize node with target {target} but root did not have that target!"
        ) from error
    return _bound(module.forward, args, kwargs or {}, normalize_to_only_use_kwargs)
