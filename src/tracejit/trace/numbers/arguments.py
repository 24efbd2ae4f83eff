"""Putting numbers that vary in the place of the numbers among the arguments of a call, and out of its results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cache, partial
from itertools import count
from operator import is_
from typing import Any

import numpy as np

from ...extents import Extent, hint
from ...numpy_numbers import NUMBERS
from ...standing import stands
from ...tensor import Tensor
from ...varying import is_varying, plain
from ..arrays.unread import ArgumentPart
from ..recording.transparent import attributes_of, is_transparent
from ..signature import MAPPINGS, fields_of, is_named_tuple
from .plain_parts import plain_items, plain_keys, plain_parts, remade

Change = Callable[[], None]


@contextmanager
def standing_in(args: Any, kwargs: Any, replace: Callable[[Any], Any]) -> Iterator[tuple[Any, Any]]:
    """Arguments in which ``replace`` was applied to every number; the caller's own objects are as before afterwards."""
    changes: list[Change] = []
    try:
        new_args = tuple([put_in(x, replace, changes) for x in args])
        yield new_args, {key: put_in(x, replace, changes) for key, x in kwargs.items()}
    finally:
        for undo in reversed(changes):
            undo()


def put_in(value: Any, replace: Callable[[Any], Any], changes: list[Change]) -> Any:
    """``value`` with its numbers replaced, in the order in which signatures list them.

    ``changes`` receives what puts them back into lists, dicts and objects.

    >>> pair, changes = (1, [2]), []
    >>> put_in(pair, float, changes), pair
    ((1.0, [2.0]), (1, [2.0]))
    >>> changes[0](), pair
    (None, (1, [2]))
    """
    kind = type(value)
    if isinstance(value, Tensor):
        return value
    if kind in NUMBERS or is_varying(value) or kind is Extent:  # of something that comes twice
        return replace(value)
    if kind is ArgumentPart:
        return _put_in_part(value, replace, changes)
    if kind is tuple:
        return tuple([put_in(x, replace, changes) for x in value])
    if isinstance(value, tuple) and is_named_tuple(value):
        return kind(*[put_in(x, replace, changes) for x in value])
    if kind is list:
        for i, x in enumerate(value):
            _put(value.__getitem__, value.__setitem__, i, put_in(x, replace, changes), changes)
    elif kind in MAPPINGS:
        for key, x in value.items():
            _put(value.get, value.__setitem__, key, put_in(x, replace, changes), changes)
    else:
        for name in fields_of(value) or ():
            new = put_in(getattr(value, name), replace, changes)
            _put(_getter(value), _setter(value), name, new, changes)
    return value


def _put_in_part(
    value: ArgumentPart, replace: Callable[[Any], Any], changes: list[Change]
) -> ArgumentPart:
    """The same in what is given, but for what is not shown."""
    given, shown = value.given, value.shown
    if shown is None:
        return value
    if type(given) is tuple:
        pairs = zip(given, shown, strict=True)
        new = tuple([put_in(x, replace, changes) if x is y else x for x, y in pairs])
        return ArgumentPart(new, shown)
    for key, x in [*(given.items() if type(given) is dict else enumerate(given))]:
        if shown[key] is x:
            new = put_in(x, replace, changes)
            _put(given.__getitem__, given.__setitem__, key, new, changes)
    return value


def _put(
    get: Callable[..., Any], put: Callable[..., Any], key: Any, new: Any, changes: list[Change]
) -> None:
    old = get(key)
    if old is new:
        return
    put(key, new)

    def undo() -> None:
        try:
            now = get(key)
        except (LookupError, AttributeError):
            return
        if now is new:
            put(key, old)
        elif is_varying(now):
            put(key, plain(now))

    changes.append(undo)


def put_number(args: Any, kwargs: Any, position: int, value: Any) -> None:
    """Put ``value`` for the number at ``position`` among the arguments, as signatures count them, in its container.

    >>> state = {"step": 1, "rate": 0.5}
    >>> put_number((state,), {}, 0, 2)
    >>> state
    {'step': 2, 'rate': 0.5}
    """
    positions = count()
    for part in (*args, *kwargs.values()):
        put_in(part, lambda old: value if next(positions) == position else old, [])


def _getter(value: Any) -> Callable[[str], Any]:
    return lambda name: getattr(value, name)


def _setter(value: Any) -> Callable[[str, Any], None]:
    return lambda name, new: object.__setattr__(value, name, new)


def without_varying(result: Any, outside: Callable[[], Collection[int]]) -> Any:
    """A result with values for the numbers and sizes of a recording in it; what can be changed stays the same object.

    ``outside`` tells the identities of objects that were there before the call, which are handed out as they are.
    """
    return _Values(outside).of(result)


class _Values:
    """Goes through a result once, and puts values where numbers and sizes stand."""

    def __init__(self, outside: Callable[[], Collection[int]]) -> None:
        self.outside = cache(outside)
        self.seen: dict[int, tuple[Any, Any]] = {}  # by identity: what it was, and is from now on

    def of(self, value: Any) -> Any:
        """What stands for ``value`` from now on."""
        if stands(value) or type(value) is Extent:
            return hint(plain(value))
        if isinstance(value, Tensor):
            return value
        if id(value) in self.seen:
            return self.seen[id(value)][1]
        self.seen[id(value)] = value, value
        if isinstance(value, (tuple, slice)):
            self.seen[id(value)] = value, self.remade(value)
        elif type(value) is frozenset:
            self.seen[id(value)] = value, plain_parts(value)
        else:
            self.replace_in(value)
        return self.seen[id(value)][1]

    def remade(self, value: Any) -> Any:
        """A tuple or a slice with values for its parts."""
        if isinstance(value, slice):
            before: tuple[Any, ...] = value.start, value.stop, value.step
            parts = tuple(map(self.of, before))
            return value if all(map(is_, parts, before)) else slice(*parts)
        parts = tuple(map(self.of, tuple.__iter__(value)))
        own = getattr(value, "__dict__", {})
        new = {name: self.of(x) for name, x in own.items()}
        if all(map(is_, parts, tuple.__iter__(value))) and all(
            map(is_, new.values(), own.values())
        ):
            return value
        made = remade(type(value), parts)
        if new:
            vars(made).update(new)
        return made

    def replace_in(self, value: Any) -> None:
        """Put values in what can be changed."""
        if isinstance(value, list):
            for i, x in enumerate(list.__iter__(value)):
                self.put(x, partial(list.__setitem__, value, i))
        elif isinstance(value, dict):
            for key, x in list(dict.items(value)):
                self.put(x, partial(dict.__setitem__, value, key))
            plain_keys(value)
        elif isinstance(value, np.ndarray):
            plain_items(value)
        kind: type = type(value)
        if kind is list or kind in MAPPINGS:
            return
        if is_transparent(kind) and id(value) not in self.outside():
            slots, attributes = attributes_of(value)
            for name, x in slots.items():
                self.put(x, partial(object.__setattr__, value, name))
            for name, x in attributes.items():
                self.put(x, partial(vars(value).__setitem__, name))
        else:
            for name in fields_of(value) or ():
                self.put(getattr(value, name), partial(object.__setattr__, value, name))

    def put(self, value: Any, store: Callable[[Any], None]) -> None:
        """Store what stands for ``value`` where that is something else."""
        new = self.of(value)
        if new is not value:
            store(new)
