"""Per-thread modes: is the tape on, is an IR builder or a recorder listening."""

from __future__ import annotations

import threading
from typing import Any


class Modes(threading.local):
    """What the current thread does with an op call besides running it.

    ``grad`` records the autograd tape, ``inference`` marks results as inference tensors, ``builder`` writes ops into a
    graph instead of running them, ``recorder`` is told of every op that ran.
    """

    grad: bool = True
    inference: bool = False
    builder: Any = None
    recorder: Any = None


MODES = Modes()
