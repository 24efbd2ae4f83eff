"""Containers in the walk: lists, dicts, sets, tuples and buffers, with their items, within bounds."""

from __future__ import annotations

import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .checks import Contents, Element, Entry, Item, Keys, Members, Size
from .lists import ItemOf
from .optimizers import WHOLE, is_group
from .special import Bulk
from .values import buffer_contents, items_of

if TYPE_CHECKING:
    from .reach import Walk

#: Containers with more items are compared as a whole.
MAX_ITEMS = 24
#: Containers with more items, and buffers with more bytes, are not compared.
MAX_BULK = 4096
MAX_BYTES = 65536

_PLAIN_DICTS = (dict, OrderedDict, defaultdict, Counter)


class ContainerWalk:
    """Checks items without running code of a container's class."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self._groups: list[tuple[Any, str, int]] = []
        #: Containers of which single items are told apart: the function fills them, or numbers there vary.
        self._apart = {number for number, _ in (*walk.held, *walk.varying)}

    def scan(self) -> None:
        """Of the parameter groups of optimizers: the items whose keys are in the code reached by now."""
        names = self.walk.names
        whole = names.everything or not WHOLE.isdisjoint(names.names)
        for mapping, name, depth in self._groups:
            for key in [k for k in dict.keys(mapping) if whole or k in names.names]:
                item = Entry(mapping, f"item {key!r} of {name}", key, dict.get(mapping, key))
                self._item(item, key, depth)

    def enter(self, value: Any, name: str, depth: int) -> None:
        """Check what ``value`` holds, and go on at its items; other objects than containers are passed over."""
        if isinstance(value, (np.ndarray, bytearray, array.array)):
            self._buffer(value, name)
        elif isinstance(value, dict):
            self._dict(value, name, depth)
        elif isinstance(value, slice):
            self._items((value.start, value.stop, value.step), name, depth)
        elif isinstance(value, (tuple, frozenset)):
            self._items((*items_of(value),), name, depth)
        elif isinstance(value, (list, deque)):
            self._list(value, name, depth)
        elif isinstance(value, set) and self._items((*items_of(value),), name, depth):
            self.walk.add(Members(value, name, (*items_of(value),)))

    def _items(self, items: tuple[Any, ...], name: str, depth: int) -> bool:
        """Go on at every item; False when they are too many."""
        if len(items) > MAX_BULK:
            self.walk.limits[f"not every item of {name} is guarded: more than {MAX_BULK}"] = None
            return False
        for position, item in enumerate(items):
            self.walk.reach(item, f"item {position} of {name}", depth + 1)
        return True

    def _whole(self, check: Bulk, depth: int) -> None:
        """Compare many items by one check."""
        if self._items(check.items, check.name, depth):
            self.walk.add(check, check.name)

    def _item(self, check: Item, key: Any, depth: int, found: ItemOf | None = None) -> None:
        if self.walk.add(check, key):
            self.walk.reach(check.expected, check.name, depth + 1, found)

    def _list(self, value: Any, name: str, depth: int) -> None:
        plain = type(value) in (list, deque)
        base: Any = deque if isinstance(value, deque) else list
        measure: Callable[[Any], int] = len if plain else base.__len__
        if measure(value) > MAX_ITEMS and id(value) not in self._apart:
            places = (Item if plain else Element), range(measure(value)), name
            self._whole(Bulk.of(value, name, iter if plain else base.__iter__, *places), depth)
            return
        self.walk.add(Size(value, name, measure, measure(value)))
        for position, item in enumerate([*items_of(value)]):
            check = (Item if plain else Element)(
                value, f"item {position} of {name}", position, item
            )
            self._item(check, position, depth)

    def _dict(self, value: Any, name: str, depth: int) -> None:
        plain = type(value) in _PLAIN_DICTS
        if is_group(value):
            self.walk.add(Size(value, name, dict.__len__, dict.__len__(value)))
            self._groups.append((value, name, depth))
            if (
                not value.plain
            ):  # else a number there varies like any other that the user's code counts
                self.walk.tools.add(id(value))
            return
        iterate: Any = iter if plain else dict.__iter__
        keys = list(iterate(value))
        if len(keys) > MAX_ITEMS and id(value) not in self._apart:
            places = (Item if plain else Entry), keys, name
            self._whole(Bulk.of(value, f"the keys of {name}", iterate), depth)
            self._whole(Bulk.of(value, f"the values of {name}", dict.values, *places), depth)
            return
        self.walk.add(Keys(value, name, iterate, keys))
        for position, key in enumerate(keys):
            self.walk.reach(key, f"key {position} of {name}", depth + 1)
            label = (
                f"item {key!r} of {name}"
                if isinstance(key, (str, int))
                else f"item {position} of {name}"
            )
            check = (Item if plain else Entry)(value, label, key, dict.get(value, key))
            found = ItemOf(id(value), key) if plain and isinstance(key, str) else None
            self._item(check, position, depth, found)

    def _buffer(self, value: Any, name: str) -> None:
        size = memoryview(value).nbytes if not isinstance(value, np.ndarray) else value.nbytes
        if size > MAX_BYTES or (isinstance(value, np.ndarray) and value.dtype.hasobject):
            self.walk.limits[
                f"the values of {name} are not guarded: more than {MAX_BYTES} bytes"
            ] = None
        else:
            self.walk.add(Contents(value, name, buffer_contents(value)))
