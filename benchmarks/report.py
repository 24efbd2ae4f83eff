"""Showing a comparison: tables and JSON."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from backends import Backend
from cases import label
from measure import Figures, Row

from tracejit.cli import output

#: Above this share of the machine in others' hands, figures say little.
BUSY = 0.05
#: Columns of the tables in a file: none is cut.
WIDTH = 240
_PACKAGES = ("tracejit", "numpy", "numba", "llvmlite", "torch", "jax", "jaxlib")
OURS = ("tracejit", "tracejit-step")


def _seconds(value: float | None) -> str:
    return "-" if value is None else output.duration(value)


def steady(figures: Figures) -> str:
    """Median and minimum."""
    return (
        "-"
        if figures.median is None
        else f"{_seconds(figures.median)} ({_seconds(figures.minimum)})"
    )


def start(figures: Figures) -> str:
    """First call and time until steady, cold; the same with a warm store."""
    if not figures.starts:
        return "-"
    cold = f"{_seconds(figures.starts[0])}, {_seconds(figures.settled)}"
    if not figures.warm:
        return cold
    return f"{cold} | {_seconds(figures.warm[0])}, {_seconds(figures.warm_settled)}"


def resized(figures: Figures) -> str:
    """First and second call at another size, and kernels compiled for it."""
    if not figures.resized:
        return "-"
    text = f"{_seconds(figures.resized[0])}, {_seconds(figures.resized[1])}"
    return text if figures.kernels is None else f"{text} ({figures.kernels})"


def memory(figures: Figures) -> str:
    """Peak resident memory, and what of it came after the import."""
    if figures.peak is None or figures.resident is None:
        return "-"
    return f"{output.size(figures.peak)} ({output.size(max(0, figures.peak - figures.resident))})"


def ours(row: Row) -> Figures | None:
    """The faster of our two compiled forms."""
    found = [f for f in row.figures if f.backend in OURS and f.median is not None]
    return min(found, key=lambda f: f.median or 0.0, default=None)


def speed(row: Row) -> str:
    """How many times faster than the best peer."""
    best = ours(row)
    return "-" if best is None or best.speed is None else f"{best.speed:.2f}x"


def distance(row: Row) -> str:
    """How many times the floor."""
    best = ours(row)
    return "-" if best is None or best.median is None else f"{best.median / row.floor:.1f}x"


def tables(rows: Sequence[Row], backends: Sequence[Backend]) -> None:
    """Print steady states, starts, sizes, memory, a summary, then why figures are missing."""
    columns = {"best peer / ours": speed, "ours / floor": distance}
    _table("steady state: median (minimum) of a call", rows, backends, steady, columns)
    full = [row for row in rows if row.full]
    _table(
        "empty caches: first call, until steady | warm store: the same", full, backends, start, {}
    )
    _table("another size: first call, second call (kernels compiled)", full, backends, resized, {})
    _table("peak memory (above the import)", full, backends, memory, {})
    for line in (*summary(rows), *dict.fromkeys(reasons(rows))):
        output.console().print(line, markup=False)


def summary(rows: Sequence[Row]) -> list[str]:
    """One line per number of threads: how often ahead, and the geometric mean."""
    found = []
    for threads in sorted({row.threads for row in rows}, reverse=True):
        best = [ours(row) for row in rows if row.threads == threads]
        speeds = [f.speed for f in best if f is not None and f.speed is not None]
        if speeds:
            mean = math.exp(sum(map(math.log, speeds)) / len(speeds))
            ahead = sum(s >= 1.0 for s in speeds)
            found.append(
                f"{threads} thread(s): ahead of the best peer on {ahead} of {len(speeds)} rows, "
                f"geometric mean {mean:.2f}x, least {min(speeds):.2f}x"
            )
    return found


def reasons(rows: Iterable[Row]) -> list[str]:
    """What is missing and why, and which rows were taken on a busy machine."""
    found = []
    for row in rows:
        place = f"{row.case} {label(row.size)}, {row.threads} thread(s)"
        for figures in row.figures:
            if figures.reason is not None:
                everywhere = "is not installed" in figures.reason
                where = "" if everywhere else f" on {place}"
                found.append(f"{figures.backend}{where}: {figures.reason}")
        if row.alone:
            found.append(f"{place}: one process after the other, not interleaved (memory)")
        if row.busy is not None and row.busy > BUSY:
            found.append(f"{place}: other processes used {row.busy:.0%} of the machine; repeat it")
    return found


def _table(
    title: str,
    rows: Sequence[Row],
    backends: Sequence[Backend],
    cell: Callable[[Figures], str],
    columns: dict[str, Callable[[Row], str]],
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    if not rows:
        return
    grid = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    grid.add_column("workload", no_wrap=True)
    grid.add_column("threads", justify="right")
    for name in (*(b.title for b in backends), *columns):
        grid.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        by_name = {f.backend: f for f in row.figures}
        cells = [cell(by_name[b.name]) if b.name in by_name else "-" for b in backends]
        extra = [f(row) for f in columns.values()]
        grid.add_row(f"{row.case} {label(row.size)}", str(row.threads), *cells, *extra)
    console = Console(highlight=False)
    (console if console.is_terminal else Console(highlight=False, width=WIDTH)).print(grid)


def as_json(rows: Sequence[Any], settings: Any, **more: Any) -> dict[str, Any]:
    """Everything that was measured, with what it was measured on."""
    return {
        "machine": {
            "platform": platform.platform(),
            "processor": _processor(),
            "python": platform.python_version(),
            "packages": _versions(),
        },
        "settings": {name: x for name, x in asdict(settings).items() if name != "end"},
        **more,
        "rows": [asdict(row) for row in rows],
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), "")


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
