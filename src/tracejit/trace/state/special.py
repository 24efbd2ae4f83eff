"""Facts about objects that keep state in ways of their own: context variables, thread-local objects, caches, weak
references, registers of abstract classes, and containers too long for one comparison per item."""

from __future__ import annotations

import abc
import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import is_
from types import (
    BuiltinFunctionType,
    CoroutineType,
    FrameType,
    FunctionType,
    MappingProxyType,
    TracebackType,
)
from typing import Any

from ...varying import plain
from .checks import Bind, Check, Item, Read
from .purity import words
from .reads import Names, is_library_class
from .values import MISSING, describe, same, token, was_and_is

CACHES = type(lru_cache(len))
#: Modules whose classes, where written in C, have instances that do not change or are looked into elsewhere.
_CONSTANT = words(
    """
    _abc _collections _datetime _functools _operator _sre _struct _thread array collections datetime decimal
    functools ml_dtypes numpy operator re types typing zoneinfo
    """
)


#: Modules that are imported when they are needed, and that programs do not look for unless they name them.
_UNASKED = sys.stdlib_module_names | {"llvmlite", "numba", "tracejit"}
_NAMED = (type, BuiltinFunctionType)
_CHANGING = (memoryview, FrameType, TracebackType, CoroutineType)


class ContextValue(Read):
    """The value of a context variable in the current context."""

    __slots__ = ()

    def source(self, bind: Bind) -> str:
        """The expression that reads."""
        return f"{bind(self.holder.get)}({bind(MISSING)})"

    def current(self) -> Any:
        """What reading gives now."""
        return self.holder.get(MISSING)


@dataclass(eq=False, slots=True)
class ThreadNames(Check):
    """The attributes of a thread-local object that the code reads are, in the calling thread, as they were."""

    names: Names
    values: dict[str, Any]

    @classmethod
    def of(cls, holder: Any, name: str, names: Names) -> ThreadNames:
        """The check of what ``holder`` has now."""
        return cls(holder, name, names, _own(holder))

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        return f"{bind(self.difference)}() is not None"

    def difference(self) -> str | None:
        """What changed, or None."""
        now = _own(self.holder)
        for key in (*self.values, *now):
            old, new = self.values.get(key, MISSING), now.get(key, MISSING)
            if key in self.names and not same(old, new):
                return f"attribute {key!r} of {self.name} {was_and_is(old, new)}"
        return None


def _own(holder: Any) -> dict[str, Any]:
    """The attributes of a thread-local object in this thread."""
    return dict(threading.local.__getattribute__(holder, "__dict__"))


class Registered(Check):
    """No class was registered with an abstract one."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        super().__init__(abc, "abstract classes")
        self.seen = abc.get_cache_token()

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        return f"{bind(abc.get_cache_token)}() != {bind(self.seen)}"

    def difference(self) -> str | None:
        """What changed, or None."""
        now = abc.get_cache_token()
        return None if now == self.seen else "a class was registered with an abstract one"


class Derived(Check):
    """The classes that are derived from a class, which they may outlive."""

    __slots__ = ("seen",)

    def __init__(self, cls: type) -> None:
        super().__init__(cls, f"the classes derived from {cls.__qualname__}")
        derived: list[type] = type.__subclasses__(cls)
        self.seen = [weakref.ref(found) for found in derived]

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        return f"{bind(self.difference)}() is not None"

    def difference(self) -> str | None:
        """What changed, or None."""
        now, before = type.__subclasses__(self.holder), [found() for found in self.seen]
        alike = len(now) == len(before) and all(map(is_, now, before))
        return None if alike else f"{self.name} are others"


class Imported(Check):
    """The modules that are loaded, by their names; those that no function asks for may come in addition."""

    __slots__ = ("names", "seen")

    def __init__(self, names: Names) -> None:
        super().__init__(sys.modules, "sys.modules")
        self.names = names
        self.seen = [tuple(sys.modules)]

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        listed = f"{bind(tuple)}({bind(self.holder)}) != {bind(self.seen)}[0]"
        return f"{listed} and {bind(self.difference)}() is not None"

    def difference(self) -> str | None:
        """What changed, or None."""
        now, before = tuple(self.holder), self.seen[0]
        roots = {name: name.partition(".")[0] for name in {*now} ^ {*before}}
        for name, root in roots.items():
            if (
                name in before
                or root not in _UNASKED
                or not self.names.names.isdisjoint((name, root))
            ):
                return f"module {name!r} was {'removed' if name in before else 'imported'}"
        self.seen[0] = now
        return None


class Environment(Check):
    """The variables of the environment, as this process sees them."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        super().__init__(os.environ._data, "the environment")  # type: ignore[attr-defined]
        self.seen = dict(self.holder)

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        return f"{bind(self.holder)} != {bind(self.seen)}"

    def difference(self) -> str | None:
        """What changed, or None."""
        for key in (*self.seen, *self.holder):
            if self.seen.get(key) != self.holder.get(key):
                return f"the variable {key!r} of the environment changed"
        return None


