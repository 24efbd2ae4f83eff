"""Placing temporaries in one block, with reuse."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...extents import Extent, Extents, hint, is_symbolic
from ..threads import planned_workers

ALIGN = 64


def aligned(nbytes: int) -> int:
    """``nbytes`` rounded up to whole cache lines."""
    return -(-nbytes // ALIGN) * ALIGN if nbytes > 0 else ALIGN


class Arena:
    """First-fit placement of temporaries in one block, with reuse after their last reader.

    With symbolic sizes the offsets are symbolic too: what was taken and given back is placed anew for other sizes.
    """

    def __init__(self) -> None:
        #: How many workers have a part where each needs its own; steps with such parts take no more than these.
        self.workers = planned_workers()
        self.events: list[int] = []  # the number of a block taken, or ~number of one given back
        self.sizes: list[int] = []
        self.offsets: list[int] = []
        self.owners: dict[Any, int] = {}
        self._placed = _Placement()
        self._scope: Extents | None = None

    def take(self, nbytes: int, owner: Any) -> int:
        """Offset of ``nbytes`` that no living owner uses."""
        number = len(self.sizes)
        size = aligned(nbytes)
        offset = self._placed.take(number, hint(size))
        if is_symbolic(size):
            self._scope = size.scope  # type: ignore[attr-defined]
        self.events.append(number)
        self.sizes.append(size)
        self.offsets.append(offset if self._scope is None else self._scope.reserve(offset))  # type: ignore[arg-type]
        self.owners[owner] = number
        return self.offsets[-1]

    def give(self, owner: Any) -> None:
        """The owner's memory may be reused from the next step on."""
        number = self.owners.pop(owner, None)
        if number is not None:
            self._placed.give(number)
            self.events.append(~number)

    def finish(self) -> int:
        """Size of the block."""
        if self._scope is None:
            return self._placed.high
        high = self._scope.reserve(self._placed.high)
        symbolic = tuple([i for i, offset in enumerate(self.offsets) if is_symbolic(offset)])
        results: list[Extent] = [*(self.offsets[i] for i in symbolic), high]  # type: ignore[list-item]
        self._scope.compute(results, PlacedAgain(tuple(self.events), symbolic), *self.sizes)
        return high  # type: ignore[return-value]


@dataclass(frozen=True)
class PlacedAgain:
    """Places blocks of other sizes as ``events`` says: the offsets of those ``wanted``, and the size of all.

    >>> PlacedAgain((0, 1, ~0, 2), (1, 2))(64, 64, 64)
    [64, 0, 128]
    """

    events: tuple[int, ...]
    wanted: tuple[int, ...]

    def __call__(self, *sizes: int) -> list[int]:
        """The offsets and the size, for blocks of these sizes."""
        offsets, total = place(self.events, sizes)
        return [*(offsets[i] for i in self.wanted), total]


class _Placement:
    """First fit: the gaps between the blocks in use, in order, and where the last of these ends."""

    def __init__(self) -> None:
        self.high = self.end = 0
        self.gaps: list[tuple[int, int]] = []  # start and length
        self.blocks: dict[int, tuple[int, int]] = {}

    def take(self, number: int, size: int) -> int:
        for i, (start, length) in enumerate(self.gaps):
            if size <= length:
                self.gaps[i : i + 1] = [(start + size, length - size)] if size < length else []
                break
        else:
            start = self.end
            self.end += size
            self.high = max(self.high, self.end)
        self.blocks[number] = (start, size)
        return start

    def give(self, number: int) -> None:
        start, size = self.blocks.pop(number)
        i = bisect(self.gaps, (start,))
        if i < len(self.gaps) and self.gaps[i][0] == start + size:
            size += self.gaps.pop(i)[1]
        if i and sum(self.gaps[i - 1]) == start:
            i -= 1
            before, length = self.gaps.pop(i)
            start, size = before, length + size
        if start + size == self.end:
            self.end = start
        else:
            self.gaps.insert(i, (start, size))


def place(events: Sequence[int], sizes: Sequence[int]) -> tuple[list[int], int]:
    """The offset of every block, and the size of all: blocks are taken and given back as ``events`` says.

    >>> place((0, 1, ~0, 2), (64, 64, 64))
    ([0, 64, 0], 128)
    """
    placed = _Placement()
    offsets = []
    for event in events:
        if event < 0:
            placed.give(~event)
        else:
            offsets.append(placed.take(event, sizes[event]))
    return offsets, placed.high
