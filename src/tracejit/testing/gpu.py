"""Everything that needs a GPU, in one command: ``python -m tracejit.testing.gpu``.

It checks numerics, measures bandwidth, the cost of calls and programs, and writes one report (JSON, with a summary as
text on standard output). Every section runs in processes of its own with a limit of their own, so a kernel that
faults, a library that hangs or one that cannot be imported costs its own row and no more; the file is written anew
whenever something was found. What does not fit into the time is listed as not run. Without a GPU or CuPy the command
says why, and what to do, and ends with code 2.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .gpu_process import Task, failed, load_first, run_units
from .gpu_sections import SECTIONS, TOGETHER, Options, units_of
from .gpu_timing import TURN

Row = dict[str, Any]
#: Processes that check numerics at a time: most of their time goes into compiling CuPy's kernels.
_CHECKERS = 8
_OWN = ("compiled ms", "whole step ms", "graphs ms")


class Report:
    """What was found, by section; the file holds all of it at any time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, Any] = {"seconds": {}}
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._write()  # a place that cannot be written to shows now, and not when there is something to lose

    def add(self, section: str, row: Row) -> None:
        """Take a row; those that tell of a success only are counted."""
        with self._lock:
            rows = self.found.setdefault(section, [])
            if set(row) == {"passed"}:
                if not rows or "passed" not in rows[0]:
                    rows.insert(0, {"passed": 0})
                rows[0]["passed"] += 1
            else:
                rows.append(row)
            self._write()

    def end(self, section: str, seconds: float) -> None:
        """A section is over."""
        with self._lock:
            self.found.setdefault(section, [])
            self.found["seconds"][section] = round(seconds, 1)
            self._write()

    def _write(self) -> None:
        text = json.dumps(self.found, indent=1, default=str)
        beside = self.path.with_name(self.path.name + ".part")
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, self.path)


def run(path: Path, options: Options) -> dict[str, Any]:
    """All sections, one after the other; the report."""
    report, end = Report(path), time.monotonic() + options.seconds
    steps = list(_steps())
    for number, (names, weight) in enumerate(steps):
        start = time.monotonic()
        # What earlier sections left over is shared among those that are to come.
        later = sum(weight for _, weight in steps[number:])
        until = start + max(end - start, 0.0) * weight / later
        with _turns(), ThreadPoolExecutor(len(names)) as pool:
            list(pool.map(lambda name, until=until: _section(name, report, until, options), names))
    for row in ratios(report.found):
        report.add("ratios", row)
    report.end("ratios", 0.0)
    return report.found


def _steps() -> Iterator[tuple[list[str], int]]:
    """Sections that run at a time, with their weight."""
    together = [name for name in SECTIONS if name.startswith(TOGETHER)]
    for name, weight in SECTIONS.items():
        if name not in together:
            yield [name], weight
        elif name == together[0]:
            yield together, weight


@contextmanager
def _turns() -> Iterator[None]:
    """Within the block, processes that are started know the file by which they take turns."""
    with tempfile.NamedTemporaryFile(prefix="tracejit-turn-") as file:
        os.environ[TURN] = file.name
        try:
            yield
        finally:
            del os.environ[TURN]


def _section(name: str, report: Report, end: float, options: Options) -> None:
    start = time.monotonic()
    try:
        run_section(name, report, end, options)
    except Exception as error:  # noqa: BLE001  (the other sections are still to come)
        report.add(name, failed(name, error))
    report.end(name, time.monotonic() - start)


def run_section(name: str, report: Report, end: float, options: Options) -> None:
    """A section in as many processes as it may have."""
    names = [unit for unit, _ in units_of(name, options)]
    count = min(_CHECKERS, os.cpu_count() or 1) if name == "numerics" else 1
    parts = [names[i::count] for i in range(count)]
    tasks = [
        Task(name, part, end, options, lambda row: report.add(name, row)) for part in parts if part
    ]
    with ThreadPoolExecutor(max(len(tasks), 1)) as pool:
        list(pool.map(run_units, tasks))


def ratios(found: dict[str, Any]) -> Iterator[Row]:
    """How many times as long as compiled programs (functions, whole steps, or graphs) the others take.

    >>> ours = [{"program": "p", "compiled ms": 2.0}]
    >>> found = {"programs by tracejit": ours, "programs by JAX": [{"program": "p", "jax ms": 3.0}]}
    >>> list(ratios(found))
    [{'program': 'p', 'jax ms': 1.5}]
    """
    times: dict[str, Row] = {}
    for section, rows in found.items():
        for row in rows if section.startswith("programs by ") else ():
            if "program" in row:
                times.setdefault(row["program"], {}).update(row)
    for program, row in times.items():
        own = min((row[k] for k in _OWN if k in row), default=None)
        others = {k: t for k, t in row.items() if k.endswith(" ms") and k not in _OWN}
        if own and others:
            yield {"program": program, **{k: round(t / own, 2) for k, t in others.items()}}


def summary(found: dict[str, Any]) -> str:
    """The report as text.

    >>> print(summary({"numerics": [{"passed": 3}], "seconds": {"numerics": 0.1}}))
    numerics (0.1 s)
        passed: 3
    """
    lines = []
    for name, rows in found.items():
        if name == "seconds":
            continue
        lines.append(f"{name} ({found['seconds'][name]} s)")
        lines += ["    " + ", ".join(f"{k}: {v}" for k, v in row.items()) for row in rows]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0 when all went well, 1 when a check or a measurement failed, 2 without a GPU or CuPy, 3 when
    there was no time for some of them."""
    parser = argparse.ArgumentParser(prog="python -m tracejit.testing.gpu", description=__doc__)
    parser.add_argument("--report", type=Path, default=Path("gpu-report.json"))
    parser.add_argument("--seconds", type=float, default=450.0)
    parser.add_argument("--elements", type=int, default=1 << 28)
    parser.add_argument("--quick", action="store_true", help="small sizes, a moment for each")
    parser.add_argument("--only", default="", help="checks whose names start with this")
    parser.add_argument("--first", default="", help="a module that every process imports first")
    given = vars(parser.parse_args(arguments))
    path = given.pop("report")
    options = Options(**given)
    load_first(options.first)
    import tracejit as tj

    try:
        tj.cuda.init()
    except tj.errors.DeviceError as error:
        sys.stderr.write(f"{error.advice}\n")
        return 2
    found = run(path, options)
    sys.stdout.write(f"{summary(found)}\nreport: {path}\n")
    return _code(found)


def _code(found: dict[str, Any]) -> int:
    # What others cannot run is no failure of this.
    own = [n for n in found if not n.startswith(TOGETHER) or n == f"{TOGETHER}tracejit"]
    rows = [row for name in own if name != "seconds" for row in found[name]]
    if any("error" in row for row in rows):
        return 1
    return 3 if any("not run" in row for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
