"""Finding repetition: stretches of members whose keys repeat with a period.

The distances from each member to the next one of the same key propose the periods; of runs that overlap, the one that
saves most statements is taken, and what lies between the runs is searched again.
"""

from __future__ import annotations

from bisect import bisect, bisect_left
from collections.abc import Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from .evidence import USUAL, Least
from .record import Record

#: Periods tried per stretch, the most frequent distances first.
MAX_PERIODS = 16
#: How often what lies between runs is searched again.
MAX_SEARCHES = 4


@dataclass(frozen=True)
class Run:
    """Members ``start .. stop``, each with the key of the one ``period`` before it."""

    start: int
    stop: int
    period: int

    @property
    def rounds(self) -> int:
        """How often the body fits."""
        return (self.stop - self.start) // self.period

    @property
    def saved(self) -> int:
        """How many statements rolling saves."""
        return (self.rounds - 1) * self.period


def find_runs(
    keys: Any,
    start: int,
    stop: int,
    excluded: Set[int] = frozenset(),
    least: Least = USUAL,
    searches: int = MAX_SEARCHES,
) -> list[Run]:
    """The runs within ``start .. stop`` in order, without overlap and without the ``excluded`` periods.

    >>> find_runs(np.array([9] + 9 * [1, 2] + 20 * [3] + [8]), 0, 40)
    [Run(start=1, stop=19, period=2), Run(start=19, stop=39, period=1)]
    """
    part = keys[start:stop]
    periods = [p for p in _periods(part, least.rounds) if p not in excluded]
    found = {p: _runs(part, p, start, least) for p in periods}
    chosen = _chosen(found) if searches else []
    result: list[Run] = []
    at = start
    for run in chosen:
        result += find_runs(keys, at, run.start, excluded, least, searches - 1)
        result.append(run)
        at = run.stop
    rest = find_runs(keys, at, stop, excluded, least, searches - 1) if chosen else []
    return result + rest


def _chosen(found: dict[int, list[Run]]) -> list[Run]:
    """Of runs by period those that save most, without overlap, in order.

    A run gives way to shorter loops within it that save more together: a long loop in each of a few rounds.
    """
    chosen: list[Run] = []
    for run in sorted((r for runs in found.values() for r in runs), key=lambda r: -r.saved):
        place = bisect(chosen, run.start, key=lambda r: r.start)
        before, after = chosen[place - 1 : place], chosen[place : place + 1]
        if any(r.stop > run.start for r in before) or any(r.start < run.stop for r in after):
            continue
        best = [run]
        for period, runs in found.items():
            if period < run.period:
                first, last = (
                    bisect_left(runs, p, key=lambda r: r.start) for p in (run.start, run.stop)
                )
                within = [r for r in runs[first:last] if r.stop <= run.stop]
                best = max(best, within, key=lambda rs: sum(r.saved for r in rs))
        chosen[place:place] = best
    return chosen


def _periods(keys: Any, rounds: int) -> list[int]:
    """Distances between members of equal key that occur often enough, the most frequent first."""
    if len(keys) < rounds:
        return []
    order = np.argsort(keys, kind="stable")
    distances = np.diff(order)[np.diff(keys[order]) == 0]
    counts = np.bincount(distances[distances <= len(keys) // rounds])
    order = np.argsort(-counts, kind="stable")[:MAX_PERIODS]
    return [int(d) for d in order if d > 0 and counts[d] >= rounds - 1]


def _runs(keys: Any, period: int, offset: int, least: Least) -> list[Run]:
    same = np.concatenate(([False], keys[:-period] == keys[period:], [False]))
    edges = np.flatnonzero(same[1:] != same[:-1]).reshape(-1, 2)
    found: list[Run] = []
    at = 0
    for first, last in edges[np.diff(edges)[:, 0] >= (least.rounds - 1) * period].tolist():
        run = Run(max(first, at) + offset, last + period + offset, period)
        if (
            run.rounds >= least.rounds
            and run.saved >= least.saved
            and not _repeats(keys[first : first + 2 * period], period)
        ):
            found.append(run)
            at = last + period
    return found


def _repeats(keys: Any, period: int) -> bool:
    """Does a body itself consist of equal parts? Then it has a shorter period."""
    parts = (d for d in range(1, period // 2 + 1) if period % d == 0 and keys[0] == keys[d])
    return any((keys[d:] == keys[:-d]).all() for d in parts)


def rotated(record: Record, run: Run) -> Run:
    """The run from where rounds begin: where fewest values are handed from one round to the next.

    Runs seldom start there, because what all rounds share is recorded in the first one. Of equal places, the one
    that leaves no part of a round at the end counts. A run of whole rounds starts there already: begun later, it would
    have one round less, and be another structure where there are too few rounds for that.
    """
    period, length = run.period, run.stop - run.start
    if length % period == 0:
        return run
    crossing = _crossing(record, run)
    places = range(period if length >= (record.least.rounds + 1) * period else length % period + 1)
    begin = min(places, key=lambda r: (crossing[r], (length - r) % period, r))
    rest = (length - begin) % period
    return Run(run.start + begin, run.stop - rest, period)


def _crossing(record: Record, run: Run) -> Any:
    """For each position of the body, how many values live on when a round ends before it."""
    period = run.period
    middle = run.start + period * (run.rounds // 2)
    reads = record.reads_of(middle, middle + period)
    counts = np.diff(record.offsets[middle : middle + period + 1])
    distances = np.repeat(np.arange(middle, middle + period), counts) - reads
    near = (reads >= run.start) & (distances <= 2 * period)
    reads, distances = reads[near], distances[near]
    longest = np.zeros(period, np.int64)
    np.maximum.at(longest, (reads - run.start) % period, distances)
    change = np.zeros(4 * period, np.int64)
    born = np.arange(period)
    np.add.at(change, born + 1, 1)
    np.add.at(change, born + 1 + longest, -1)
    return np.cumsum(change).reshape(4, period).sum(0)
