"""Columns of arrays put into lanes and back, where as many lie next to each other as a register has lanes.

An array is ``outer`` blocks of rows, each of ``inner`` columns; a tile is some columns of one block. Nothing has to be
turned round. Pairs of numbers are complex elements, whose parts lie next to each other, or two real rows that follow
one another.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir_text import FunctionText
from .batches import Batch

__all__ = ["Columns"]


class Columns:
    """Pairs of vectors from and to the columns of a tile, of which ``inner`` lie next to each other."""

    def __init__(self, batch: Batch, inner: str) -> None:
        self.batch, self.kind, self.f, self.inner = batch, batch.lanes.kind, batch.f, inner
        lanes = self.kind.lanes
        tiles = self.f.quotient_up(inner, lanes)
        tile = self.f.divided(batch.first, lanes)[0]
        self.block, number = self.f.divided(tile, tiles)
        self.column = self.f.product(number, lanes)
        self.left = self.f.difference(inner, self.column)

    def take(self, array: str, pairs: str, place: str, real: bool) -> None:
        """Read so many pairs of each column."""
        f, kind = self.f, self.kind
        masks = self._masks(real)
        with f.loop(0, pairs) as k:
            at = self._places(array, pairs, k, real)
            pair = [kind.masked_load(f, a, mask) for a, mask in zip(at, masks, strict=True)]
            if not real:
                a, b = pair
                evens = range(0, 2 * kind.lanes, 2)
                pair = [kind.shuffled(f, a, b, [lane + part for lane in evens]) for part in (0, 1)]
            for part, value in enumerate(pair):
                f.add(f"store {kind.vector} {value}, ptr {self._own(place, k, part)}")

    def give(self, place: str, pairs: str, array: str, real: bool) -> None:
        """Write them."""
        f, kind = self.f, self.kind
        masks, half = self._masks(real), kind.lanes // 2
        with f.loop(0, pairs) as k:
            pair = [
                f.make(f"load {kind.vector}, ptr {self._own(place, k, part)}") for part in (0, 1)
            ]
            if not real:
                woven = [lane // 2 + lane % 2 * kind.lanes for lane in range(kind.lanes)]
                a, b = pair
                pair = [kind.shuffled(f, a, b, [i + more for i in woven]) for more in (0, half)]
            at = self._places(array, pairs, k, real)
            for value, a, mask in zip(pair, at, masks, strict=True):
                kind.masked_store(f, value, a, mask)

    def _masks(self, real: bool) -> Sequence[str]:
        """Which lanes of both vectors hold something."""
        f, kind = self.f, self.kind
        if real:
            return [kind.first_mask(f, self.left)] * 2
        numbers = f.sum(self.left, self.left)
        more = f.most(f.difference(numbers, kind.lanes), 0)
        return [kind.first_mask(f, numbers), kind.first_mask(f, more)]

    def _places(self, array: str, pairs: str, k: str, real: bool) -> list[str]:
        """Where both vectors of pair k begin."""
        f, kind = self.f, self.kind
        row = f.sum(f.product(self.block, pairs), k)
        if real:
            start = f.sum(f.product(f.product(row, 2), self.inner), self.column)
            at = f.at(array, start, kind.scalar)
            return [at, f.at(at, self.inner, kind.scalar)]
        start = f.product(f.sum(f.product(row, self.inner), self.column), 2)
        at = f.at(array, start, kind.scalar)
        return [at, f.at(at, kind.lanes, kind.scalar)]

    def _own(self, place: str, k: str, part: int) -> str:
        f: FunctionText = self.f
        return f.at(place, f.sum(f.product(k, 2), part), self.kind.vector)
