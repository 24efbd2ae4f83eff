"""How long a call takes: the median over enough calls for a time budget."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

_FEWEST, _MOST = 5, 2000


def median_time(call: Callable[[], Any], budget: float) -> float:
    """Seconds per call: the median of single calls made for ``budget`` seconds, 5 to 2000 of them.

    The caller warms up first. A median is used because other processes only ever make a call slower.
    """
    times: list[float] = []
    end = time.perf_counter() + budget
    while len(times) < _FEWEST or (time.perf_counter() < end and len(times) < _MOST):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """The result of one call and its seconds."""
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


def busy() -> str | None:
    """A warning when other programs use the processors, else None.

    Eager code suffers far more than compiled code then (the threads of its BLAS wait for one another at every small
    product), so a ratio of the two would flatter the compiler.
    """
    try:
        load, processors = os.getloadavg()[0], os.cpu_count() or 1
    except (AttributeError, OSError):  # not a POSIX system, or not to be had
        return None
    if load <= 0.5 * processors:
        return None
    return (
        f"other programs were using the processors (load {load:.1f} on {processors} CPUs): "
        "these times and ratios are not reliable"
    )
