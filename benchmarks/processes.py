"""Workers from the driver's side, and how busy the rest of the machine is."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WORKER = Path(__file__).with_name("worker.py")


class WorkerError(Exception):
    """A worker answered with an error, ended, or did not answer in time."""


class Process:
    """A worker process. Use as a context manager: it ends with the block."""

    def __init__(
        self,
        backend: str,
        environment: Mapping[str, str],
        log: Path,
        python: str = sys.executable,
        threads: int | None = None,
    ) -> None:
        self.backend = backend
        self.log = log
        limit = [] if threads is None else [str(threads)]
        with log.open("w") as errors:
            self.child = subprocess.Popen(
                [python, str(WORKER), backend, *limit],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        if self.child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child.pid, signal.SIGKILL)  # with the compilers it started
        self.child.wait()
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.close()
        self.child.stdout.close()

    def ask(self, action: str, timeout: float, **arguments: Any) -> dict[str, Any]:
        """One request and its answer; :class:`WorkerError` when there is none."""
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        try:
            self.child.stdin.write(json.dumps({"do": action, **arguments}).encode() + b"\n")
            self.child.stdin.flush()
            ready, _, _ = select.select([self.child.stdout], [], [], timeout)
            line = self.child.stdout.readline() if ready else None
        except BrokenPipeError:
            line = b""
        if line is None:
            raise WorkerError(f"no answer within {timeout:.0f} s")
        if not line:
            raise WorkerError(f"the process ended: {_last_line(self.log)}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def environment(scratch: Path, threads: int) -> dict[str, str]:
    """Threads for every framework, and every cache in a directory of this run, so that first calls are cold."""
    count = str(threads)
    folders = {
        "TRACEJIT_CACHE_DIR": scratch / "tracejit",
        "TORCHINDUCTOR_CACHE_DIR": scratch / "inductor",
        "TRITON_CACHE_DIR": scratch / "triton",
        "JAX_COMPILATION_CACHE_DIR": scratch / "jax",
        "NUMBA_CACHE_DIR": scratch / "numba",
        "XDG_CACHE_HOME": scratch / "cache",
        "TMPDIR": scratch / "tmp",
    }
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    return {
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        "TRACEJIT_NUM_THREADS": count,
        # JAX keeps what was dear to compile only, unless it is told to keep all.
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_PLATFORMS": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
        **{name: str(folder) for name, folder in folders.items()},
    }


def usable_cpus() -> int:
    """CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def busy_share(seconds: float) -> float | None:
    """The share of all CPU time that others use while this process sleeps; None where it cannot be read."""
    before = _cpu_times()
    time.sleep(seconds)
    after = _cpu_times()
    if before is None or after is None or after[1] <= before[1]:
        return None
    return max(0.0, 1.0 - (after[0] - before[0]) / (after[1] - before[1]))


def wait_for_quiet(patience: float, enough: float = 0.05) -> None:
    """Return when others leave the machine alone, or after ``patience`` seconds."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        share = busy_share(0.1)
        if share is None or share <= enough:
            return


def _cpu_times() -> tuple[int, int] | None:
    """Idle and total time of all CPUs, from /proc/stat."""
    try:
        fields = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    return fields[3] + fields[4], sum(fields)


def available_memory() -> float:
    """Bytes that can be taken without swapping; infinity where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return float(next(x for x in lines if x.startswith("MemAvailable")).split()[1]) * 1024
    except (OSError, StopIteration, ValueError):
        return float("inf")
