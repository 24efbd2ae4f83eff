"""Memory of the simulator: checked at every access, and aware of who touched what.

Global memory is watched for the whole launch: an element that one thread writes belongs to that thread. Shared
memory is watched between barriers. Arrays of a thread are only checked for their bounds and for reads of what was
never written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any
WIDTH, WIDEST = 4, 16
NOBODY, SEVERAL = -1, -2
#: Words that all threads may set, to the same value.
COMMON = "common"


class SimulatorError(RuntimeError):
    """What a GPU would fault on, hang on, or give an undefined result for."""


class Memory:
    """A flat array as a pointer sees it: element ``origin`` is element 0, at an address ``misaligned`` bytes off."""

    def __init__(
        self,
        array: Array,
        origin: int = 0,
        misaligned: int = 0,
        written: bool = True,
        kind: str = "",
    ) -> None:
        self.array, self.origin, self.misaligned, self.kind = array, origin, misaligned, kind
        self.known = np.full(array.shape, written)
        self.writer = np.full(array.shape, NOBODY, np.int64)
        self.reader = np.full(array.shape, NOBODY, np.int64)

    def at(self, origin: int) -> Memory:
        """The same memory through a pointer to another element."""
        other = object.__new__(Memory)
        other.__dict__.update(self.__dict__)
        other.origin = self.origin + origin
        return other

    @property
    def address(self) -> int:
        """Where element 0 lies, up to a multiple of 256."""
        return self.misaligned + self.origin * self.array.dtype.itemsize

    def start(self) -> None:
        """A new launch: everything before has happened."""
        self.writer[:] = NOBODY
        self.reader[:] = NOBODY


class Pointer:
    """Global memory in the hands of one thread."""

    __slots__ = ("memory", "thread")

    def __init__(self, memory: Memory, thread: int) -> None:
        self.memory, self.thread = memory, thread

    def place(self, index: int) -> int:
        memory = self.memory
        place = memory.origin + index
        if not 0 <= place < len(memory.array):
            raise SimulatorError(f"element {index} is out of bounds")
        return place

    def __getitem__(self, index: int) -> Any:
        memory, place = self.memory, self.place(index)
        if not memory.known[place]:
            raise SimulatorError(f"element {index} is read before it is written")
        if memory.writer[place] not in (NOBODY, self.thread):
            raise SimulatorError(f"element {index} is read while another thread writes it")
        if memory.reader[place] != self.thread:
            memory.reader[place] = self.thread if memory.reader[place] == NOBODY else SEVERAL
        return memory.array[place]

    def __setitem__(self, index: int, value: Any) -> None:
        memory, place = self.memory, self.place(index)
        check_type(memory.array, value)
        if memory.kind != COMMON:
            if memory.writer[place] not in (NOBODY, self.thread):
                raise SimulatorError(f"element {index} is written by two threads")
            if memory.reader[place] not in (NOBODY, self.thread):
                raise SimulatorError(f"element {index} is written while another thread reads it")
        memory.writer[place] = self.thread
        memory.known[place] = True
        memory.array[place] = value

    def vector(self, index: int) -> None:
        """Is a vector access of the elements from ``index`` on aligned?"""
        size = self.memory.array.dtype.itemsize
        address = self.memory.address + index * size
        if address % min(WIDTH * size, WIDEST):
            raise SimulatorError(f"misaligned vector access at element {index}")


class Shared:
    """Shared memory of one block."""

    def __init__(self, count: int, dtype: Any) -> None:
        self.array = np.zeros(count, dtype)
        self.known = np.zeros(count, bool)
        self.writer = np.full(count, NOBODY, np.int64)
        self.reader = np.full(count, NOBODY, np.int64)

    def barrier(self) -> None:
        """Everyone has arrived: what was written is everyone's to read."""
        self.writer[:] = NOBODY
        self.reader[:] = NOBODY


class SharedPointer:
    """Shared memory in the hands of one thread."""

    __slots__ = ("shared", "thread")

    def __init__(self, shared: Shared, thread: int) -> None:
        self.shared, self.thread = shared, thread

    def _place(self, index: int) -> int:
        if not 0 <= index < len(self.shared.array):
            raise SimulatorError(f"shared element {index} is out of bounds")
        return index

    def __getitem__(self, index: int) -> Any:
        shared, place = self.shared, self._place(index)
        if not shared.known[place]:
            raise SimulatorError(f"shared element {index} is read before it is written")
        if shared.writer[place] not in (NOBODY, self.thread):
            raise SimulatorError(
                f"race: shared element {index} is read where another thread wrote it, without a barrier between"
            )
        if shared.reader[place] != self.thread:
            shared.reader[place] = self.thread if shared.reader[place] == NOBODY else SEVERAL
        return shared.array[place]

    def __setitem__(self, index: int, value: Any) -> None:
        shared, place = self.shared, self._place(index)
        check_type(shared.array, value)
        for other, what in ((shared.writer, "wrote"), (shared.reader, "read")):
            if other[place] not in (NOBODY, self.thread):
                raise SimulatorError(
                    f"race: shared element {index} is written where another thread {what} it, without a barrier between"
                )
        shared.writer[place] = self.thread
        shared.known[place] = True
        shared.array[place] = value

    def vector(self, index: int) -> None:
        """Is a vector access of the elements from ``index`` on aligned? Arrays of a block are, to the widest."""
        size = self.shared.array.dtype.itemsize
        if index * size % min(WIDTH * size, WIDEST):
            raise SimulatorError(f"misaligned vector access at shared element {index}")


class Local:
    """An array of one thread."""

    __slots__ = ("array", "known")

    def __init__(self, count: int, dtype: Any) -> None:
        self.array = np.zeros(count, dtype)
        self.known = [False] * count

    def _place(self, index: int) -> int:
        if not 0 <= index < len(self.known):
            raise SimulatorError(f"element {index} of a thread's array is out of bounds")
        return index

    def __getitem__(self, index: int) -> Any:
        if not self.known[self._place(index)]:
            raise SimulatorError(
                f"element {index} of a thread's array is read before it is written"
            )
        return self.array[index]

    def __setitem__(self, index: int, value: Any) -> None:
        check_type(self.array, value)
        self.known[self._place(index)] = True
        self.array[index] = value


def check_type(array: Array, value: Any) -> None:
    """Only values of an array's own type go in: everything else is an unnoticed promotion."""
    found = type(value)
    if found is not array.dtype.type and not (found is int and array.dtype == np.int64):
        raise SimulatorError(f"{found.__name__} is stored in memory of {array.dtype}")


def load4(pointer: Pointer | SharedPointer, index: int, part: Local, position: int) -> None:
    """Four elements into an array of the thread."""
    pointer.vector(index)
    for k in range(WIDTH):
        part[position + k] = pointer[index + k]


def store4(pointer: Pointer | SharedPointer, index: int, part: Local, position: int) -> None:
    """Four elements from an array of the thread."""
    pointer.vector(index)
    for k in range(WIDTH):
        pointer[index + k] = part[position + k]
