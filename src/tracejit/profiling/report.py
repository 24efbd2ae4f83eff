"""A profile as text, as a trace file, as a roofline plot."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .floor import SIZES

if TYPE_CHECKING:
    from .profiles import KernelTime, Profile

_COLUMNS = (
    "kernel",
    "runs",
    "total",
    "share",
    "each",
    "bytes",
    "GB/s",
    "GFLOP/s",
    "x floor",
    "thr",
)


def text(profile: Profile) -> str:
    """The report."""
    if profile.note:
        return profile.note
    whole = sum(k.total for k in profile.kernels)
    rows = [_COLUMNS, *(_row(profile, k, whole) for k in profile.kernels)]
    lines = _aligned(rows)
    calls = [
        f"{c.name} ({c.kind}): {c.calls} times, median {_time(c.median)}" for c in profile.calls
    ]
    lines += ["", *calls] if calls else []
    if profile.seconds is not None:
        runs = next((c.calls for c in profile.calls if c.kind == "call"), 1)
        inside = sum(k.each * k.runs for k in profile.kernels) / runs
        lines.append(
            f"a call without stopwatch: {_time(profile.seconds)}; its kernels: {_time(inside)}"
        )
    lines.append(
        f"{profile.launches} launches, {profile.allocations} allocations "
        f"({_bytes(profile.allocated)}), {profile.threads} thread(s)"
    )
    floor = profile.floor
    rates = ", ".join(
        f"{_bytes(n)}: {b / 1e9:.0f} GB/s" for n, b in zip(SIZES, floor.bandwidths, strict=True)
    )
    lines.append(
        f"limits of the machine: copies {rates}; products {floor.matmul32 / 1e9:.0f} GFLOP/s (float32), "
        f"{floor.matmul64 / 1e9:.0f} (float64)"
    )
    return "\n".join(lines)


def _row(profile: Profile, kernel: KernelTime, whole: float) -> tuple[str, ...]:
    each = max(kernel.each, 1e-12)
    distance = profile.distance(kernel)
    return (
        kernel.name if kernel.kind != "library call" else f"{kernel.name} (library)",
        str(kernel.runs),
        _time(kernel.total),
        f"{kernel.total / whole:.0%}" if whole else "-",
        _time(kernel.each),
        _bytes(kernel.bytes),
        f"{kernel.bytes / each / 1e9:.1f}",
        f"{kernel.flops / each / 1e9:.1f}",
        "-" if distance is None else f"{distance:.1f}",
        str(kernel.threads),
    )


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns under one another: the first left, the others right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def _time(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def trace_events(profile: Profile) -> list[dict[str, Any]]:
    """Complete events of the Trace Event Format; microseconds from the first one on."""
    process = os.getpid()
    begin = min((start for _, _, start, *_ in profile.events), default=0)
    threads = {t: i for i, t in enumerate(dict.fromkeys(e[4] for e in profile.events))}
    found: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": process, "args": {"name": "tracejit"}},
        *(
            {
                "ph": "M",
                "name": "thread_name",
                "pid": process,
                "tid": i,
                "args": {"name": f"Python thread {i}"},
            }
            for i in threads.values()
        ),
    ]
    for name, kind, start, spent, thread, piece in profile.events:
        event = {
            "ph": "X",
            "name": name,
            "cat": kind,
            "pid": process,
            "tid": threads[thread],
            "ts": (start - begin) / 1e3,
            "dur": spent / 1e3,
        }
        if piece is not None:
            event["args"] = {
                "bytes": piece.bytes,
                "operations": piece.flops,
                "threads": piece.threads,
                "launches": piece.launches,
            }
        found.append(event)
    return found


def draw_roofline(profile: Profile, path: Path) -> None:
    """Operations a second over operations per byte, with the roofs of memory and of products."""
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    floor = profile.floor
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    # What is shorter than a tick of the clock has no rate.
    points = [k for k in profile.kernels if k.bytes and k.flops and k.total and k.each > 0]
    places = [k.flops / k.bytes for k in points]
    x = np.geomspace(min([0.05, *places]) / 2, max([100.0, *places]) * 2, 100)
    for nbytes, bandwidth in zip(SIZES, floor.bandwidths, strict=True):
        label = f"copies of {_bytes(nbytes)}"
        axes.plot(x, np.minimum(x * bandwidth, floor.matmul32) / 1e9, linewidth=0.8, label=label)
    whole = sum(k.total for k in points)
    for kernel, place in zip(points, places, strict=True):
        size = 20 + 300 * kernel.total / whole
        rate = kernel.flops / kernel.each / 1e9
        axes.scatter([place], [rate], s=size, alpha=0.6)
        axes.annotate(kernel.name, (place, rate), fontsize=7)
    axes.set(xscale="log", yscale="log", xlabel="operations per byte", ylabel="GFLOP/s")
    axes.set_title("area: share of the time")
    axes.legend(fontsize=7)
    figure.savefig(path, dpi=120)
