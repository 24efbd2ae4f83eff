"""Which of many tensors may share memory with one: the ends of their memory, in order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from ...cuda.arrays import byte_bounds
from ...tensor_core import REPLACED


class Regions:
    """The memory of tensors that are known by keys; no reference to a tensor is kept.

    Looking through a list of tensors for each of them takes seconds where a model has some thousand. Most lie apart:
    then what shares memory with one stands beside its place among their first addresses.
    """

    def __init__(self) -> None:
        self.keys: list[int] = []
        self.known, self.made_at = 0, REPLACED[0]
        #: Of the parts of memory, in the order of their first addresses: these, the ends, and the keys.
        self.firsts: list[int] = []
        self.ends: list[int] = []
        self.of: list[int] = []
        #: The furthest end of a part and of all those before it.
        self.furthest: list[int] = []

    def add(self, key: int) -> None:
        """One tensor more; what memory it has is looked at when that is asked for."""
        self.keys.append(key)

    def sharing(self, tensor: Any, tensor_of: Callable[[int], Any]) -> list[int]:
        """The keys of tensors that may share memory with ``tensor``, its own among them if it has one.

        ``tensor_of`` gives the tensor of a key.
        """
        low, high = byte_bounds(tensor.array)
        if low == high:
            return []
        if self.made_at != REPLACED[0]:  # some tensor has other memory now
            self.known, self.made_at = 0, REPLACED[0]
            for column in (self.firsts, self.ends, self.of, self.furthest):
                column.clear()
        self._measure(tensor_of)
        found = []
        at = bisect_left(self.firsts, high) - 1
        while at >= 0 and self.furthest[at] > low:
            if self.ends[at] > low:
                found.append(self.of[at])
            at -= 1
        return found

    def _measure(self, tensor_of: Callable[[int], Any]) -> None:
        """Where tensors lie that were not looked at yet."""
        for key in self.keys[self.known :]:
            low, high = byte_bounds(tensor_of(key).array)
            if low != high:  # nothing is nowhere
                self._insert(low, high, key)
        self.known = len(self.keys)

    def _insert(self, low: int, high: int, key: int) -> None:
        at = bisect_left(self.firsts, low)
        self.firsts.insert(at, low)
        self.ends.insert(at, high)
        self.of.insert(at, key)
        furthest = self.furthest
        furthest.insert(at, max(high, furthest[at - 1]) if at else high)
        for later in range(at + 1, len(furthest)):
            if furthest[later] >= high:
                break
            furthest[later] = high
