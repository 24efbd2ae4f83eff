"""Everything that needs a GPU, in one command: ``python -m tracejit.testing.gpu``.

It checks numerics, measures bandwidth, the cost of calls and programs, and writes one report (JSON, with a summary as
text on standard output). It keeps to a time limit: what does not fit is listed as not run. Without a GPU it says why
and ends with code 2.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
_PACKAGES = ("tracejit", "numpy", "llvmlite", "cupy", "torch", "jax")


class Report:
    """What was found, written to a file after every section so that nothing is lost."""

    def __init__(self, path: Path, seconds: float) -> None:
        self.path = path
        self.end = time.monotonic() + seconds
        self.found: dict[str, Any] = {}

    @property
    def over(self) -> bool:
        """Is the time up?"""
        return time.monotonic() > self.end

    def section(self, name: str, rows: Iterable[Row]) -> None:
        """Take the rows of a section as long as there is time; an error ends the section and is its last row."""
        start, taken = time.monotonic(), list[Row]()
        self.found[name] = taken
        try:
            for row in rows:
                taken.append(row)
                if self.over:
                    taken.append({"not run": "the time was up"})
                    break
        except Exception:  # noqa: BLE001  (one report has to hold whatever goes wrong)
            taken.append({"error": traceback.format_exc()})
        self.found["seconds"] = {
            **self.found.get("seconds", {}),
            name: round(time.monotonic() - start, 1),
        }
        self.path.write_text(json.dumps(self.found, indent=1, default=str), encoding="utf-8")


def versions() -> Iterable[Row]:
    """Packages, driver and devices.

    >>> next(iter(versions()))["package"]
    'python'
    """
    yield {"package": "python", "version": platform.python_version()}
    for name in _PACKAGES:
        try:
            found = importlib.import_module(name)
        except ImportError:
            continue
        yield {"package": name, "version": getattr(found, "__version__", "?")}
    import tracejit as tj
    from tracejit.codegen.cuda_cubin import assembler

    known = assembler()
    yield {"package": "assembler", "version": known.name if known else "none: the driver assembles"}
    for index in range(tj.cuda.device_count()):
        yield {
            "device": tj.cuda.get_device_name(index),
            "capability": tj.cuda.get_device_capability(index),
        }


def numerics(report: Report, only: Callable[[str], bool]) -> Iterable[Row]:
    """Every check: what failed, with its error, and how many passed."""
    from .gpu_checks import checks

    passed = 0
    for name, check in checks():
        if not only(name):
            continue
        if report.over:
            yield {"check": name, "not run": "the time was up"}
            continue
        try:
            check()
            passed += 1
        except Exception as error:  # noqa: BLE001
            where = traceback.format_exc().splitlines()[-8:]
            yield {"check": name, "failed": f"{type(error).__name__}: {error}", "where": where}
    yield {"passed": passed}


def run(path: Path, seconds: float, elements: int, quick: bool, only: str = "") -> dict[str, Any]:
    """All sections; the report.

    ``elements`` is the size of bandwidth measurements, ``quick`` takes the small sizes of the programs and less time
    for each, ``only`` the checks whose names start with it.
    """
    from . import gpu_timing
    from .gpu_jax import prepare

    prepare()
    report = Report(path, seconds)
    report.section("versions", versions())
    report.section("numerics", numerics(report, lambda name: name.startswith(only)))
    report.section("launch cost", gpu_timing.launch_cost())
    each = 0.02 if quick else 0.5
    report.section("bandwidth", gpu_timing.bandwidth(elements, each))
    report.section(
        "attention", gpu_timing.attention((1, 4, 4) if quick else (4, 8, 1024, 64), each)
    )
    report.section("programs", gpu_timing.speeds(lambda w: w.quick if quick else w.sizes[-1], each))
    return report.found


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
    """The command; 0 when every check passed, 1 when one failed, 2 without a GPU."""
    parser = argparse.ArgumentParser(prog="python -m tracejit.testing.gpu", description=__doc__)
    parser.add_argument("--report", type=Path, default=Path("gpu-report.json"))
    parser.add_argument("--seconds", type=float, default=450.0)
    parser.add_argument("--elements", type=int, default=1 << 28)
    parser.add_argument("--quick", action="store_true", help="small sizes of the programs")
    parser.add_argument("--only", default="", help="checks whose names start with this")
    given = parser.parse_args(arguments)
    import tracejit as tj

    if not tj.cuda.is_available():
        sys.stderr.write(f"no GPU can be used: {tj.cuda.why_unavailable()}\n")
        return 2
    found = run(given.report, given.seconds, given.elements, given.quick, given.only)
    sys.stdout.write(f"{summary(found)}\nreport: {given.report}\n")
    bad = [row for row in found["numerics"] if "failed" in row or "error" in row]
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
