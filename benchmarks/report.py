"""Showing a comparison: tables, JSON, a picture."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from backends import Backend
from measure import Figures, Row, Settings

from tracejit.cli import output

#: Above this share of the machine in others' hands, figures say little.
BUSY = 0.05
#: Columns of the tables in a file: none is cut.
WIDTH = 180
_PACKAGES = ("tracejit", "numpy", "numba", "llvmlite", "torch", "jax", "jaxlib")


def steady(figures: Figures) -> str:
    """Median, minimum and ratio to the best."""
    if figures.median is None or figures.minimum is None or figures.ratio is None:
        return "-"
    median, least = output.duration(figures.median), output.duration(figures.minimum)
    return f"{median} ({least}) {figures.ratio:.1f}x"


def start(figures: Figures) -> str:
    """First and second call."""
    if figures.first is None or figures.second is None:
        return "-"
    return f"{output.duration(figures.first)}, {output.duration(figures.second)}"


def imported(figures: Figures) -> str:
    """Time of the import."""
    return "-" if figures.imported is None else output.duration(figures.imported)


def tables(rows: Sequence[Row], backends: Sequence[Backend]) -> None:
    """Print steady state, first calls and imports, then why figures are missing."""
    _table("steady state: median (min), ratio to the best", rows, backends, steady)
    _table("fresh process, empty caches: first call, second call", rows, backends, start)
    _table("import", rows, backends, imported)
    for reason in dict.fromkeys(reasons(rows)):
        output.console().print(reason, markup=False)


def reasons(rows: Sequence[Row]) -> list[str]:
    """What is missing and why, and which rows were taken on a busy machine."""
    found = []
    for row in rows:
        for figures in row.figures:
            if figures.reason is not None:
                everywhere = "is not installed" in figures.reason
                place = "" if everywhere else f" on {row.case} {row.size:,}"
                found.append(f"{figures.backend}{place}: {figures.reason}")
        if row.busy is not None and row.busy > BUSY:
            found.append(
                f"{row.case} {row.size:,}: other processes used {row.busy:.0%} of the machine; repeat it"
            )
    return found


def _table(
    title: str, rows: Sequence[Row], backends: Sequence[Backend], cell: Callable[[Figures], str]
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    grid = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    grid.add_column("workload", no_wrap=True)
    for backend in backends:
        grid.add_column(backend.title, justify="right")
    for row in rows:
        grid.add_row(f"{row.case} {row.size:,}", *map(cell, row.figures))
    console = Console(highlight=False)
    (console if console.is_terminal else Console(highlight=False, width=WIDTH)).print(grid)


def as_json(rows: Sequence[Row], settings: Settings) -> dict[str, Any]:
    """Everything that was measured, with what it was measured on."""
    return {
        "machine": {
            "platform": platform.platform(),
            "processor": _processor(),
            "python": platform.python_version(),
            "threads": settings.threads,
            "packages": _versions(),
        },
        "settings": asdict(settings),
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


def plot(rows: Sequence[Row], backends: Sequence[Backend], path: Path) -> None:
    """Steady-state medians as grouped bars on a logarithmic axis."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 0.9 * len(rows) + 1.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    height = 0.8 / max(len(backends), 1)
    for number, backend in enumerate(backends):
        points = [(i, r.figures[number].median) for i, r in enumerate(rows)]
        known = [(i + number * height, m * 1e6) for i, m in points if m is not None]
        axes.barh([i for i, _ in known], [m for _, m in known], height, label=backend.title)
    middle = 0.4 - height / 2
    axes.set_yticks([i + middle for i in range(len(rows))], [f"{r.case} {r.size:,}" for r in rows])
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="microseconds per call (median)")
    axes.legend()
    figure.savefig(path, dpi=120)
