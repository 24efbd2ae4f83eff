"""Running a statement until its time is known."""

from __future__ import annotations

import enum
import sys
import textwrap
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ... import accelerator
from ...errors import ArgumentValueError
from ...settings import get_num_threads, set_num_threads
from .measurement import Measurement, TaskSpec

__all__ = ["Language", "Timer", "timer"]


class Language(enum.Enum):
    """What statements are written in: Python."""

    PYTHON = 0


def timer() -> float:
    """Seconds on a clock, once devices have done what they were given.

    >>> before = timer()
    >>> timer() >= before
    True
    """
    if accelerator.is_available():
        accelerator.synchronize()
    return timeit.default_timer()


class Timer:
    """Times the statement ``stmt``, run after ``setup`` with the names in ``globals``, on ``num_threads`` threads.

    ``label``, ``sub_label``, ``description`` and ``env`` are what tables call it. The package itself is known as
    ``tracejit``, and as ``torch`` where ``globals`` do not say otherwise. Raises ``ValueError`` for C++.

    >>> import tracejit as tj
    >>> from tracejit.utils.benchmark import Timer
    >>> found = Timer("x + 1", globals={"x": tj.ones(3)}).timeit(100)
    >>> found.number_per_run, found.median > 0
    (100, True)
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if str(getattr(language, "name", language)).lower() not in ("py", "python"):
            raise ArgumentValueError(f"only statements in Python are timed, not in {language}")
        if global_setup:
            raise ArgumentValueError("global_setup is for statements in C++")
        package = sys.modules[__name__.partition(".")[0]]
        names = {"tracejit": package, "torch": package, **(globals or {})}
        stmt, setup = (textwrap.dedent(text).strip() for text in (stmt, setup))
        self._timer = timeit.Timer(stmt or "pass", setup or "pass", timer, names)
        self._task_spec = TaskSpec(stmt, setup, "", label, sub_label, description, env, num_threads)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One block of ``number`` runs, after a few to warm up.

        >>> Timer("sum([1, 2])").timeit(10).raw_times[0] > 0
        True
        """
        with self._threads():
            self._timer.timeit(max(number // 100, 2))
            return self._found(number, [self._timer.timeit(number)])

    def blocked_autorange(
        self,
        callback: Callable[[int, float], Any] | None = None,
        min_run_time: float = 0.2,
    ) -> Measurement:
        """Blocks of so many runs that reading the clock costs nothing, until ``min_run_time`` seconds have passed.

        ``callback(runs, seconds)`` is called after every block.

        >>> len(Timer("sum([1, 2])").blocked_autorange(min_run_time=0.001).times) > 0
        True
        """
        return self._blocks(callback, min_run_time, lambda times: True, None)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Blocks of runs until their times vary by less than ``threshold`` of their median, or for ``max_run_time``.

        >>> Timer("sum([1, 2])").adaptive_autorange(0.5, min_run_time=0.001, max_run_time=0.1).median > 0
        True
        """

        def settled(times: list[float]) -> bool:
            return len(times) > 3 and self._found(1, times).meets_confidence(threshold)

        return self._blocks(callback, min_run_time, settled, max_run_time)

    def _blocks(
        self,
        callback: Callable[[int, float], Any] | None,
        least: float,
        settled: Callable[[list[float]], bool],
        most: float | None,
    ) -> Measurement:
        with self._threads():
            number = self._block_size(least)
            times: list[float] = []
            total = 0.0
            while total < least or not settled(times):
                if most is not None and total > most:
                    break
                times.append(self._timer.timeit(number))
                total += times[-1]
                if callback is not None:
                    callback(number, times[-1])
            return self._found(number, times)

    def _block_size(self, least: float) -> int:
        """So many runs that the clock is a thousandth of their time, or that a thousand blocks would do."""
        clock = min(timeit.repeat("pass", repeat=5, number=100)) / 100
        overhead = max(clock, min(self._idle() for _ in range(5)))
        number = 1
        while True:
            taken = self._timer.timeit(number)
            if taken >= overhead * 1000 or (taken >= least / 1000 and taken > overhead * 10):
                return number
            if taken >= least:
                return number
            number *= 10

    def _idle(self) -> float:
        """What a block of no runs takes."""
        return self._timer.timeit(0)

    def _found(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, self._task_spec)

    @contextmanager
    def _threads(self) -> Iterator[None]:
        before = get_num_threads()
        set_num_threads(self._task_spec.num_threads)
        try:
            yield
        finally:
            set_num_threads(before)
