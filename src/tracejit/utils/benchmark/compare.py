"""Tables of times: a row for each statement, a column for each description."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from .measurement import Measurement, select_unit

__all__ = ["Compare"]

_GOOD, _BAD, _PLAIN = "\033[92m", "\033[91m", "\033[0m"


class Compare:
    """Measurements side by side, one table per label.

    >>> from tracejit.utils.benchmark import Measurement, TaskSpec
    >>> specs = [TaskSpec("f(x)", "", label="f", sub_label="1", description=d) for d in ("old", "new")]
    >>> Compare([Measurement(1, [0.002], specs[0]), Measurement(1, [0.001], specs[1])]).print()
    [----- f -----]
                |  old  |  new
    1 threads: ---------------
          1     |  2.0  |  1.0
    <BLANKLINE>
    Times are in milliseconds (ms).
    """

    def __init__(self, results: Sequence[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim = self._colour = self._rowwise = self._warn = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements. ``ValueError`` for anything else.

        >>> Compare([]).extend_results([])
        """
        for one in results:
            if not isinstance(one, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(one)} instead.")
            self._results.append(one)

    def trim_significant_figures(self) -> None:
        """Show no more digits than the spread of the times leaves standing.

        >>> Compare([]).trim_significant_figures()
        """
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour the shortest and the longest times of each column, or of each row.

        >>> Compare([]).colorize(rowwise=True)
        """
        self._colour, self._rowwise = True, rowwise

    def highlight_warnings(self) -> None:
        """Mark times that vary much.

        >>> Compare([]).highlight_warnings()
        """
        self._warn = True

    def print(self) -> None:
        """Write the tables to the standard output.

        >>> Compare([]).print()
        """
        if self._results:
            sys.stdout.write(f"{self}\n")

    def __str__(self) -> str:
        labels = dict.fromkeys(one.task_spec.label for one in self._results)
        merged = Measurement.merge(self._results)
        tables = [[one for one in merged if one.task_spec.label == label] for label in labels]
        return "\n\n".join(self._table(table) for table in tables)

    def _table(self, results: Sequence[Measurement]) -> str:
        unit, seconds = select_unit(min(one.median for one in results))
        columns = list(dict.fromkeys(_column(one) for one in results))
        threads = list(dict.fromkeys(one.task_spec.num_threads for one in results))
        envs = dict.fromkeys(one.env for one in results)
        rows: list[tuple[str, list[str]]] = []
        for count in threads:
            rows.append((f"{count} threads:", []))
            here = [one for one in results if one.task_spec.num_threads == count]
            names = dict.fromkeys((one.as_row_name, one.env) for one in here)
            for name, env in names:
                cells = [self._cell(here, name, env, c, seconds) for c in columns]
                shown = name if len(envs) < 2 else f"({env})  {name}"
                rows.append((f"      {shown}", cells))
        return _laid_out(results[0].task_spec.label or "", columns, rows, unit)

    def _cell(
        self, here: Sequence[Measurement], name: str, env: str, column: str, seconds: float
    ) -> str:
        one = _at(here, name, env, column)
        if one is None:
            return ""
        digits = one.significant_figures if self._trim else 5
        time = one.median / seconds
        text = _rounded(time, min(digits, max(2, len(str(int(time))) + 1)))
        if self._warn and len(one.raw_times) > 3 and one.has_warnings:
            text = f"(! {100 * one.iqr / one.median:.0f}%) {text}"
        if self._colour:
            beside = [
                x
                for x in here
                if (x.as_row_name == name if self._rowwise else _column(x) == column)
            ]
            medians = [x.median for x in beside]
            if len(medians) > 1 and one.median in (min(medians), max(medians)):
                text = f"{_GOOD if one.median == min(medians) else _BAD}{text}{_PLAIN}"
        return text


def _column(one: Measurement) -> str:
    return one.task_spec.description or ""


def _at(here: Sequence[Measurement], name: str, env: str, column: str) -> Measurement | None:
    wanted = (name, env, column)
    return next((x for x in here if (x.as_row_name, x.env, _column(x)) == wanted), None)


def _rounded(number: float, digits: int) -> str:
    """``number`` with so many digits that count.

    >>> _rounded(123.456, 4), _rounded(123.456, 2)
    ('123.5', '120')
    """
    whole = len(str(int(number))) if number >= 1 else 0
    return f"{round(number, digits - whole):.{max(digits - whole, 0)}f}"


def _width(text: str) -> int:
    for code in (_GOOD, _BAD, _PLAIN):
        text = text.replace(code, "")
    return len(text)


def _laid_out(
    label: str, columns: Sequence[str], rows: Sequence[tuple[str, list[str]]], unit: str
) -> str:
    first = max(len(name) for name, _ in rows)
    cells = [[row[i] for _, row in rows if row] for i in range(len(columns))]
    widths = [max(map(_width, [c, *column])) for c, column in zip(columns, cells, strict=True)]

    def line(name: str, parts: Sequence[str]) -> str:
        padded = [" " * (w - _width(p)) + p for w, p in zip(widths, parts, strict=True)]
        return "  |  ".join([name.ljust(first), *padded]).rstrip()

    head = line("", columns)
    title = f"[{f' {label} ' if label else ''}".ljust(2)
    side = "-" * max((len(head) - len(title) - 1) // 4, 1)
    lines = [f"[{side}{f' {label} ' if label else ''}{side}]", head]
    for name, row in rows:
        lines.append(line(name, row) if row else f"{name.ljust(first)} ".ljust(len(head), "-"))
    names = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds"}
    return "\n".join([*lines, "", f"Times are in {names[unit]} ({unit})."])
