"""Classes whose instances are nothing but what Python shows of them: attributes, and items of a list, tuple or dict."""

from __future__ import annotations

import abc
import collections.abc
import struct
import typing
from argparse import Namespace
from collections import OrderedDict, UserDict, UserList
from functools import lru_cache
from types import GetSetDescriptorType, MemberDescriptorType, SimpleNamespace
from typing import Any

from ..state import reads

#: What instances may owe their memory to.
_BASES: tuple[Any, ...] = (OrderedDict, dict, list, tuple, SimpleNamespace, object)
#: Other classes of the standard library whose instances have attributes only.
_PLAIN = {Namespace, UserDict, UserList, typing.Generic, typing.Protocol, abc.ABC} | {
    getattr(collections.abc, name) for name in collections.abc.__all__
}
#: The part of this package whose objects are like those of programs.
_LIKE_USERS = "tracejit.distributions."
_POINTER = struct.calcsize("P")


@lru_cache(maxsize=1024)
def is_transparent(kind: type) -> bool:
    """Can an instance of ``kind`` be made again from its items, slots and other attributes?

    >>> from types import SimpleNamespace
    >>> [is_transparent(kind) for kind in (SimpleNamespace, dict, Exception, type)]
    [True, False, False, False]
    """
    if kind in (*_BASES[:4], object) or hasattr(kind, "__del__"):
        return False
    known = all(c in _BASES or c in _PLAIN or _is_written_in_python(c) for c in kind.__mro__)
    return known and not _holds_more(kind)


def base_of(kind: type) -> Any:
    """The built-in class to which instances of ``kind`` owe their memory."""
    return next(base for base in _BASES if issubclass(kind, base))


def attributes_of(value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is in the slots of a transparent object, and its other attributes.

    >>> from types import SimpleNamespace
    >>> attributes_of(SimpleNamespace(a=1))
    ({}, {'a': 1})
    """
    slots = {}
    for cls in type(value).__mro__:
        members: dict[str, Any] = {} if cls in _BASES else dict(vars(cls))
        for name, member in members.items():
            if isinstance(member, MemberDescriptorType) and name not in slots:
                try:
                    slots[name] = member.__get__(value)
                except AttributeError:
                    continue
    own = getattr(value, "__dict__", None)
    return slots, dict(own) if isinstance(own, dict) else {}


def _is_written_in_python(cls: type) -> bool:
    """Is this a class of a program, or one of ours that is like those?"""
    if cls.__module__.startswith(_LIKE_USERS):
        return True
    return not reads.is_library_class(cls) and ("__slots__" in vars(cls) or _has_dict(cls))


def _has_dict(cls: type) -> bool:
    """Has some class of the order a ``__dict__`` as classes have that are written in Python?"""
    return any(isinstance(vars(c).get("__dict__"), GetSetDescriptorType) for c in cls.__mro__)


def _holds_more(kind: type) -> bool:
    """Have instances memory that is neither their base's nor slots nor attributes?"""
    members = [m for c in kind.__mro__ if c not in _BASES for m in vars(c).values()]
    slots = sum(isinstance(m, MemberDescriptorType) for m in members)
    pointers = slots + (kind.__dictoffset__ != 0) + (kind.__weakrefoffset__ != 0)
    return bool(kind.__basicsize__ > base_of(kind).__basicsize__ + _POINTER * pointers)
