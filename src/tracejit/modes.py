"""Per-thread modes: is the tape on, is an IR builder or a recorder listening."""

from __future__ import annotations

import threading
from typing import Any


class Modes(threading.local):
    """What the current thread does with an op call besides running it.

    ``grad`` records the autograd tape, ``inference`` marks results as inference tensors, ``builder`` writes ops into a
    graph instead of running them, ``recorder`` is told of every op that ran, ``saved_hooks`` is a stack of
    (pack, unpack) pairs for tensors kept for backward, ``autocast`` is the dtype that products take, ``anomaly`` watches nodes while anomalies are looked for.
    """

    grad: bool = True
    inference: bool = False
    builder: Any = None
    recorder: Any = None
    saved_hooks: tuple[Any, ...] = ()
    anomaly: Any = None
    autocast: Any = None


MODES = Modes()
