"""Named stretches of a program and how long they take, under the names of PyTorch's profiler.

Only what a program names itself is counted: ``record_function`` blocks and steps. :func:`tracejit.profile` looks into
compiled code.
"""

from __future__ import annotations

import enum
import functools
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "tensorboard_trace_handler",
]


class ProfilerActivity(enum.Enum):
    """Whose work is of interest; the time of the calling thread is measured in any case."""

    CPU = 0
    CUDA = 2
    XPU = 1


class ProfilerAction(enum.Enum):
    """What a schedule does at a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class _Active(threading.local):
    """The profiles that listen in this thread, the innermost last."""

    profiles: tuple[Any, ...] = ()


_ACTIVE = _Active()


class record_function:  # noqa: N801  (PyTorch's spelling)
    """A named stretch of a program: a ``with`` block, or a function that is decorated.

    >>> with profile() as found:
    ...     with record_function("work"):
    ...         pass
    >>> [(row.key, row.count) for row in found.key_averages()]
    [('work', 1)]
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self._starts: list[float] = []

    def __enter__(self) -> record_function:
        self._starts.append(time.perf_counter())
        return self

    def __exit__(self, *_: object) -> None:
        seconds = time.perf_counter() - self._starts.pop()
        for listening in _ACTIVE.profiles:
            listening.add(self.name, seconds)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function`` with its calls counted."""

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return counted


@dataclass
class Average:
    """All stretches of one name: how many, and their microseconds together."""

    key: str
    count: int = 0
    cpu_time_total: float = 0.0

    @property
    def cpu_time(self) -> float:
        """Microseconds of one on average."""
        return self.cpu_time_total / self.count if self.count else 0.0


class Averages(list[Average]):
    """Rows that can be printed."""

    def table(self, sort_by: str | None = None, row_limit: int = 100, **_: Any) -> str:
        """The rows as text, the longest first when ``sort_by`` names a time."""
        rows = sorted(self, key=lambda r: -r.cpu_time_total) if sort_by else list(self)
        width = max([4, *(len(row.key) for row in rows)])
        lines = [f"{'Name':<{width}}  {'Calls':>8}  {'Total (us)':>12}  {'Mean (us)':>12}"]
        lines += [
            f"{row.key:<{width}}  {row.count:>8}  {row.cpu_time_total:>12.1f}  {row.cpu_time:>12.1f}"
            for row in rows[: row_limit if row_limit >= 0 else None]
        ]
        return "\n".join(lines)


class profile:  # noqa: N801  (PyTorch's spelling)
    """Collects the named stretches that end inside it; ``schedule`` says which steps count.

    ``on_trace_ready(self)`` is called when a stretch of recorded steps ends.

    >>> with profile(activities=[ProfilerActivity.CPU]) as found:
    ...     with record_function("load"):
    ...         pass
    ...     found.step()
    >>> print(found.key_averages().table().split()[:2])
    ['Name', 'Calls']
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[Any], Any] | None = None,
        **_: Any,
    ) -> None:
        self.step_num = 0
        self._schedule = schedule
        self._on_trace_ready = on_trace_ready
        self._rows: dict[str, Average] = {}

    def _action(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self._schedule is None else self._schedule(self.step_num)

    def add(self, name: str, seconds: float) -> None:
        """Count one stretch, if this step counts."""
        if self._action() in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            row = self._rows.setdefault(name, Average(name))
            row.count += 1
            row.cpu_time_total += 1e6 * seconds

    def step(self) -> None:
        """The next step begins."""
        if self._action() is ProfilerAction.RECORD_AND_SAVE:
            self._ready()
            self._rows = {}
        self.step_num += 1

    def _ready(self) -> None:
        if self._on_trace_ready is not None:
            self._on_trace_ready(self)

    def start(self) -> None:
        """Begin to listen."""
        _ACTIVE.profiles = (*_ACTIVE.profiles, self)

    def stop(self) -> None:
        """Stop listening."""
        _ACTIVE.profiles = tuple(p for p in _ACTIVE.profiles if p is not self)
        if self._schedule is None:
            self._ready()

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def key_averages(self, *_: Any, **__: Any) -> Averages:
        """One row for every name."""
        return Averages(self._rows.values())

    def export_chrome_trace(self, path: str) -> None:
        """Write the rows as events that trace viewers read, one after the other."""
        import json

        events, start = [], 0.0
        for row in self._rows.values():
            at = {"ph": "X", "pid": 0, "tid": 0, "ts": start, "dur": row.cpu_time_total}
            events.append({"name": row.key, **at, "args": {"calls": row.count}})
            start += row.cpu_time_total
        with open(path, "w") as file:
            json.dump({"traceEvents": events}, file)


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, **_: Any
) -> Callable[[int], ProfilerAction]:
    """Rounds of ``wait`` steps that do not count, ``warmup`` that do not, and ``active`` that do; ``repeat`` of them.

    >>> plan = schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [plan(i).name for i in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        length = wait + warmup + active
        if step < 0 or (repeat > 0 and step >= repeat * length):
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        last = place == length - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(dir_name: str, *_: Any, **__: Any) -> Callable[[Any], None]:
    """What writes a profile into a folder.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> tensorboard_trace_handler(folder)(profile())
    >>> os.listdir(folder)
    ['profile_0.pt.trace.json']
    """
    import os

    def write(found: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        found.export_chrome_trace(os.path.join(dir_name, f"profile_{found.step_num}.pt.trace.json"))

    return write
