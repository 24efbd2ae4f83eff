"""One implementation in a process of its own, driven over a pipe: one JSON request per line, one JSON answer.

``prepare`` builds a case and makes its first calls; ``time`` measures for some seconds; ``quit`` ends. The driver lets
one worker run at a time, so that all of them are measured over the same minutes without disturbing each other.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
import traceback
from typing import Any, TextIO

import backends
import workloads
from workloads import Call

#: Seconds a batch of calls lasts at least: far above the clock's resolution.
BATCH = 2e-4
#: Results are sent to the driver as this many elements of each.
SAMPLE = 512


class Worker:
    """Answers requests about one backend."""

    def __init__(self, backend: backends.Backend) -> None:
        self.backend = backend
        self.call: Call | None = None
        self.number = 1

    def load(self) -> dict[str, Any]:
        """Import what the backend needs."""
        start = time.perf_counter()
        __import__(self.backend.needs)
        return {"import": time.perf_counter() - start}

    def prepare(self, case: str, size: int, warm_up: float) -> dict[str, Any]:
        """Build a case; seconds of the first two calls, and a sample of what the third returned."""
        self.call = self.backend.make(workloads.find(case), size)
        first, second = self._seconds(1), self._seconds(1)
        sample = [x.reshape(-1)[:SAMPLE].tolist() for x in backends.arrays(self.call())]
        end = time.perf_counter() + warm_up
        while time.perf_counter() < end:
            self.call()
        self.number = max(1, round(BATCH / max(self._seconds(1), 1e-9)))
        return {"first": first, "second": second, "sample": sample}

    def time(self, seconds: float) -> dict[str, Any]:
        """Seconds per call: median and minimum over batches."""
        times: list[float] = []
        gc.collect()
        end = time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            times.append(self._seconds(self.number) / self.number)
        return {"median": statistics.median(times), "min": min(times), "batches": len(times)}

    def _seconds(self, number: int) -> float:
        call = self.call
        assert call is not None, "prepare comes first"
        start = time.perf_counter()
        for _ in range(number):
            call()
        return time.perf_counter() - start


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
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main() -> None:
    """Serve on standard input and output; whatever a framework prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(Worker(backends.find(sys.argv[1])), sys.stdin, answers)


if __name__ == "__main__":
    main()
