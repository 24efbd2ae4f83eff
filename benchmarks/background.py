"""What ``compile(mode="background")`` costs and saves: ``python benchmarks/background.py [CASE ...]``.

Every figure is of a fresh process with an empty store. An eager process tells the time of its first and later calls; a
compiled one how long its second call waits for kernels; one in background mode how long the first call takes, the
slowest and the median call while kernels are made, and when all of them are there.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import backends
import workloads

CASES = ("branch", "digits_adam", "black_scholes_grad", "lstm", "gpt_128")
MODES = ("tracejit-eager", "tracejit", "tracejit-background")
#: Calls after which nothing more is waited for.
MOST = 2000


def measure(case: str, mode: str) -> dict[str, Any]:
    """Calls in this process until they are compiled."""
    from tracejit.runtime.behind import worker
    from tracejit.runtime.machine_code import kernels

    found = workloads.find(case)
    call = backends.find(mode).make(found)(found.main)
    times: list[float] = []
    begin = time.perf_counter()
    ready: float | None = None
    while len(times) < (MOST if mode == "tracejit-background" else 6):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
        asked = len(times) > 2  # the second call is recorded, and has kernels made
        if mode == "tracejit-background" and asked and worker().wait(0.0):
            ready = time.perf_counter() - begin
            break
    return {
        "first": times[0],
        "second": times[1] if len(times) > 1 else None,
        "median": statistics.median(times[1:] or times),
        "slowest": max(times[1:] or times),
        "calls": len(times),
        "ready": ready,
        "kernels": kernels.COUNTS.compiled,
    }


def fresh(case: str, mode: str) -> dict[str, Any]:
    """The same in a process of its own with an empty store."""
    with tempfile.TemporaryDirectory() as store:
        done = subprocess.run(
            [sys.executable, __file__, "--measure", case, mode],
            env={**os.environ, "TRACEJIT_CACHE_DIR": store},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(*sys.argv[2:])))
        return
    for case in sys.argv[1:] or CASES:
        for mode in MODES:
            found = fresh(case, mode)
            shown = {
                k: f"{v * 1e3:.2f} ms" if isinstance(v, float) else v for k, v in found.items()
            }
            print(case, mode, shown, flush=True)


if __name__ == "__main__":
    main()
