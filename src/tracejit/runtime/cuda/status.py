"""Status words: memory of the host in which kernels say that they refuse their input."""

from __future__ import annotations

import ctypes
from typing import Any

from ...cuda.arrays import namespace, told

__all__ = ["WORDS", "StatusWords"]


class StatusWords:
    """Words in host memory that a device can write to: one for each call that is under way."""

    def __init__(self) -> None:
        self.free: list[Any] = []

    def take(self) -> Any:
        """A word that is zero."""
        try:
            memory = self.free.pop()
        except IndexError:
            memory = namespace().cuda.alloc_pinned_memory(64)
        self.clear(memory)
        return memory

    def clear(self, memory: Any) -> None:
        """Nothing was refused so far."""
        ctypes.c_int32.from_address(int(memory.ptr)).value = 0

    def refused(self, memory: Any) -> bool:
        """Wait for the stream; did a kernel refuse its input? The word may then serve another call."""
        found = self.is_set(memory)
        self.free.append(memory)
        return found

    def is_set(self, memory: Any) -> bool:
        """Wait for the stream; did a kernel refuse its input?"""
        try:
            namespace().cuda.get_current_stream().synchronize()
        except RuntimeError as error:
            raise told(error) from None
        return ctypes.c_int32.from_address(int(memory.ptr)).value != 0


#: Those of this process.
WORDS = StatusWords()
