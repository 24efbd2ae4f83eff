"""Placing temporaries in one block, with reuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..extents import Extent, Extents, hint, is_symbolic

ALIGN = 64


def aligned(nbytes: int) -> int:
    """``nbytes`` rounded up to whole cache lines."""
    return -(-nbytes // ALIGN) * ALIGN if nbytes > 0 else ALIGN


class Arena:
    """First-fit placement of temporaries in one block, with reuse after their last reader.

    With symbolic sizes the offsets are symbolic too: what was taken and given back is placed anew for other sizes.
    """

    def __init__(self) -> None:
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
        symbolic = [i for i, offset in enumerate(self.offsets) if is_symbolic(offset)]
        results: list[Extent] = [*(self.offsets[i] for i in symbolic), high]  # type: ignore[list-item]
        events = tuple(self.events)

        def place_again(*sizes: int) -> list[int]:
            offsets, total = place(events, sizes)
            return [*(offsets[i] for i in symbolic), total]

        self._scope.compute(results, place_again, *self.sizes)
        return high  # type: ignore[return-value]


class _Placement:
    """The blocks in use: where each starts and how long it is."""

    def __init__(self) -> None:
        self.high = 0
        self.blocks: dict[int, tuple[int, int]] = {}

    def take(self, number: int, size: int) -> int:
        offset = 0
        for start, length in sorted(self.blocks.values()):
            if offset + size <= start:
                break
            offset = max(offset, start + length)
        self.blocks[number] = (offset, size)
        self.high = max(self.high, offset + size)
        return offset

    def give(self, number: int) -> None:
        del self.blocks[number]


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