class DecimalContext(Check):
    """The context in which decimal numbers are computed, in the calling thread, is as it was."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        super().__init__(sys.modules["decimal"], "the context of decimal numbers")
        self.seen = self._now()

    @staticmethod
    def matters(reached: Iterable[Any]) -> bool:
        """Does something that code has reached belong to ``decimal``?"""
        loaded = sys.modules.get("decimal")
        return loaded is not None and any(
            x is loaded
            or getattr(x if isinstance(x, _NAMED) else type(x), "__module__", "") == "decimal"
            for x in reached
        )

    def _now(self) -> str:
        return repr(self.holder.getcontext())

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        return f"{bind(repr)}({bind(self.holder.getcontext)}()) != {bind(self.seen)}"

    def difference(self) -> str | None:
        """What changed, or None."""
        return None if self._now() == self.seen else f"{self.name} changed"


@dataclass(eq=False, slots=True)
class Bulk(Check):
    """A long container has the same items in the same order; ``iterate`` lists them without its class's help.

    Where each has a place of its own, ``kind`` reads one, by its key among ``keys``; ``inside`` is what the container
    is called.
    """

    iterate: Callable[[Any], Any]
    items: tuple[Any, ...]
    kind: type[Item] | None = None
    keys: Sequence[Any] = ()
    inside: str = ""

    @classmethod
    def of(
        cls,
        holder: Any,
        name: str,
        iterate: Callable[[Any], Any],
        kind: type[Item] | None = None,
        keys: Sequence[Any] = (),
        inside: str = "",
    ) -> Bulk:
        """The check of the items there are now."""
        return cls(holder, name, iterate, tuple(iterate(holder)), kind, keys, inside)

    def moved(self) -> list[Read] | None:
        """Reads of the items that are others now."""
        now = tuple(self.iterate(self.holder))
        if len(now) != len(self.items):
            return None
        pairs = enumerate(zip(self.items, now, strict=True))
        changed = [i for i, (old, new) in pairs if old is not new and not same(old, new)]
        if self.kind is None:
            return None if changed else []
        reads = ((self.keys[i], self.items[i]) for i in changed)
        return [
            self.kind(self.holder, f"item {key!r} of {self.inside}", key, x) for key, x in reads
        ]

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        return f"{bind(self.difference)}() is not None"

    def difference(self) -> str | None:
        """What changed, or None."""
        now = tuple(self.iterate(self.holder))
        if len(now) == len(self.items) and all(map(is_, now, self.items)):
            return None
        if len(now) != len(self.items):
            return f"the length of {self.name} {was_and_is(len(self.items), len(now))}"
        for position, (old, new) in enumerate(zip(self.items, now, strict=True)):
            if not same(old, new):
                return f"item {position} of {self.name} {was_and_is(old, new)}"
        return None


@dataclass(eq=False, slots=True)
class Proxied(Check):
    """What a read-only view of a dict shows."""

    items: dict[Any, Any]

    @classmethod
    def of(cls, holder: Any, name: str) -> Proxied:
        """The check of what is shown now."""
        return cls(holder, name, dict(holder))

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        return f"{bind(self.difference)}() is not None"

    def difference(self) -> str | None:
        """What changed, or None."""
        now = dict(self.holder)
        if [token(k) for k in now] != [token(k) for k in self.items]:
            return f"the keys of {self.name} changed"
        for key, old in self.items.items():
            if not same(now[key], old):
                return f"item {describe(key)} of {self.name} {was_and_is(old, now[key])}"
        return None


def is_opaque(value: Any) -> bool:
    """Does an object keep state that can be neither compared nor read: an iterator, a file, an object written in C?"""
    if isinstance(value, weakref.ref):  # looking at what it leads to would keep that alive
        return value() is not None
    cls = type(value)
    if not isinstance(getattr(cls, "__next__", is_opaque), FunctionType):
        return True
    if any("__slots__" in vars(c) or "__dict__" in vars(c) for c in cls.__mro__):
        return False
    root = cls.__module__.partition(".")[0]
    return root not in _CONSTANT if root not in ("builtins", "tracejit") else cls in _CHANGING


def settings_of_log(value: Any, name: str) -> list[Item] | None:
    """The settings of a logger, or none of what belongs to loggers; None for other objects.

    What they write is not followed: it is nothing that code reads. Handlers and filters of classes of the user's may
    keep it, and are objects like any others.
    """
    logging = sys.modules.get("logging")
    if logging is None or not isinstance(value, (logging.Filterer, logging.Manager)):
        return None
    if not isinstance(value, (logging.Logger, logging.Manager)) and not is_library_class(
        type(value)
    ):
        return None
    own = vars(value)
    return [
        Item(own, f"attribute {key!r} of {name}", key, own[key])
        for key in ("disabled", "level", "name", "propagate")
        if isinstance(own.get(key), (bool, int, str))
    ]


class FullCache(Check):
    """A cache that has no room left has the same results, for the same arguments, used in the same order.

    The order decides what goes next. A call that finds what it asks for in a cache as another call of its kind has left
    it leaves it as it was, so nothing is lost where compiled code does not ask.
    """

    __slots__ = ("kept",)

    def __init__(self, cache: Any, name: str) -> None:
        super().__init__(cache, name)
        self.kept = _links(cache)[1]

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        return f"{bind(self.difference)}() is not None"

    def difference(self) -> str | None:
        """What changed, or None."""
        now = _links(self.holder)[1]
        if len(now) == len(self.kept) and all(map(same, map(plain, self.kept), map(plain, now))):
            return None
        return f"the results that {self.name} keeps changed, or their order"


def kept_by(cache: Any) -> list[Any]:
    """The dict in which a function with a cache keeps its results, and the results themselves.

    Where their number is bounded, the dict's values are links that nothing in Python looks into. While there is room
    the same link means the same result; after that links are used again.
    """
    held, kept = _links(cache)
    return [] if held is None else [held, *(x for x in kept if not isinstance(x, type))]


def _links(cache: Any) -> tuple[dict[Any, Any] | None, list[Any]]:
    """The dict of a cache, and what its links refer to, in the order in which they were used."""
    found = gc.get_referents(cache)
    for position, (held, following) in enumerate(pairwise(found)):
        if type(held) is dict and following is cache.__wrapped__:
            return held, found[:position]
    return None, []


def _is_full(cache: Any) -> bool:
    """Does this cache drop a result for every new one?"""
    _, _, most, size = cache.cache_info()
    return most is not None and 0 < most <= size


def special(value: Any, name: str, names: Names) -> tuple[Check | None, list[Any]] | None:
    """The check for an object of these kinds and what it leads to; None for any other object."""
    if isinstance(value, ContextVar):
        found = value.get(MISSING)
        return ContextValue(value, name, None, found), [found]
    if isinstance(value, CACHES):
        full = FullCache(value, name) if _is_full(value) else None
        return full, [value.__wrapped__, *kept_by(value)]
    if isinstance(value, threading.local):
        return ThreadNames.of(value, name, names), list(_own(value).values())
    if isinstance(value, MappingProxyType):
        return Proxied.of(value, name), list(value.values())
    return None
