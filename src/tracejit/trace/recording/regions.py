"""Which of many tensors may share memory with one: the ends of their memory, compared all at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...cuda.arrays import byte_bounds
from ...tensor_core import REPLACED


class Regions:
    """The memory of tensors that are known by keys; no reference to a tensor is kept.

    Looking through a list of tensors for each of them takes seconds where a model has some thousand.
    """

    def __init__(self) -> None:
        self.keys: list[int] = []
        self.known, self.made_at = 0, REPLACED[0]
        self.ends = np.zeros((2, 64), np.int64)

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
        self._measure(tensor_of)
        first, last = self.ends[:, : self.known]
        found = ((first < high) & (last > low)).nonzero()[0]
        return [self.keys[i] for i in found.tolist()]

    def _measure(self, tensor_of: Callable[[int], Any]) -> None:
        """Where tensors lie that were not looked at yet."""
        count = len(self.keys)
        if count > self.ends.shape[1]:
            ends = np.zeros((2, 2 * count), np.int64)
            ends[:, : self.known] = self.ends[:, : self.known]
            self.ends = ends
        for number in range(self.known, count):
            low, high = byte_bounds(tensor_of(self.keys[number]).array)
            self.ends[:, number] = (low, high) if low != high else (0, 0)  # nothing is nowhere
        self.known = count
