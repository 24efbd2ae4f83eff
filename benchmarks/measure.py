"""One case in every backend: prepare one after the other, check results, then time in turns.

Rounds are interleaved (every backend once a round, in rotating order), so that a slow minute of the machine slows all
of them; a size too large for several processes at once is measured by one after the other. A backend whose results
differ from the double-precision run gets no figure: a wrong result has no speed.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from backends import REFERENCE, Backend, difference
from cases import TOLERANCE, Case, Size
from processes import (
    Process,
    WorkerError,
    available_memory,
    busy_share,
    environment,
    wait_for_quiet,
)

from tracejit.profiling.floor import Floor

__all__ = ["TOLERANCE", "Figures", "Job", "Row", "Settings", "measure"]

LOAD_TIMEOUT = 120.0
#: Of the memory that is there, what one process and all together may take.
ALONE_SHARE, TOGETHER_SHARE = 0.75, 0.5
#: A call is steady from the first on that takes at most so many times the median of later ones.
STEADY = 1.5


@dataclass(frozen=True)
class Settings:
    """How much to measure; ``end`` is the time (``time.monotonic``) after which nothing is begun."""

    rounds: int
    seconds: float
    warm_up: float
    patience: float
    compile_limit: float = 120.0
    peer_python: str = sys.executable
    end: float = float("inf")

    def left(self) -> float:
        """Seconds until the end."""
        return self.end - time.monotonic()


@dataclass(frozen=True)
class Job:
    """A case at a size with some threads; ``full``: also warm starts, another size, memory."""

    case: Case
    size: Size
    threads: int
    full: bool

    @property
    def name(self) -> str:
        """For files."""
        return f"{self.case.name}-{'x'.join(map(str, self.size))}-{self.threads}"


@dataclass
class Figures:
    """One backend on one job; seconds and bytes. ``reason`` says why there is no figure.

    ``starts`` are the first calls of a process with empty caches, ``warm`` those of one that finds the caches filled,
    ``resized`` those at another size; ``settled`` and ``warm_settled`` the time from the first call until calls are
    steady, ``following`` what a call took just after the first ones. ``kernels`` is how many tracejit compiled for the
    other size. ``speed`` is the best peer's median over this one's.
    """

    backend: str
    imported: float | None = None
    starts: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    resized: list[float] = field(default_factory=list)
    kernels: int | None = None
    settled: float | None = None
    warm_settled: float | None = None
    following: float | None = None
    median: float | None = None
    minimum: float | None = None
    rounds: list[float] = field(default_factory=list)
    resident: int | None = None
    peak: int | None = None
    difference: float | None = None
    speed: float | None = None
    reason: str | None = None


@dataclass
class Row:
    """A job in every backend; ``busy`` is the share of the machine that others used, ``floor`` the least time."""

    case: str
    size: Size
    threads: int
    full: bool
    step: bool
    busy: float | None
    floor: float
    alone: bool = False
    figures: list[Figures] = field(default_factory=list)


class Measurement:
    """A job being measured."""

    def __init__(self, job: Job, settings: Settings, scratch: Path, expected: Any) -> None:
        self.job = job
        self.settings = settings
        self.scratch = scratch
        self.expected = expected

    def process(self, backend: Backend, kind: str = "") -> Process:
        """A process that finds the caches of this job and backend."""
        own = self.scratch / f"{self.job.name}-{backend.name}"
        python = sys.executable if backend.ours else self.settings.peer_python
        return Process(
            backend.name,
            environment(own, self.job.threads),
            own.with_name(f"{own.name}{kind}.log"),
            python,
            self.job.threads,
        )

    def ask(self, process: Process, action: str, limit: float, **arguments: Any) -> dict[str, Any]:
        """An answer, or :class:`WorkerError`; never waits far beyond the end of the run."""
        return process.ask(action, max(1.0, min(limit, self.settings.left())), **arguments)

    def start(self, process: Process, figures: Figures) -> list[Any]:
        """Load and make the first calls; the sample of results."""
        loaded = self.ask(process, "load", LOAD_TIMEOUT)
        if "missing" in loaded:
            raise WorkerError(loaded["missing"])
        figures.imported, figures.resident = loaded["import"], loaded["resident"]
        limit = self.settings.compile_limit
        answer = self.ask(
            process, "prepare", limit, case=self.job.case.name, size=list(self.job.size)
        )
        figures.starts = answer["starts"]
        return [np.array(x) for x in answer["sample"]]

    def prepare(self, process: Process, figures: Figures) -> bool:
        """First calls, the check, the warm-up; False when there will be no figures."""
        try:
            sample = self.start(process, figures)
            if self.expected is None:
                self.expected = sample
            figures.difference = difference(sample, self.expected)
            if not figures.difference <= self.job.case.precision:
                raise WorkerError(f"its results differ by {figures.difference:.1e}")
            answer = self.ask(process, "settle", 60.0, seconds=self.settings.warm_up)
            figures.following = answer["median"]
            if self.job.full:
                figures.peak = self.ask(process, "peak", 60.0)["peak"]
        except WorkerError as failure:
            figures.reason = str(failure)
        return figures.reason is None

    def turn(self, process: Process, figures: Figures) -> None:
        """One round of one backend."""
        if figures.reason is not None:
            return
        wait_for_quiet(min(self.settings.patience, max(self.settings.left(), 0.0)))
        try:
            answer = self.ask(process, "time", 60.0, seconds=self.settings.seconds)
        except WorkerError as failure:
            figures.reason = str(failure)
            return
        figures.rounds.append(answer["median"])
        figures.minimum = min(answer["min"], figures.minimum or float("inf"))

    def resize(self, process: Process, figures: Figures) -> None:
        """First calls at another size; what goes wrong there leaves the other figures."""
        if figures.reason is not None:
            return
        with contextlib.suppress(WorkerError):
            answer = self.ask(
                process, "resize", self.settings.compile_limit, size=list(self.job.case.new)
            )
            figures.resized = answer["starts"]
            figures.kernels = answer["kernels"] if figures.backend.startswith("tracejit") else None

    def restart(self, backend: Backend, figures: Figures) -> None:
        """First calls of a second process on the same caches."""
        found = Figures(backend.name)
        with self.process(backend, "-warm") as process, contextlib.suppress(WorkerError):
            self.start(process, found)
            figures.warm = found.starts

    def together(self, pairs: Sequence[tuple[Backend, Figures]]) -> None:
        """All backends at once, one of them at work at a time."""
        with contextlib.ExitStack() as stack:
            running = []
            for backend, figures in pairs:
                process = stack.enter_context(self.process(backend))
                if self.prepare(process, figures):
                    running.append((process, figures))
            for number in range(self.settings.rounds):
                turn = number % max(len(running), 1)
                for process, figures in [*running[turn:], *running[:turn]]:
                    self.turn(process, figures)
            if self.job.full:
                for process, figures in running:
                    self.resize(process, figures)

    def one_by_one(self, pairs: Sequence[tuple[Backend, Figures]]) -> None:
        """One process after the other."""
        for pair in pairs:
            self.together([pair])


def expected_results(
    job: Job, settings: Settings, scratch: Path, known: dict[Any, Any]
) -> list[Any] | None:
    """The sample of the double-precision run; None when it cannot be had."""
    key = (job.case.name, job.size)
    if key not in known:
        known[key] = None
        if 2 * job.case.bytes_held(job.size) < ALONE_SHARE * available_memory():
            measurement = Measurement(job, settings, scratch, None)
            with measurement.process(REFERENCE) as process, contextlib.suppress(WorkerError):
                known[key] = measurement.start(process, Figures("reference"))
    found: list[Any] | None = known[key]
    return found


def measure(
    job: Job,
    chosen: Sequence[Backend],
    settings: Settings,
    scratch: Path,
    floor: Floor,
    known: dict[Any, Any],
) -> Row:
    """Measure one job. Each backend has fresh processes with caches below ``scratch``; ``known`` keeps references."""
    case, size = job.case, job.size
    least = floor.seconds(case.traffic(size), case.flops(size), case.float64)
    row = Row(case.name, size, job.threads, job.full, case.step, busy_share(0.2), least)
    pairs = [(b, Figures(b.name)) for b in chosen if case.step or not b.whole]
    row.figures = [figures for _, figures in pairs]
    held, free = case.bytes_held(size), available_memory()
    if held > ALONE_SHARE * free:
        for figures in row.figures:
            figures.reason = "there is not enough memory"
        return row
    measurement = Measurement(
        job, settings, scratch, expected_results(job, settings, scratch, known)
    )
    row.alone = held * len(pairs) > TOGETHER_SHARE * free
    (measurement.one_by_one if row.alone else measurement.together)(pairs)
    if job.full:
        for backend, figures in pairs:
            if figures.reason is None:
                measurement.restart(backend, figures)
    _conclude(row, {b.name for b in chosen if not b.ours})
    return row


def _conclude(row: Row, peers: set[str]) -> None:
    """Medians, the time until calls were steady, and every speed against the best peer."""
    for figures in row.figures:
        if figures.rounds and figures.reason is None:
            figures.median = statistics.median(figures.rounds)
            # Rounds come later: others may have left the machine, or its second core, alone by then, or just begun.
            steady = max(figures.median, figures.following or 0.0)
            figures.settled = _settled(figures.starts, steady)
            figures.warm_settled = _settled(figures.warm, steady)
    best = min((m for m in _medians(row, peers)), default=None)
    for figures in row.figures:
        if figures.median is not None and best is not None:
            figures.speed = best / figures.median


def _medians(row: Row, names: set[str]) -> Iterator[float]:
    return (f.median for f in row.figures if f.median is not None and f.backend in names)


def _settled(starts: Sequence[float], steady: float) -> float | None:
    """Seconds from the first call on until a call is steady; None when none of ``starts`` was."""
    spent = 0.0
    for seconds in starts:
        spent += seconds
        if seconds <= STEADY * steady + 2e-6:
            return spent
    return None
