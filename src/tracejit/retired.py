"""Memory that a tensor gives up while compiled code in another thread may be reading it.

A compiled call takes the addresses of its inputs and runs without the interpreter's lock. When ``weight.data = new`` in
another thread takes away the memory behind such an address, that memory must outlive the call. Calls take no notice of
this; the rare assignment looks where other threads stand, and keeps what it replaced until they have moved on. Calls
of programs are known by their frames; a short one may be a built-in that any code outside the standard library is in.
"""

from __future__ import annotations

import sys
import sysconfig
from threading import get_ident
from typing import Any

#: How the files of generated programs are called.
_PROGRAM = "<tracejit program "
_STDLIB = sysconfig.get_path("stdlib")
#: How much is kept at most for threads that stand somewhere else: calls without a frame take microseconds.
_MOST = 64
_Place = tuple[int, int, int]
_kept: list[tuple[set[_Place], Any]] = []


def retire(*memory: Any) -> None:
    """Keep ``memory`` (arrays, blocks) as long as compiled code in other threads may read it.

    To be called after the tensor was given other memory: calls that start later do not find the old one.

    >>> retire(bytearray(3))
    """
    running = _running()
    _kept[:] = [(calls, held) for calls, held in _kept if not calls.isdisjoint(running)]
    if running:
        _kept.append((running, memory))
    short = [i for i, (places, _) in enumerate(_kept) if all(at >= 0 for *_, at in places)]
    for i in reversed(short[:-_MOST]):
        del _kept[i]


def _running() -> set[_Place]:
    """Where other threads may be in compiled code: thread, frame, and the instruction where no program is known."""
    frames = sys._current_frames()
    if len(frames) == 1:
        return set()
    frames.pop(get_ident(), None)
    found = set()
    for thread, frame in frames.items():
        if not frame.f_code.co_filename.startswith(_STDLIB):
            found.add((thread, id(frame), frame.f_lasti))
        at: Any = frame
        while at is not None:
            if at.f_code.co_filename.startswith(_PROGRAM):
                found.add((thread, id(at), -1))
            at = at.f_back
    return found
