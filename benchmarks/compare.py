"""tracejit against eager, PyTorch and JAX, in one run: ``python benchmarks/compare.py [--json FILE] [--plot FILE]``.

Every implementation of every case runs in a fresh process of its own with empty caches; steady states are measured in
interleaved rounds. Implementations that are not installed are left out with the reason.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import report
from backends import BACKENDS
from measure import Row, Settings, known_backends, measure
from processes import usable_cpus
from workloads import CASES, Case

from tracejit.cli import output


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    found.add_argument(
        "--quick", action="store_true", help="small sizes and short rounds: a smoke test"
    )
    found.add_argument(
        "--only", action="append", default=[], choices=[c.name for c in CASES], metavar="CASE"
    )
    found.add_argument(
        "--backend",
        action="append",
        default=[],
        choices=[b.name for b in BACKENDS],
        metavar="BACKEND",
    )
    found.add_argument("--rounds", type=int, default=7)
    found.add_argument(
        "--seconds", type=float, default=0.3, help="of measurement per round and backend"
    )
    found.add_argument(
        "--patience",
        type=float,
        default=0.0,
        help="seconds to wait for an idle machine before a turn",
    )
    found.add_argument("--threads", type=int, default=usable_cpus())
    found.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    found.add_argument("--plot", type=Path, metavar="FILE", help="write a bar chart")
    return found


def programme(names: Sequence[str], quick: bool) -> list[tuple[Case, int]]:
    """The cases and sizes of a run."""
    chosen = [case for case in CASES if not names or case.name in names]
    return [(case, size) for case in chosen for size in ((case.small,) if quick else case.sizes)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; 1 when something was asked for and could not be measured."""
    options = parser().parse_args(arguments)
    chosen = known_backends(options.backend)
    threads, patience = options.threads, options.patience
    if options.quick:
        settings = Settings(2, 0.02, 0.02, threads, patience)
    else:
        settings = Settings(options.rounds, options.seconds, 1.0, threads, patience)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="tracejit-compare-") as scratch:
        for case, size in programme(options.only, options.quick):
            print(f"{case.name} {size:,} ...", file=sys.stderr, flush=True)
            rows.append(measure(case, size, chosen, settings, Path(scratch)))
    report.tables(rows, chosen)
    if options.json is not None:
        output.write_json(options.json, report.as_json(rows, settings))
    if options.plot is not None:
        report.plot(rows, chosen, options.plot)
    asked = set(options.backend)
    return int(any(f.median is None and f.backend in asked for row in rows for f in row.figures))


if __name__ == "__main__":
    sys.exit(main())
