"""Pictures written to files, with matplotlib's Agg backend: no display is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def bar_chart(path: Path, labels: Sequence[str], ratios: Sequence[float]) -> None:
    """How many times faster compiled code is, one bar for each workload, on a logarithmic axis."""
    figure = _figure(8.0, 0.4 * len(labels) + 1.4)
    axes = figure.subplots()
    bars = axes.barh(labels, ratios, color="#4477aa")
    axes.bar_label(bars, [f"{r:.1f}x" for r in ratios], padding=3)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel("eager time / compiled time")
    _save(figure, path)


def training_curves(
    path: Path, losses: Mapping[str, Sequence[float]], times: Mapping[str, Sequence[float]]
) -> None:
    """The loss of every step (the curves should hide one another) and how long each step took."""
    figure = _figure(10.0, 4.0)
    left, right = figure.subplots(1, 2)
    for (name, curve), style in zip(losses.items(), ("-", "--"), strict=False):
        left.plot(curve, style, label=name)
    left.set(xlabel="step", ylabel="training loss", yscale="log")
    for name, seconds in times.items():
        right.plot([s * 1e6 for s in seconds], ".", markersize=2, label=name)
    right.set(xlabel="step", ylabel="microseconds per step", yscale="log")
    for axes in (left, right):
        axes.legend()
    _save(figure, path)


def _figure(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Any, path: Path) -> None:
    import click

    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:  # ValueError: no such picture format
        raise click.ClickException(f"cannot write the plot {path}: {error}") from None
