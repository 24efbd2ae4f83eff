"""One implementation in a process of its own, driven over a pipe: one JSON request per line, one JSON answer.

``prepare`` builds a case and makes its first calls, ``settle`` warms up, ``time`` measures for some seconds, ``peak``
reads the memory that calls need, ``resize`` makes first calls at another size, ``quit`` ends. The driver lets one
worker run at a time, so that all of them are measured over the same minutes without disturbing each other.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import statistics
import sys
import time
import traceback
from pathlib import Path
from typing import Any, TextIO

import backends
import workloads
from cases import At, Call

#: Seconds a batch of calls lasts at least: far above the clock's resolution.
BATCH = 2e-4
#: Results are sent to the driver as this many elements of each.
SAMPLE = 512
#: First calls that are timed one by one, and the seconds after which no more are made.
STARTS, START_SECONDS = 12, 2.0
#: The call whose results are compared: by then compiled code answers.
COMPARED = 3


class Worker:
    """Answers requests about one backend."""

    def __init__(self, backend: backends.Backend) -> None:
        self.backend = backend
        self.at: At | None = None
        self.call: Call | None = None
        self.number = 1

    def load(self) -> dict[str, Any]:
        """Import what the backend needs."""
        reason = self.backend.missing()
        if reason is not None:
            return {"missing": reason}
        start = time.perf_counter()
        __import__(self.backend.needs)
        return {"import": time.perf_counter() - start, "resident": _memory("VmRSS")}

    def prepare(self, case: str, size: list[int]) -> dict[str, Any]:
        """Build a case; seconds of its first calls, and a sample of what the third returned."""
        self.at = self.backend.make(workloads.find(case))
        return self.resize(size)

    def resize(self, size: list[int]) -> dict[str, Any]:
        """First calls at a size; the functions compiled before are used again."""
        assert self.at is not None, "prepare comes first"
        before = _kernels_compiled()
        self.call = self.at(tuple(size))
        starts, sample = [], []
        while len(starts) < COMPARED or (len(starts) < STARTS and sum(starts) < START_SECONDS):
            starts.append(self._seconds(1))
            if len(starts) == COMPARED - 1:
                begin = time.perf_counter()
                results = self.call()
                starts.append(time.perf_counter() - begin)
                sample = [_sample(backends.array(x)) for x in results]  # one copy at a time
        return {"starts": starts, "sample": sample, "kernels": _kernels_compiled() - before}

    def settle(self, seconds: float) -> dict[str, Any]:
        """Warm up, and find how many calls make a batch; the median of the later half of the calls."""
        times = [self._seconds(1)]
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            times.append(self._seconds(1))
        self.number = max(1, round(BATCH / max(self._seconds(1), 1e-9)))
        return {"batch": self.number, "median": statistics.median(times[len(times) // 2 :])}

    def time(self, seconds: float) -> dict[str, Any]:
        """Seconds per call: median and minimum over batches."""
        times: list[float] = []
        gc.collect()
        end = time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            times.append(self._seconds(self.number) / self.number)
        return {"median": statistics.median(times), "min": min(times), "batches": len(times)}

    def peak(self) -> dict[str, Any]:
        """The most memory that was resident during two calls; None where the system does not say."""
        gc.collect()
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
        self._seconds(2)
        return {"peak": _memory("VmHWM")}

    def _seconds(self, number: int) -> float:
        call = self.call
        assert call is not None, "prepare comes first"
        start = time.perf_counter()
        for _ in range(number):
            call()
        return time.perf_counter() - start


def _sample(array: Any) -> list[float]:
    """Elements from everywhere in an array."""
    flat = array.reshape(-1)
    found: list[float] = flat[:: max(1, -(-flat.size // SAMPLE))].tolist()
    return found


def _memory(name: str) -> int | None:
    """A line of this process's memory status in bytes."""
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(x for x in lines if x.startswith(name)).split()[1]) * 1024
    return None


def _kernels_compiled() -> int:
    """How many kernels tracejit has compiled in this process."""
    module = sys.modules.get("tracejit.runtime.machine_code.kernels")
    counts = getattr(module, "COUNTS", None)  # a thread may be importing the module
    return int(counts.compiled) if counts is not None else 0


def serve(worker: Worker, requests: TextIO, answers: TextIO) -> None:
    """Answer until the requests end; an exception is an answer too."""
    for line in requests:
        request = json.loads(line)
        action = request.pop("do")
        if action == "quit":
            return
        try:
            answer = getattr(worker, action)(**request)
        except Exception as error:  # noqa: BLE001  (the driver decides what it means)
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def keep_to(threads: int) -> None:
    """Use so many CPUs only: some frameworks take their number of threads from that and from nothing else."""
    if hasattr(os, "sched_setaffinity"):
        usable = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, usable[-threads:])


def main() -> None:
    """Serve on standard input and output; whatever a framework prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if len(sys.argv) > 2:
        keep_to(int(sys.argv[2]))
    serve(Worker(backends.find(sys.argv[1])), sys.stdin, answers)


if __name__ == "__main__":
    main()
