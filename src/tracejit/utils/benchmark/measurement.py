"""What timing a statement found."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np

__all__ = ["Measurement", "TaskSpec", "select_unit"]

_UNITS = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3))
#: Times that vary by more of their median than this are doubtful, and by more than the second one hardly times at all.
_WARNED, _DOUBTED = 0.1, 0.25


def select_unit(seconds: float) -> tuple[str, float]:
    """The unit in which a time reads well, and how many seconds it is.

    >>> select_unit(0.0042), select_unit(70.0)
    (('ms', 0.001), ('s', 1.0))
    """
    return next(((name, one) for name, one in _UNITS if seconds < 1000 * one), ("s", 1.0))


@dataclass(frozen=True)
class TaskSpec:
    """What was timed: the statement, and what it is called in tables."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement where there is none."""
        name = self.label or _one_line(self.stmt)
        return name if self.sub_label is None else f"{name}: {self.sub_label}"


@dataclass
class Measurement:
    """The seconds that blocks of ``number_per_run`` runs of a statement took.

    >>> found = Measurement(10, [0.1, 0.2, 0.3], TaskSpec("work()", ""))
    >>> found.times, found.median
    ([0.01, 0.02, 0.03], 0.02)
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = field(default=None)

    @property
    def times(self) -> list[float]:
        """Seconds of one run, block by block."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        """The median of the times."""
        return float(np.median(self.times))

    @property
    def mean(self) -> float:
        """The mean of the times."""
        return float(np.mean(self.times))

    @property
    def iqr(self) -> float:
        """The distance from the first quartile of the times to the third."""
        low, high = np.quantile(self.times, (0.25, 0.75))
        return float(high - low)

    @property
    def significant_figures(self) -> int:
        """How many digits of the median the spread of the times leaves standing, from 1 to 5."""
        if len(self.raw_times) < 2:
            return 5
        # The middle of the distribution is what is certain; its width over that of a normal one is the deviation.
        deviation = self.iqr / (2 * NormalDist().inv_cdf(0.75)) / math.sqrt(len(self.raw_times))
        width = max(2 * NormalDist().inv_cdf(0.975) * deviation, self.median * 1e-6)
        return min(5, max(1, int(round(math.log10(self.median / width), 6)) + 1)) if width else 5

    @property
    def has_warnings(self) -> bool:
        """Do the times vary so much that they say little?"""
        return not self.meets_confidence()

    def meets_confidence(self, threshold: float = _WARNED) -> bool:
        """Do the times vary by less than this part of their median?

        >>> Measurement(1, [1.0, 1.01, 0.99, 1.0], TaskSpec("", "")).meets_confidence()
        True
        """
        return self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        """The label of what was timed, or the statement."""
        return self.task_spec.title

    @property
    def env(self) -> str:
        """What tells environments apart in tables."""
        return self.task_spec.env or "Unspecified env"

    @property
    def as_row_name(self) -> str:
        """What the row of a table is called."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __getattr__(self, name: str) -> Any:
        if name == "task_spec" or not hasattr(self.task_spec, name):
            raise AttributeError(f"'Measurement' object has no attribute {name!r}")
        return getattr(self.task_spec, name)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Blocks of one task put together, task by task; runs per block are those of the first one.

        >>> one = Measurement(1, [1.0], TaskSpec("work()", ""))
        >>> Measurement.merge([one, one])[0].times
        [1.0, 1.0]
        """
        groups: dict[TaskSpec, list[Measurement]] = {}
        for one in measurements:
            groups.setdefault(one.task_spec, []).append(one)
        return [_merged(group) for group in groups.values()]

    def __repr__(self) -> str:
        spec, count = self.task_spec, len(self.raw_times)
        unit, seconds = select_unit(self.median)
        lines = [f"<{__name__}.Measurement object at {id(self):#x}>", self.title]
        lines += [spec.description] if spec.description else []
        lines += [f"setup: {_one_line(spec.setup)}"] if spec.setup not in ("", "pass") else []
        lines.append(f"  {'Median: ' if count > 1 else ''}{self.median / seconds:.2f} {unit}")
        if count > 3:
            lines.append(f"  IQR:    {self.iqr / seconds:.2f} {unit}")
        runs = f"{self.number_per_run} runs{' per measurement' if count > 1 else ''}"
        threads = f"{spec.num_threads} thread{'s' * (spec.num_threads > 1)}"
        lines.append(f"  {count} measurement{'s' * (count > 1)}, {runs}, {threads}")
        if count > 3 and not self.meets_confidence():
            spread = f"{100 * self.iqr / self.median:.0f} % of the median"
            much = "much " if not self.meets_confidence(_DOUBTED) else ""
            lines.append(f"  WARNING: times vary {much}(interquartile range {spread})")
        return "\n".join(lines)


def _merged(group: Sequence[Measurement]) -> Measurement:
    number = group[0].number_per_run
    times = [t * number for one in group for t in one.times]
    return Measurement(number, times, group[0].task_spec)


def _one_line(text: str) -> str:
    lines = text.strip().splitlines() or [""]
    return lines[0] if len(lines) == 1 else f"{lines[0]} ..."
