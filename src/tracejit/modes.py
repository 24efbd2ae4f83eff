"""Per-thread modes: is the tape on, is an IR builder or a recorder listening."""

from __future__ import annotations

import threading
from typing import Any

from . import dtypes


class Modes(threading.local):
    """What the current thread does with an op call besides running it.

    ``grad`` records the autograd tape, ``inference`` marks results as inference tensors, ``builder`` writes ops into a
    graph instead of running them, ``recorder`` is told of every op that ran, ``saved_hooks`` is a stack of
    (pack, unpack) pairs for tensors kept for backward, ``anomaly`` watches nodes while anomalies are looked for,
    ``autocast`` is the dtype that products take.
    """

    grad: bool = True
    inference: bool = False
    builder: Any = None
    recorder: Any = None
    saved_hooks: tuple[Any, ...] = ()
    anomaly: Any = None
    autocast: Any = None

    def autocast_key(self) -> Any:
        """What calls under autocast differ in: its dtype and the default one."""
        return self.autocast, dtypes.get_default_dtype()


MODES = Modes()
