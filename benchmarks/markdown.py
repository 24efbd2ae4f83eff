"""The tables of docs/performance.md from what ``peers.py --json`` wrote: ``python benchmarks/markdown.py FILE...``.

Of a workload that several files hold, the last one counts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cases import label

from tracejit.cli import output

Figures = dict[str, Any]
Column = tuple[str, Callable[["Workload"], str]]
OURS = ("tracejit", "tracejit-step")
PEERS = ("torch-eager", "torch-compile", "jax")


class Workload:
    """A row of a run, by implementation; what was not measured is empty."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.name = f"`{row['case']}` {label(tuple(row['size']))}"
        self.row = row
        self.by_backend: dict[str, Figures] = {f["backend"]: f for f in row["figures"]}

    def best(self, names: Sequence[str]) -> float | None:
        """The least median of some implementations."""
        found = [self.by_backend.get(name, {}).get("median") for name in names]
        return min((x for x in found if x is not None), default=None)

    def ratio(self) -> str:
        """The best peer's time over ours."""
        ours, best = self.best(OURS), self.best(PEERS)
        return "-" if ours is None or best is None else f"{best / ours:.2f}"

    def distance(self) -> str:
        """Our time over the floor; empty where a call has next to nothing to do."""
        ours, floor = self.best(OURS), self.row["floor"]
        return "" if ours is None or floor < 0.05 * ours else f"{ours / floor:.1f}"


def _time(backend: str, of: Callable[[Figures], float | None]) -> Callable[[Workload], str]:
    def cell(workload: Workload) -> str:
        value = of(workload.by_backend.get(backend, {}))
        return "-" if value is None else output.duration(value)

    return cell


def _median(backend: str) -> Callable[[Workload], str]:
    return _time(backend, lambda f: f.get("median"))


def _first(backend: str, kind: str) -> Callable[[Workload], str]:
    return _time(backend, lambda f: next(iter(f.get(kind) or ()), None))


def _settled(backend: str) -> Callable[[Workload], str]:
    return _time(backend, lambda f: f.get("settled"))


def _peak(backend: str) -> Callable[[Workload], str]:
    """MiB above the import."""

    def cell(workload: Workload) -> str:
        found = workload.by_backend.get(backend, {})
        if found.get("peak") is None or found.get("resident") is None:
            return "-"
        return f"{max(0, found['peak'] - found['resident']) / 2**20:,.0f}"

    return cell


STEADY: tuple[Column, ...] = (
    ("workload", lambda w: w.name),
    ("compiled", _median("tracejit")),
    ("whole step", _median("tracejit-step")),
    ("PyTorch eager", _median("torch-eager")),
    ("torch.compile", _median("torch-compile")),
    ("JAX jit", _median("jax")),
    ("best of the three / ours", Workload.ratio),
    ("ours / floor", Workload.distance),
)
STARTS: tuple[Column, ...] = (
    ("workload", lambda w: w.name),
    ("first call", _first("tracejit", "starts")),
    ("until steady", _settled("tracejit")),
    ("JAX: first call", _first("jax", "starts")),
    ("until steady", _settled("jax")),
    ("torch.compile: first call", _first("torch-compile", "starts")),
    ("warm store", _first("tracejit", "warm")),
    ("JAX's cache", _first("jax", "warm")),
    ("new size", _first("tracejit", "resized")),
    ("JAX", _first("jax", "resized")),
    ("peak MiB", _peak("tracejit")),
    ("whole step", _peak("tracejit-step")),
    ("PyTorch", _peak("torch-eager")),
    ("JAX", _peak("jax")),
)


def table(columns: Sequence[Column], workloads: Sequence[Workload]) -> Iterator[str]:
    """The lines of a table."""
    yield f"| {' | '.join(title for title, _ in columns)} |"
    yield "|" + "---|" * len(columns)
    for workload in workloads:
        yield f"| {' | '.join(cell(workload) for _, cell in columns)} |"


def main(files: Sequence[str]) -> int:
    """Print the two tables of the rows with most threads."""
    rows = [row for name in files for row in json.loads(Path(name).read_text())["rows"]]
    most = max((row["threads"] for row in rows), default=0)
    last = {(r["case"], tuple(r["size"])): Workload(r) for r in rows if r["threads"] == most}
    full = [workload for workload in last.values() if workload.row["full"]]
    print("\n".join((*table(STEADY, list(last.values())), "", *table(STARTS, full))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
