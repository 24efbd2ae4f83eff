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
    where that is the default; ``autocast_depth`` counts the blocks around. ``default_device`` is where new tensors are
    made, None for the host. ``anomaly_nan`` says whether a watch that is on, or would be, looks for nan.
    ``walk`` is the backward pass that is going on. ``deferral`` is what puts large operations off while a run is
    recorded. ``draws`` gives the keys of random draws inside ``vmap``. ``refusing`` while the truth of a tensor is
    asked, and anything else than what is expected will be an error. ``listening`` while somebody is told of what is
    called. ``unusual`` is None until something that calls differ in is set: what :meth:`note` wrote there.
    """

    grad: bool = True
    inference: bool = False
    builder: Any = None
    recorder: Any = None
    deferral: Any = None
    draws: Any = None
    refusing: bool = False
    saved_hooks: tuple[Any, ...] = ()
    anomaly: Any = None
    walk: Any = None
    anomaly_nan: bool = True
    autocast: Any = None
    autocast_settings: Any = None
    autocast_depth: int = 0
    default_device: Any = None
    listening: bool = False
    unusual: Any = None

    def before_write(self) -> None:
        """Memory is about to be written to: compute what was put off, for that may read it."""
        if self.deferral is not None:
            self.deferral.compute()

    def note(self) -> None:
        """Say in one place what is set of autocast and devices, and whether anybody listens: is all as usual?"""
        found = self.autocast_settings, self.default_device, self.listening
        self.unusual = None if found == (None, None, False) else found

    def unusual_key(self) -> Any:
        """What calls differ in where something unusual is set: that, and what it comes down to at present."""
        where = self.default_device
        number = None if where is None else where.number()
        return self.autocast, self.unusual, number, dtypes.get_default_dtype()


MODES = Modes()
