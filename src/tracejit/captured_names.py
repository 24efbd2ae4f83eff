"""What a program calls the tensors that a function reads from outside of it: ``model.0.weight``."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterator
from typing import Any

from .nn.module import Module
from .tensor import Tensor

__all__ = ["names_of_tensors"]


def names_of_tensors(function: Any) -> dict[int, str]:
    """Names by the identities of tensors: of globals and closure variables that the code names, of what they hold.

    Parameters and buffers of modules have the names that the modules give them, after that of the variable. Lists and
    the attributes of other objects are looked at one level deep.

    >>> import tracejit as tj
    >>> weight = tj.ones(2)
    >>> f = lambda x: x * weight
    >>> f.__globals__["weight"] = weight
    >>> names_of_tensors(f)[id(weight)]
    'weight'
    """
    found: dict[int, str] = {}
    for name, value in _variables(function):
        for path, tensor in _tensors(value):
            found.setdefault(id(tensor), ".".join(filter(None, (name, path))))
    return found


def _variables(function: Any) -> Iterator[tuple[str, Any]]:
    """What the code of a function names outside of itself; the module or object that it is a method of has no name."""
    inner = inspect.unwrap(function, stop=lambda f: hasattr(f, "__self__"))
    owner = getattr(inner, "__self__", None)
    if owner is not None:
        yield "", owner
    code, namespace = getattr(inner, "__code__", None), getattr(inner, "__globals__", {})
    if code is None:
        return
    for name, cell in zip(code.co_freevars, getattr(inner, "__closure__", None) or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    yield from ((name, namespace[name]) for name in code.co_names if name in namespace)


def _tensors(value: Any, depth: int = 1) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a value, and where they are in it."""
    if type(value) in weakref.ProxyTypes:  # what it leads to may be gone
        return
    if isinstance(value, Tensor):
        yield "", value
    elif isinstance(value, Module):
        yield from value.named_parameters()
        yield from value.named_buffers()
    elif depth and isinstance(value, (list, tuple)):
        yield from _inside(((str(place), item) for place, item in enumerate(value)), depth)
    elif depth and isinstance(value, dict):
        yield from _inside(((str(key), item) for key, item in value.items()), depth)
    elif depth and type(value).__module__ != "builtins" and hasattr(value, "__dict__"):
        yield from _inside(((str(key), item) for key, item in vars(value).items()), depth)


def _inside(parts: Iterator[tuple[str, Any]], depth: int) -> Iterator[tuple[str, Tensor]]:
    for name, part in parts:
        for path, tensor in _tensors(part, depth - 1):
            yield ".".join(filter(None, (name, path))), tensor
