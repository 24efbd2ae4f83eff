"""Tensors that live as long as a recording, which knows them by their identity.

An identity may be another tensor's once its tensor is gone, so what a recording has met stays. Tensors that nobody else
can reach any more are let go whenever enough memory has come together: a loop over large tensors needs the memory of an
eager run, not that of all its rounds. The latest ones are looked at far more often, for most temporaries are among
them: the next operation then writes to memory that is in the caches, and not to pages that were never touched.

What is noted of a loop that tensors end is told by identities too, and compared when the run is over. Tensors that only
such notes refer to stay, but their elements go.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

from ...cuda.arrays import MODULES
from ...deferred import Deferred
from ...layout import layout_of
from ...mirrored import Mirrored
from ...runtime.allocator import give_back_large
from ...runtime.behind import worker
from ...tensor import Tensor

#: Bytes that come together before it is looked what can go.
MOST_BYTES = 32 << 20
#: Bytes that come together before the latest are looked at, and how many of those that were there at the last look.
FEW_BYTES, LATEST = 512 << 10, 16


#: Was much memory freed in the middle of the latest recording?
_freed = [False]


def _nothing() -> None:
    """No notes."""


class KeptAlive:
    """Tensors in order of appearance; what ``forget`` refers to is told the identities of those that go.

    It is a weak reference, because a recorder that referred to itself would keep all its tensors until the next
    collection of garbage. ``notes`` refers to what counts, in ``noted`` and by identity, the references that notes on a
    loop have: not one too many, for a tensor that has no others loses its elements.

    >>> import tracejit as tj
    >>> gone = []
    >>> kept = KeptAlive(lambda: gone.append, most_bytes=100)
    >>> for _ in range(3):
    ...     kept.append(tj.ones(10))
    >>> len(gone), len(kept)
    (2, 1)
    """

    def __init__(
        self, forget: Callable[[], Callable[[int], Any] | None], most_bytes: int = MOST_BYTES
    ) -> None:
        self.forget = forget
        self.most_bytes = most_bytes
        self.tensors: list[Tensor] = []
        self.notes: Callable[[], Any] = _nothing
        self.emptied: list[Tensor] = []
        self.nbytes = self.recent = self.looked = 0
        _freed[0] = False

    def __len__(self) -> int:
        return len(self.tensors)

    def append(self, tensor: Tensor) -> None:
        """Keep a tensor."""
        if self.add(tensor):
            self.look()

    def add(self, tensor: Tensor) -> int:
        """Keep a tensor, of so many bytes; nothing is let go for that."""
        array = tensor._array
        if array is None and tensor._block is None:
            return 0  # emptied, and kept
        self.tensors.append(tensor)
        if type(tensor._block) is Mirrored:
            return 0  # nor has it memory of its own
        if type(tensor._block) is Deferred:
            if tensor._base is not None:
                return 0  # it will have no memory of its own
            nbytes: int = tensor._block.layout.nbytes
        else:
            nbytes = tensor.array.nbytes if array is None else array.nbytes
        self.nbytes += nbytes
        self.recent += nbytes
        return nbytes

    def grown(self, nbytes: int) -> None:
        """So many bytes of tensors were put behind the others: let go what can go."""
        self.nbytes += nbytes
        self.recent += nbytes
        self.look()

    def look(self) -> None:
        """Let go what can go, if enough memory has come together."""
        if self.nbytes > self.most_bytes:
            _freed[0] = True
            self.sweep(len(self.tensors))
            self.nbytes = 0
        elif self.recent > FEW_BYTES:
            self.sweep(len(self.tensors) - self.looked + LATEST)

    def sweep(self, latest: int) -> None:
        """Of the latest tensors let go what only this list refers to: views first, which refer to what they show."""
        forget = self.forget()
        assert forget is not None, "the recorder is gone"
        tensors, references, gone = self.tensors, sys.getrefcount, _GONE
        first = max(len(tensors) - latest, 0)
        notes, found = self.notes(), False
        noted = _NONE
        if notes is not None:
            noted = notes.noted
        for place in range(len(tensors) - 1, first - 1, -1):
            count = references(tensors[place])
            if count == _UNREACHABLE:
                found = True
                forget(id(tensors[place]))
                tensors[place] = gone
            elif (
                noted
                and count == _UNREACHABLE + noted.get(id(tensors[place]), 0)
                and self.empty(tensors[place])
            ):
                found = True
                tensors[place] = gone
        if found:
            tensors[first:] = [x for x in tensors[first:] if x is not gone]
        self.recent, self.looked = 0, len(tensors)

    @staticmethod
    def may_empty(tensor: Tensor) -> bool:
        """Would nobody miss the elements of a tensor to which only notes refer?"""
        special = tensor._base is not None or tensor._run_time_type is not None
        return not (MODULES or special or weakref.getweakrefcount(tensor))

    def empty(self, tensor: Tensor) -> bool:
        """Free the elements of a tensor that only notes refer to; False where it has to stay as it is."""
        if not self.may_empty(tensor):
            return False
        self.emptied.append(tensor)
        layout_of(tensor)  # which keeps the type, too
        tensor._array = tensor._block = None
        return True


_NONE: dict[int, int] = {}
#: Stands for a tensor that was let go.
_GONE: Any = object()


def _references() -> int:
    """How many references are counted as above for an object that only a list has."""
    listed = [object()]
    return sys.getrefcount(listed[0])


_UNREACHABLE = _references()


@cache
def _trim() -> Callable[[int], Any] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # not the GNU C library
        return None


def give_back() -> None:
    """Have memory that was freed returned to the system, if the latest recording went through much of it.

    The C library keeps what it has seen freed, and so does the allocator, for the eager code that asked for it. A
    process then held twice what it needed from its first call on: compiled code asks for other sizes. It takes
    milliseconds, which no call waits for.

    >>> give_back()
    """
    if _freed[0]:
        worker().submit(_return_freed, compiles=False)


def _return_freed() -> None:
    give_back_large()
    trim = _trim()
    if trim is not None:
        trim(0)
