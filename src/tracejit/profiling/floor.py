"""What the machine can do: copy bandwidth and the rate of matrix products (``python -m tracejit.profiling.floor N``).

No program moves its data faster than a copy moves it, and none multiplies faster than BLAS multiplies large matrices.
The time below which a computation cannot go is the larger of the two.
"""

from __future__ import annotations

import bisect
import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np

__all__ = ["SIZES", "Floor", "asked", "machine"]

#: Bytes read and written by one copy; below the third the data stays in the caches of one core.
SIZES = (1 << 16, 1 << 20, 1 << 24, 1 << 28)
SIDE = 1024
SECONDS = 0.15


@dataclass(frozen=True)
class Floor:
    """Measured limits with some number of threads; bandwidths (bytes a second) belong to ``SIZES``."""

    threads: int
    bandwidths: tuple[float, ...]
    matmul32: float
    matmul64: float

    def seconds(self, traffic: float, flops: float, double: bool = False) -> float:
        """The least time for so many bytes and operations.

        >>> Floor(1, (4e10, 3e10, 2e10, 1e10), 1e11, 5e10).seconds(1e9, 0.0)
        0.1
        """
        place = min(bisect.bisect_left(SIZES, traffic), len(SIZES) - 1)
        peak = self.matmul64 if double else self.matmul32
        return max(traffic / self.bandwidths[place], flops / peak)


def measured(threads: int) -> Floor:
    """Measure here; BLAS is told its number of threads by the environment."""
    bandwidths = tuple(_bandwidth(nbytes, threads) for nbytes in SIZES)
    return Floor(threads, bandwidths, _products(np.float32), _products(np.float64))


def asked(threads: int, environment: Mapping[str, str]) -> Floor:
    """Measure in a process of its own, whose BLAS takes its number of threads from ``environment``.

    >>> asked(1, {**os.environ, "OPENBLAS_NUM_THREADS": "1"}).matmul32 > 1e6
    True
    """
    import json
    import subprocess

    done = subprocess.run(
        [sys.executable, "-m", __name__, str(threads)],
        env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = json.loads(done.stdout)
    return Floor(**{**found, "bandwidths": tuple(found["bandwidths"])})


@lru_cache(maxsize=8)
def machine(threads: int) -> Floor:
    """The limits of this machine with so many threads; measured once (about two seconds)."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return asked(threads, {**os.environ, **dict.fromkeys(names, str(threads))})


def _bandwidth(nbytes: int, threads: int) -> float:
    """Every thread copies its own part for a while; small copies are left to one thread."""
    threads = threads if nbytes >= SIZES[2] else 1
    rates = [0.0] * threads
    barrier = threading.Barrier(threads)

    def run(number: int) -> None:
        source = np.ones(nbytes // 2 // threads, np.uint8)
        target = np.zeros_like(source)
        np.copyto(target, source)
        barrier.wait()
        start, copies = time.perf_counter(), 0
        while (spent := time.perf_counter() - start) < SECONDS or not copies:
            for _ in range(max(1, (1 << 22) // nbytes)):
                np.copyto(target, source)
                copies += 1
        rates[number] = 2.0 * source.nbytes * copies / spent

    workers = [threading.Thread(target=run, args=(n,)) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(rates)


def _products(dtype: type) -> float:
    """Operations a second of the best of a few large products."""
    a: np.ndarray = np.random.default_rng(0).random((SIDE, SIDE)).astype(dtype)
    out = np.empty_like(a)
    np.matmul(a, a, out=out)
    best, end = float("inf"), time.perf_counter() + 4 * SECONDS
    while best == float("inf") or time.perf_counter() < end:
        start = time.perf_counter()
        np.matmul(a, a, out=out)
        best = min(best, time.perf_counter() - start)
    return 2.0 * SIDE**3 / best


if __name__ == "__main__":
    import json

    sys.stdout.write(json.dumps(asdict(measured(int(sys.argv[1])))))
