"""One case in every backend: prepare one after the other, check that they agree, then time in turns.

Rounds are interleaved (every backend once a round, in rotating order), so that a slow minute of the machine slows all
of them. A backend whose results differ from the first one's gets no figure: a wrong result has no speed.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from backends import BACKENDS, Backend, difference
from processes import Process, WorkerError, busy_share, environment, wait_for_quiet
from workloads import Case

#: Results may differ by this much relative to their largest element: a few hundred float32 roundings.
TOLERANCE = 2e-4
LOAD_TIMEOUT, PREPARE_TIMEOUT = 120.0, 300.0


@dataclass(frozen=True)
class Settings:
    """How much to measure."""

    rounds: int
    seconds: float
    warm_up: float
    threads: int
    patience: float


@dataclass
class Figures:
    """One backend on one case; seconds. ``reason`` says why there is no figure."""

    backend: str
    imported: float | None = None
    first: float | None = None
    second: float | None = None
    median: float | None = None
    minimum: float | None = None
    rounds: list[float] = field(default_factory=list)
    ratio: float | None = None
    reason: str | None = None


@dataclass
class Row:
    """One case at one size in every backend; ``busy`` is the share of the machine that others used."""

    case: str
    size: int
    busy: float | None
    figures: list[Figures]


def measure(
    case: Case, size: int, chosen: Sequence[Backend], settings: Settings, scratch: Path
) -> Row:
    """Measure one case. Each backend has a fresh process with empty caches below ``scratch``."""
    row = Row(case.name, size, busy_share(0.3), [Figures(backend.name) for backend in chosen])
    with contextlib.ExitStack() as stack:
        running: list[tuple[Figures, Process]] = []
        samples: list[Any] = []
        for backend, figures in zip(chosen, row.figures, strict=True):
            figures.reason = backend.missing()
            if figures.reason is not None:
                continue
            log = scratch / f"{case.name}-{size}-{backend.name}.log"
            own = scratch / log.stem
            process = stack.enter_context(
                Process(backend.name, environment(own, settings.threads), log)
            )
            try:
                samples.append(_prepare(process, figures, case, size, settings))
                running.append((figures, process))
            except WorkerError as failure:
                figures.reason = str(failure)
        running = _agreeing(running, samples)
        _rounds(running, settings)
    _ratios(row)
    return row


def _prepare(process: Process, figures: Figures, case: Case, size: int, settings: Settings) -> Any:
    figures.imported = process.ask("load", LOAD_TIMEOUT)["import"]
    answer = process.ask(
        "prepare", PREPARE_TIMEOUT, case=case.name, size=size, warm_up=settings.warm_up
    )
    figures.first, figures.second = answer["first"], answer["second"]
    return [np.array(x) for x in answer["sample"]]


def _agreeing(
    running: list[tuple[Figures, Process]], samples: list[Any]
) -> list[tuple[Figures, Process]]:
    """Those whose results are the first one's."""
    kept = []
    for (figures, process), sample in zip(running, samples, strict=True):
        found = difference(sample, samples[0])
        if found <= TOLERANCE:
            kept.append((figures, process))
        else:
            figures.reason = f"its results differ by {found:.1e}"
    return kept


def _rounds(running: list[tuple[Figures, Process]], settings: Settings) -> None:
    for number in range(settings.rounds):
        turn = number % max(len(running), 1)
        for figures, process in [*running[turn:], *running[:turn]]:
            if figures.reason is not None:
                continue
            wait_for_quiet(settings.patience)
            try:
                answer = process.ask("time", PREPARE_TIMEOUT, seconds=settings.seconds)
            except WorkerError as failure:
                figures.reason = str(failure)
                continue
            figures.rounds.append(answer["median"])
            figures.minimum = min(answer["min"], figures.minimum or float("inf"))
    for figures, _ in running:
        if figures.rounds and figures.reason is None:
            figures.median = statistics.median(figures.rounds)


def _ratios(row: Row) -> None:
    """Every median over the best median."""
    best = min((f.median for f in row.figures if f.median is not None), default=None)
    for figures in row.figures:
        if figures.median is not None and best is not None:
            figures.ratio = figures.median / best


def known_backends(names: Sequence[str]) -> list[Backend]:
    """The backends called ``names``, in the order of the table; all when there are none."""
    return [backend for backend in BACKENDS if not names or backend.name in names]
