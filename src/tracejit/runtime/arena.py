"""Placing temporaries in one block, with reuse."""

from __future__ import annotations

from typing import Any

ALIGN = 64


def aligned(nbytes: int) -> int:
    """``nbytes`` rounded up to whole cache lines."""
    return -(-max(nbytes, 1) // ALIGN) * ALIGN


class Arena:
    """First-fit placement of temporaries in one block, with reuse after their last reader."""

    def __init__(self) -> None:
        self.high = 0
        self.owners: dict[Any, tuple[int, int]] = {}

    def take(self, nbytes: int, owner: Any) -> int:
        """Offset of ``nbytes`` that no living owner uses."""
        size = aligned(nbytes)
        offset = 0
        for start, length in sorted(self.owners.values()):
            if offset + size <= start:
                break
            offset = max(offset, start + length)
        self.owners[owner] = (offset, size)
        self.high = max(self.high, offset + size)
        return offset

    def give(self, owner: Any) -> None:
        """The owner's memory may be reused from the next step on."""
        self.owners.pop(owner, None)
