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
    ``autocast`` is the dtype that products take, ``autocast_settings`` what was set of autocast for each device, None
    where that is the default; ``autocast_depth`` counts the blocks around. ``anomaly_nan`` says whether a watch that is
    on, or would be, looks for nan.
    """

    grad: bool = True
    inference: bool = False
    builder: Any = None
    recorder: Any = None
    saved_hooks: tuple[Any, ...] = ()
    anomaly: Any = None
    anomaly_nan: bool = True
    autocast: Any = None
    autocast_settings: Any = None
    autocast_depth: int = 0

    def autocast_key(self) -> Any:
        """What calls differ in where something of autocast is set: that, its dtype and the default one."""
        return self.autocast, self.autocast_settings, dtypes.get_default_dtype()


MODES = Modes()
