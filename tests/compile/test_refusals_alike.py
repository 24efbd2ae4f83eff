"""Functions that cannot be recorded for any arguments are not recorded for each of them."""

from __future__ import annotations

import io
from typing import Any

import pytest

import tracejit as tj


def reads_values(x: Any, k: float) -> Any:
    return x * float(x.numpy().sum()) + k


def prints_elsewhere(x: Any, k: float) -> Any:
    print(end="", file=io.StringIO())
    return x * k


def makes_a_generator(x: Any, k: float) -> Any:
    return (x * i + k for i in range(3))


@pytest.mark.parametrize("function", [reads_values, prints_elsewhere, makes_a_generator])
@pytest.mark.parametrize("varies", ["sizes", "numbers", "ranks"])
def test_what_no_signature_allows_is_tried_a_few_times(function: Any, varies: str) -> None:
    compiled = tj.compile(function)
    for n in [*range(3, 15)] * 3:
        x = tj.ones((1,) * (n % 5) + (2,) if varies == "ranks" else (n if varies == "sizes" else 3))
        k = float(n) if varies == "numbers" else 1.0
        assert type(compiled(x, k)) is type(function(x, k))
    assert compiled.stats.recordings <= 5, compiled.explain()
    assert compiled.stats.compiled_calls == 0


def test_signatures_that_can_be_recorded_are() -> None:
    def some(x: Any) -> Any:
        return x * 2 if x.shape[0] % 3 else x * float(x.numpy().sum())

    compiled = tj.compile(some)
    for n in [*range(3, 12)] * 3:
        assert compiled(tj.ones(n)).tolist() == some(tj.ones(n)).tolist()
    assert compiled.stats.compiled_calls >= 10, compiled.explain()


def test_what_can_be_recorded_later_is() -> None:
    quiet = False

    def loud(x: Any) -> Any:
        if not quiet:
            print(end="")
        return x * 2

    compiled = tj.compile(loud)
    for n in range(3, 9):
        compiled(tj.ones(n))
    assert compiled.stats.recordings <= 4
    quiet = True
    for n in [*range(3, 9)] * 4:
        compiled(tj.ones(n))
    assert compiled.stats.compiled_calls >= 12, compiled.explain()
