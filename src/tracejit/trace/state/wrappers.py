"""Objects that the walk over the Python state goes through: plain values, and what stands for functions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial, partialmethod, singledispatchmethod
from types import BuiltinFunctionType, CodeType, MethodType
from typing import Any

import numpy as np

from .reads import is_library_class

_LEAVES = (str, bytes, int, float, complex, np.generic)
_PLAIN = frozenset({str, bytes, int, float, complex, bool, type(None), CodeType})

#: Descriptors, partial objects, bound methods.
WRAPPERS = (
    property,
    staticmethod,
    classmethod,
    partial,
    partialmethod,
    singledispatchmethod,
    MethodType,
)
#: Where these keep the function they stand for.
_INSIDE = (
    "fget",
    "fset",
    "fdel",
    "func",
    "__func__",
    "__self__",
    "__wrapped__",
    "args",
    "keywords",
    "dispatcher",
)


def is_leaf(value: Any) -> bool:
    """Is there nothing behind this: a number, text, code?

    >>> Name = type("Name", (str,), {"__module__": "program"})
    >>> is_leaf("a"), is_leaf(Name("a")), is_leaf([])
    (True, False, False)
    """
    kind = type(value)
    return kind in _PLAIN or (isinstance(value, _LEAVES) and is_library_class(kind))


def inside(wrapper: Any) -> Iterator[tuple[str, Any]]:
    """The functions and arguments that a descriptor, partial object or wrapper stands for, by name.

    >>> dict(inside(partial(abs, -1)))
    {'func': <built-in function abs>, 'args': (-1,), 'keywords': {}}
    """
    for key in _INSIDE:
        found = getattr(wrapper, key, None)
        if found is not None:
            yield key, found


def attributes_of(value: Any) -> Any:
    """The attribute dict of an object, without asking the object; None if it has none.

    >>> attributes_of(ValueError()), attributes_of(1)
    ({}, None)
    """
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


def calls_builtin(wrapper: Any) -> bool:
    """Does a function with some arguments stand for one that is written in C?

    >>> calls_builtin(partial(abs, -1)), calls_builtin(partial(lambda: 0))
    (True, False)
    """
    return type(wrapper) is partial and isinstance(wrapper.func, BuiltinFunctionType)
