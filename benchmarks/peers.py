"""tracejit beside PyTorch and JAX on the same work: ``python benchmarks/peers.py [--json FILE] [--plot FILE]``.

Every implementation of every case runs in processes of its own with its own empty caches; steady states are measured
in interleaved rounds, with one thread and with all. Implementations that are not installed are left out with a line.
A run ends within its time limit (25 minutes, five with ``--quick``); what was not reached by then is listed.
"""

from __future__ import annotations

import argparse
import compileall
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import report
from backends import BACKENDS, Backend, known
from cases import label
from measure import Job, Row, Settings, measure
from processes import environment, usable_cpus
from workloads import CASES

import tracejit
from tracejit.cli import output
from tracejit.profiling import floor

FULL_MINUTES, QUICK_MINUTES = 25.0, 5.0
#: What a row needs at least; with less time left it is not begun.
ROW_SECONDS = 10.0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    add = found.add_argument
    names, titles = [c.name for c in CASES], [b.name for b in BACKENDS]
    add("--quick", action="store_true", help="small sizes, short rounds, no torch.compile")
    add("--sweep", action="store_true", help="also the further sizes of every case")
    add("--only", action="append", default=[], choices=names, metavar="CASE")
    add("--backend", action="append", default=[], choices=titles, metavar="BACKEND")
    add("--rounds", type=int, default=5)
    add("--seconds", type=float, default=0.1, help="of measurement per round and backend")
    add("--threads", type=int, action="append", default=[], help="may be repeated")
    add("--time-limit", type=float, metavar="MINUTES", help="of the whole run")
    add("--compile-limit", type=float, default=120.0, metavar="SECONDS", help="for first calls")
    add("--patience", type=float, default=0.0, help="seconds to wait for quiet before a turn")
    add("--peer-python", default=sys.executable, metavar="PYTHON", help="runs PyTorch and JAX")
    add("--json", type=Path, metavar="FILE", help="write all figures")
    add("--plot", type=Path, metavar="FILE", help="write bars and size curves")
    return found


def programme(options: argparse.Namespace) -> Iterator[Job]:
    """What to measure, the most telling first: main sizes, further sizes, then other numbers of threads."""
    chosen = [case for case in CASES if not options.only or case.name in options.only]
    default = [usable_cpus()] if options.quick else [usable_cpus(), 1]
    most, *others = dict.fromkeys(options.threads or default)
    for case in chosen:
        yield Job(case, case.small if options.quick else case.main, most, not options.quick)
    if options.sweep:
        for case in chosen:
            yield from (Job(case, size, most, False) for size in case.sizes if size != case.main)
    for threads in others:
        for case in chosen:
            yield Job(case, case.small if options.quick else case.main, threads, False)


def settings_of(options: argparse.Namespace) -> Settings:
    """How much to measure, and until when."""
    minutes = options.time_limit or (QUICK_MINUTES if options.quick else FULL_MINUTES)
    rounds, seconds = (2, 0.02) if options.quick else (options.rounds, options.seconds)
    return Settings(
        rounds,
        seconds,
        0.02 if options.quick else 0.3,
        options.patience,
        options.compile_limit,
        options.peer_python,
        time.monotonic() + 60.0 * minutes,
    )


def backends_of(options: argparse.Namespace) -> list[Backend]:
    """The implementations that are asked for; a quick run leaves out the one that needs ten seconds a case."""
    if options.quick and not options.backend:
        return [b for b in known([]) if not b.compiles_c]
    return known(options.backend)


class Run:
    """A run of the programme."""

    def __init__(self, chosen: Sequence[Backend], settings: Settings, scratch: Path) -> None:
        self.chosen = list(chosen)
        self.settings = settings
        self.scratch = scratch
        self.rows: list[Row] = []
        self.floors: dict[int, floor.Floor] = {}
        self.references: dict[object, object] = {}
        self.slow: dict[tuple[str, str], str] = {}

    def measure(self, job: Job) -> bool:
        """One row; False when the time was over before it was complete.

        What took too long to compile before is not tried again; what is not installed neither.
        """
        if job.threads not in self.floors:
            around = {**os.environ, **environment(self.scratch / "floor", job.threads)}
            self.floors[job.threads] = floor.asked(job.threads, around)
        chosen = [b for b in self.chosen if (job.case.name, b.name) not in self.slow]
        row = measure(
            job, chosen, self.settings, self.scratch, self.floors[job.threads], self.references
        )
        if self.settings.left() <= 0:
            return False
        for figures in row.figures:
            reason = figures.reason or ""
            if "no answer within" in reason:
                self.slow[job.case.name, figures.backend] = reason
        self.rows.append(row)
        gone = {f.backend for f in row.figures if "not installed" in (f.reason or "")}
        self.chosen = [b for b in self.chosen if b.name not in gone]
        return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; 1 when something was asked for and could not be measured."""
    options = parser().parse_args(arguments)
    # As pip does with what it installs: from a checkout every process would compile the package's Python anew.
    compileall.compile_dir(Path(tracejit.__file__).parent, quiet=1)
    chosen, settings = backends_of(options), settings_of(options)
    left_out: list[str] = []
    with tempfile.TemporaryDirectory(prefix="tracejit-peers-", ignore_cleanup_errors=True) as place:
        run = Run(chosen, settings, Path(place))
        for job in programme(options):
            name = f"{job.case.name} {label(job.size)}, {job.threads} thread(s)"
            if settings.left() < ROW_SECONDS:
                left_out.append(name)
                continue
            print(f"{name} ...", file=sys.stderr, flush=True)
            if not run.measure(job):
                left_out.append(name)
    report.tables(run.rows, chosen)
    for name in left_out:
        print(f"not reached within the time limit: {name}")
    if options.json is not None:
        floors = [floor.asdict(found) for found in run.floors.values()]
        content = report.as_json(run.rows, settings, floors=floors, left_out=left_out)
        output.write_json(options.json, content)
    if options.plot is not None:
        import charts

        charts.plot(run.rows, chosen, options.plot)
    asked = set(options.backend)
    return int(any(f.median is None and f.backend in asked for r in run.rows for f in r.figures))


if __name__ == "__main__":
    sys.exit(main())
