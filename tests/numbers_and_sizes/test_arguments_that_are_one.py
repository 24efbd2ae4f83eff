"""Numbers that vary in a list, dict or object that a call hands over in two places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

import tracejit as tj
from trap_tools import Stage, check


@dataclass
class Settings:
    rate: int


def of_lists(a: Any, b: Any) -> Any:
    return a[0], b[0]


def of_dicts(a: Any, b: Any) -> Any:
    return a["rate"], b["rate"]


def of_objects(a: Any, b: Any) -> Any:
    return a.rate, b.rate


CASES: list[tuple[Callable[[int], Any], Callable[..., Any]]] = [
    (lambda n: [n], of_lists),
    (lambda n: {"rate": n, "name": "x"}, of_dicts),
    (Settings, of_objects),
]


@pytest.mark.parametrize(("make", "read"), CASES)
@pytest.mark.parametrize("named", [False, True])
def test_the_numbers_behind_it_are_not_shifted(make: Any, read: Any, named: bool) -> None:
    def scenario(stage: Stage) -> None:
        def f(x: Any, a: Any, b: Any, k: int) -> Any:
            left, right = read(a, b)
            return x * left + right * 10 + k * 100

        compiled = stage.compile(f)
        for i in range(14):
            one = make(i)
            other = one if i < 5 or i > 8 else make(2 * i + 1)
            if named:
                stage.call(compiled, tj.ones(2), b=other, a=one, k=7 - i)
            else:
                stage.call(compiled, tj.ones(2), one, other, 7 - i)

    compiled = check(scenario)
    assert compiled.stats.compiled_calls >= 10


def test_parts_of_other_containers() -> None:
    def scenario(stage: Stage) -> None:
        def f(x: Any, rows: Any, k: float) -> Any:
            return sum(x * row[0] * (i + 1) for i, row in enumerate(rows)) + k

        compiled = stage.compile(f)
        for i in range(12):
            row = [i]
            rows = [row, row, [i + 5]] if i % 3 else [[i + 2], row, row]
            stage.call(compiled, tj.ones(2), rows, i * 0.5)

    assert check(scenario).stats.compiled_calls >= 8


def test_bounds_of_slices() -> None:
    def scenario(stage: Stage) -> None:
        def f(x: Any, a: Any, b: Any) -> Any:
            return x[a[0] : b[1]], x[b[0]] + a[1]

        compiled = stage.compile(f)
        for i in range(12):
            one = [i % 3, i % 3 + 2]
            stage.call(compiled, tj.arange(8.0), one, one if i % 2 else [1, 1 + i % 4])

    check(scenario)


def test_what_is_one_and_changed() -> None:
    def scenario(stage: Stage) -> None:
        def f(x: Any, a: Any, b: Any, k: int) -> Any:
            a.n += b.n
            return x * a.n + k

        compiled = stage.compile(f)
        one, other = SimpleNamespace(n=1), SimpleNamespace(n=2)
        for i in range(12):
            stage.call(compiled, tj.ones(2), one, one if i % 3 else other, i)
            stage.note("numbers", (one.n, other.n))

    check(scenario)


@pytest.mark.parametrize("first", ["own", "other"])
@pytest.mark.parametrize("keyed", [False, True])
def test_arguments_that_the_function_knows_anyway(first: str, keyed: bool) -> None:
    """It reads numbers of a dict or list in its closure, and calls hand over that, or another one."""

    def scenario(stage: Stage) -> None:
        own: Any = {"rate": 0, "name": 1} if keyed else [0, 1]
        at: Any = "rate" if keyed else 0

        def f(x: Any, given: Any, k: int) -> Any:
            return x * given[at] + own[at] * 10 + k * 100

        compiled = stage.compile(f)
        for i in range(15):
            own[at] = i
            other = {"rate": 7 + i, "name": 1} if keyed else [7 + i, 1]
            handed = own if (i // 5 % 2 == 0) is (first == "own") else other
            stage.call(compiled, tj.ones(2), handed, -i)

    assert check(scenario).stats.compiled_calls >= 7
