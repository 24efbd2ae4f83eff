"""Containers in the walk: lists, dicts, sets, tuples and buffers, with their items, within bounds."""

from __future__ import annotations

import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .state_checks import Contents, Element, Entry, Item, Keys, Members, Size
from .state_values import buffer_contents

if TYPE_CHECKING:
    from .state_reach import Walk

#: Containers with more items are guarded by identity, length and the items whose keys occur in the code.
MAX_ITEMS = 64
#: Buffers with more bytes are guarded by identity only.
MAX_BYTES = 1024

_PLAIN_DICTS = (dict, OrderedDict, defaultdict, Counter)


class ContainerWalk:
    """Checks items without running code of a container's class."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self._big_dicts: list[tuple[Any, str, int]] = []

    def scan(self) -> None:
        """In dicts too large to check as a whole: the items whose keys are in the code reached by now."""
        for mapping, name, depth in self._big_dicts:
            for key in [k for k in dict.keys(mapping) if k in self.walk.names.names]:
                item = Entry(mapping, f"item {key!r} of {name}", key, dict.get(mapping, key))
                self._item(item, key, depth)

    def enter(self, value: Any, name: str, depth: int) -> None:
        """Check what ``value`` holds, and go on at its items; other objects than containers are passed over."""
        if isinstance(value, (np.ndarray, bytearray, array.array)):
            self._buffer(value, name)
        elif isinstance(value, dict):
            self._dict(value, name, depth)
        elif isinstance(value, (tuple, frozenset)):
            for position, item in enumerate(tuple(value)[:MAX_ITEMS]):
                self.walk.reach(item, f"item {position} of {name}", depth + 1)
            self._bounded(value, name)
        elif isinstance(value, (list, deque)):
            self._list(value, name, depth)
        elif isinstance(value, set):
            if self._bounded(value, name):
                self.walk.add(Members(value, name, tuple(value)))
            else:
                self.walk.add(Size(value, name, len, len(value)))
            for item in tuple(value)[:MAX_ITEMS]:
                self.walk.reach(item, f"a member of {name}", depth + 1)

    def _bounded(self, value: Any, name: str, measure: Callable[[Any], int] = len) -> bool:
        if measure(value) <= MAX_ITEMS:
            return True
        self.walk.limits[f"not every item of {name} is guarded: more than {MAX_ITEMS}"] = None
        return False

    def _item(self, check: Item, key: Any, depth: int) -> None:
        if self.walk.add(check, key):
            self.walk.reach(check.expected, check.name, depth + 1)

    def _list(self, value: Any, name: str, depth: int) -> None:
        plain = type(value) is list or isinstance(value, deque)
        measure: Callable[[Any], int] = len if plain else list.__len__
        self.walk.add(Size(value, name, measure, measure(value)))
        items = list(value) if plain else list.copy(value)
        for position, item in enumerate(items[:MAX_ITEMS]):
            check = (Item if plain else Element)(
                value, f"item {position} of {name}", position, item
            )
            self._item(check, position, depth)
        self._bounded(value, name, measure)

    def _dict(self, value: Any, name: str, depth: int) -> None:
        plain = type(value) in _PLAIN_DICTS
        if not self._bounded(value, name, dict.__len__):
            self.walk.add(Size(value, name, dict.__len__, dict.__len__(value)))
            self._big_dicts.append((value, name, depth))
            return
        iterate: Any = iter if plain else dict.__iter__
        keys = list(iterate(value))
        self.walk.add(Keys(value, name, iterate, keys))
        for position, key in enumerate(keys):
            label = (
                f"item {key!r} of {name}"
                if isinstance(key, (str, int))
                else f"item {position} of {name}"
            )
            check = (Item if plain else Entry)(value, label, key, dict.get(value, key))
            self._item(check, position, depth)

    def _buffer(self, value: Any, name: str) -> None:
        size = value.nbytes if isinstance(value, np.ndarray) else len(value)
        if size > MAX_BYTES or (isinstance(value, np.ndarray) and value.dtype.hasobject):
            self.walk.limits[
                f"the values of {name} are not guarded: more than {MAX_BYTES} bytes"
            ] = None
        else:
            self.walk.add(Contents(value, name, buffer_contents(value)))
