"""Places of the Python state that hold numbers which vary: attributes, globals, closure variables, items.

A place is a constant of what is recorded until its number is found changed and nothing else is. While a function is
recorded again, a varying number stands in the place itself; afterwards it holds what eager execution would have left.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...numpy_numbers import NUMBERS
from ..state.checks import Attribute, Bind, Cell, Check, Read
from ..state.values import MISSING, describe
from .numbers import Number
from .plain_parts import plain_items, plain_parts

#: Most places of one function that may vary.
MAX_PLACES = 1024

PlaceKey = tuple[int, Any]


@dataclass(eq=False)
class Place:
    """Where a number lies: ``check`` reads it; ``owner`` is the module whose attribute it is, if it is one.

    Also where something else lies that the code sets: of ``kind`` object, ``blind`` if the code does no more with it.
    The place of a number that indexes or bounds slices is ``sized``.
    """

    check: Read
    kind: type
    owner: Any = None
    blind: bool = False
    sized: bool = False

    @property
    def key(self) -> PlaceKey:
        """What makes two places the same."""
        return id(self.check.holder), self.check.key

    @property
    def name(self) -> str:
        """What users call it."""
        return self.check.name

    def read(self) -> Any:
        """What lies there."""
        return self.check.current()

    def put(self, value: Any) -> None:
        """Replace it, without running code of the user's; ``MISSING`` takes it away."""
        holder, key = self.check.holder, self.check.key
        if value is MISSING:
            self._take_away()
        elif isinstance(self.check, Cell):
            holder.cell_contents = value
        elif isinstance(self.check, Attribute):
            (type if isinstance(holder, type) else object).__setattr__(holder, key, value)
        elif isinstance(holder, dict):
            dict.__setitem__(holder, key, value)
        elif isinstance(holder, list):
            list.__setitem__(holder, key, value)
        else:
            deque.__setitem__(holder, key, value)

    def put_plain(self) -> bool:
        """Put a plain number in place of one that a recording knows more about, also in tuples; was there one?"""
        now = self.read()
        if isinstance(now, np.ndarray):
            plain_items(now)
        value = plain_parts(now)
        if value is not now:
            self.put(value)
        return value is not now

    def _take_away(self) -> None:
        holder, key = self.check.holder, self.check.key
        if self.read() is MISSING:
            return
        if isinstance(self.check, Cell):
            del holder.cell_contents
        elif isinstance(self.check, Attribute):
            (type if isinstance(holder, type) else object).__delattr__(holder, key)
        else:
            del holder[key]

    def store(self, value: Any) -> None:
        """Replace it for good, so that whoever watches the place hears of it."""
        if self.owner is None:
            self.put(value)
        elif value is not MISSING:
            setattr(self.owner, self.check.key, value)
        elif self.read() is not MISSING:
            delattr(self.owner, self.check.key)


def place_of(check: Read, now: Any) -> Place | None:
    """The place that ``check`` is about, if it held a number, holds another of the same type, and can be written."""
    kind = type(check.expected)
    if kind not in NUMBERS or type(now) is not kind:
        return None
    return Place(check, kind) if check.writable else None


class StillNumber(Check):
    """A place that varies still holds a number of its type."""

    __slots__ = ("place",)

    def __init__(self, place: Place) -> None:
        super().__init__(place.check.holder, place.name)
        self.place = place

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        return f"{bind(type)}({self.place.check.source(bind)}) is not {bind(self.place.kind)}"

    def difference(self) -> str | None:
        """What changed, or None."""
        now = self.place.read()
        if type(now) is self.place.kind:
            return None
        return f"{self.name} was {self.place.kind.__name__} and is {describe(now)}"


# --- while a function is recorded -----------------------------------------------------------------------------------


class _Turns:
    """Which threads record, and which of them has put something else in places that others can see."""

    def __init__(self) -> None:
        self.reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.reset)

    def reset(self) -> None:
        """Nobody records: the state of a new process."""
        self.lock = threading.Lock()
        self.recording: dict[int, int] = {}
        self.exclusive: int | None = None
        self.ended = 0  # exclusive turns

    @contextmanager
    def taken(self, exclusive: bool) -> Iterator[bool]:
        """A turn to record; False when it cannot be had because of another thread."""
        me = threading.get_ident()
        with self.lock:
            others = any(thread != me for thread in self.recording)
            free = self.exclusive in (None, me) and not (exclusive and others)
            if free:
                self.recording[me] = self.recording.get(me, 0) + 1
                before, self.exclusive = self.exclusive, me if exclusive else self.exclusive
        try:
            yield free
        finally:
            if free:
                with self.lock:
                    self.ended += self.exclusive is not before
                    self.exclusive = before
                    self.recording[me] -= 1
                    if not self.recording[me]:
                        del self.recording[me]


TURNS = _Turns()


@contextmanager
def patched(
    places: Mapping[Number, Place],
    make: Callable[[Number, Any], Any],
    stores: dict[Place, Any],
) -> Iterator[None]:
    """Varying numbers stand in ``places``; ``stores`` receives what the code put there instead, values and numbers."""
    standing: list[tuple[Place, Any, Any]] = []
    try:
        for number, place in places.items():
            value = place.read()
            new = make(number, value)
            place.put(new)
            standing.append((place, value, new))
        yield
    finally:
        for place, value, new in reversed(standing):
            now = place.read()
            if now is new:
                place.put(value)
                continue
            stores[place] = now
            place.put_plain()
