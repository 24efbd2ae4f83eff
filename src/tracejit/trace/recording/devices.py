"""Where a recorded run worked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...tensor import Tensor

if TYPE_CHECKING:
    from .recorder import Recorder


def one_device(recorder: Recorder, outputs: Sequence[Tensor]) -> int:
    """The device that everything a run read, wrote and returned lies on; numbers and sizes may come from the host."""
    keys = {id(key) for _, key, _, _ in recorder.keys.values()}  # of random draws
    apart = keys | recorder.handed_over
    given = [t for t, _ in recorder.external.values() if id(t) not in apart]
    read = {t.get_device() for t in given if t.spec.shape or t.is_cuda}
    left = {t.get_device() for t in (*outputs, *recorder.written.values())}
    if recorder.arrays_told:
        left.add(-1)
    found = (read | left) or {-1}
    if len(found) > 1:
        recorder.unsupported("it works on several devices")
    return max(found)
