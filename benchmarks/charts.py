"""Pictures of a comparison: speeds against the best peer, and time over size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from backends import Backend
from cases import label
from measure import Row


def plot(rows: Sequence[Row], backends: Sequence[Backend], path: Path) -> None:
    """Steady-state medians: grouped bars, and a curve for every case with several sizes."""
    curves = _curves(rows)
    bars = [row for row in rows if any(f.median is not None for f in row.figures)]
    figure = _figure(9.0, 0.9 * len(bars) + 1.5 + 3.5 * len(curves))
    heights = [0.9 * len(bars) + 1.5, *(3.5 for _ in curves)]
    axes = figure.subplots(1 + len(curves), 1, height_ratios=heights, squeeze=False)[:, 0]
    _bars(axes[0], bars, backends)
    for place, (name, found) in zip(axes[1:], curves.items(), strict=True):
        _curve(place, name, found, backends)
    figure.savefig(path, dpi=110)


def _figure(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _median(row: Row, name: str) -> float | None:
    return next((f.median for f in row.figures if f.backend == name), None)


def _bars(axes: Any, rows: Sequence[Row], backends: Sequence[Backend]) -> None:
    height = 0.8 / max(len(backends), 1)
    for number, backend in enumerate(backends):
        found = [(i, _median(row, backend.name)) for i, row in enumerate(rows)]
        known = [(i + number * height, m * 1e6) for i, m in found if m is not None]
        if known:
            places, times = zip(*known, strict=True)
            axes.barh(places, times, height=height, label=backend.title)
    for i, row in enumerate(rows):
        axes.plot([row.floor * 1e6] * 2, [i - height / 2, i + 0.8 - height / 2], "k:")
    names = [f"{row.case} {label(row.size)} ({row.threads})" for row in rows]
    axes.set_yticks([i + 0.4 - height / 2 for i in range(len(rows))], names)
    axes.set(xscale="log", xlabel="microseconds per call (dotted: the floor)")
    axes.invert_yaxis()
    if rows:
        axes.legend()


def _curves(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Cases measured at three sizes or more with the most threads, by size of work."""
    most = max((row.threads for row in rows), default=0)
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.threads == most:
            found.setdefault(row.case, []).append(row)
    return {
        name: sorted(known, key=lambda row: row.floor)
        for name, known in found.items()
        if len(known) >= 3
    }


def _curve(axes: Any, name: str, rows: Sequence[Row], backends: Sequence[Backend]) -> None:
    for backend in backends:
        known = [(i, m) for i, row in enumerate(rows) if (m := _median(row, backend.name))]
        if known:
            places, times = zip(*known, strict=True)
            axes.plot(places, [t * 1e6 for t in times], "o-", label=backend.title)
    axes.plot(range(len(rows)), [row.floor * 1e6 for row in rows], "k:", label="floor")
    axes.set_xticks(range(len(rows)), [label(row.size) for row in rows])
    axes.set(yscale="log", ylabel="microseconds per call", title=name)
    axes.legend()
