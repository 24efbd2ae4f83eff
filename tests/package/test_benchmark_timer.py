"""utils.benchmark: timing statements, and tables of times."""

from __future__ import annotations

import pytest

import tracejit as tj
from tracejit.utils.benchmark import Compare, Measurement, TaskSpec, Timer, select_unit


class Clock:
    """A clock that moves by what statements say they take."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1e-9
        return self.now

    def work(self, seconds: float = 1e-5) -> None:
        self.now += seconds


def timed(stmt: str = "clock.work()", **options) -> tuple[Timer, Clock]:
    clock = Clock()
    return Timer(stmt, timer=clock, globals={"clock": clock}, **options), clock


def test_one_block() -> None:
    timer, _ = timed(label="work", sub_label="some", description="now")
    found = timer.timeit(100)
    assert found.number_per_run == 100
    assert found.median == pytest.approx(1e-5, rel=1e-3)
    assert (found.title, found.as_row_name) == ("work: some", "some")
    assert "10.00 us" in repr(found)


def test_blocks_until_time_has_passed() -> None:
    timer, _ = timed()
    seen: list[tuple[int, float]] = []
    found = timer.blocked_autorange(lambda runs, t: seen.append((runs, t)), min_run_time=0.5)
    assert sum(found.raw_times) >= 0.5
    assert [t for _, t in seen] == found.raw_times
    assert found.mean == pytest.approx(1e-5, rel=1e-3)
    assert found.significant_figures == 5


def test_blocks_until_times_agree() -> None:
    timer, clock = timed("clock.work(next(times))")
    uneven = iter([1e-3 * (1 + 9 * (i % 2)) for i in range(10**6)])
    timer._timer.inner.__globals__["times"] = uneven
    found = timer.adaptive_autorange(max_run_time=0.5)
    assert clock.now > 0.5
    assert found.has_warnings
    assert "WARNING" in repr(found)


def test_setup_names_and_threads() -> None:
    before = tj.get_num_threads()
    seen: list[int] = []
    timer = Timer(
        "seen.append(torch.get_num_threads())", "import math", globals={"seen": seen}, num_threads=1
    )
    timer.timeit(2)
    assert set(seen) == {1}
    assert tj.get_num_threads() == before
    with pytest.raises(ValueError, match="Python"):
        Timer(language="c++")


def test_merging_and_units() -> None:
    spec, other = TaskSpec("f()", ""), TaskSpec("g()", "")
    parts = [
        Measurement(2, [2.0], spec),
        Measurement(1, [3.0], other),
        Measurement(4, [12.0], spec),
    ]
    merged = Measurement.merge(parts)
    assert [m.times for m in merged] == [[1.0, 3.0], [3.0]]
    assert merged[0].stmt == "f()"
    assert select_unit(2e-8) == ("ns", 1e-9)


def test_tables() -> None:
    results = [
        Measurement(1, [t], TaskSpec("", "", label="sum", sub_label=s, description=d))
        for s, d, t in [("8", "a", 1e-5), ("8", "b", 2.5e-5), ("64", "b", 1e-4)]
    ]
    table = Compare(results)
    lines = str(table).splitlines()
    assert [cell.strip() for cell in lines[1].split("|")] == ["", "a", "b"]
    assert [cell.strip() for cell in lines[3].split("|")] == ["8", "10.0", "25.0"]
    assert [cell.strip() for cell in lines[4].split("|")] == ["64", "", "100.0"]
    assert lines[-1] == "Times are in microseconds (us)."
    table.colorize()
    assert "\033[92m" in str(table)
    with pytest.raises(ValueError, match="Measurement"):
        table.extend_results([1.0])
