"""Memory that a tensor gives up while compiled code in another thread may be reading it.

A compiled call takes the addresses of its inputs and runs without the interpreter's lock. When ``weight.data = new`` in
another thread takes away the memory behind such an address, that memory must outlive the call. Calls take no notice of
this; the rare assignment looks for them, and keeps what it replaced until those it found are over.
"""

from __future__ import annotations

import sys
from threading import get_ident
from typing import Any

#: How the files of generated programs are called.
_PROGRAM = "<tracejit program "
_kept: list[tuple[set[tuple[int, int]], Any]] = []


def retire(*memory: Any) -> None:
    """Keep ``memory`` (arrays, blocks) as long as compiled code in other threads may read it.

    To be called after the tensor was given other memory: calls that start later do not find the old one.

    >>> retire(bytearray(3))
    >>> len(_kept)
    0
    """
    running = _running()
    _kept[:] = [(calls, held) for calls, held in _kept if not calls.isdisjoint(running)]
    if running:
        _kept.append((running, memory))


def _running() -> set[tuple[int, int]]:
    """The calls of compiled code in other threads."""
    frames = sys._current_frames()
    if len(frames) == 1:
        return set()
    frames.pop(get_ident(), None)
    found = set()
    for thread, frame in frames.items():
        at: Any = frame
        while at is not None:
            if at.f_code.co_filename.startswith(_PROGRAM):
                found.add((thread, id(at)))
            at = at.f_back
    return found
