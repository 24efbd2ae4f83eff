"""How long a call takes: the median over enough calls for a time budget."""

from __future__ import annotations

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
