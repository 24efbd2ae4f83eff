"""Settings of the package that a compiled function asks for: they are looked at before every call."""

from __future__ import annotations

from typing import Any

import pytest

import tracejit as tj


@pytest.fixture(autouse=True)
def switched_off() -> Any:
    yield
    tj.use_deterministic_algorithms(False)


def by_mode(x: Any) -> Any:
    if tj.are_deterministic_algorithms_enabled():
        return x * 2
    return x + tj.get_deterministic_debug_mode()


def by_warnings(x: Any) -> Any:
    return x * 3 if tj.is_deterministic_algorithms_warn_only_enabled() else x


def test_whether_results_are_to_be_equal() -> None:
    compiled, other = tj.compile(by_mode), tj.compile(by_warnings)
    x = tj.ones(2)
    for k in range(12):
        tj.use_deterministic_algorithms(k % 4 > 1, warn_only=k % 4 == 3)
        for _ in range(2):
            assert compiled(x).tolist() == by_mode(x).tolist()
            assert other(x).tolist() == by_warnings(x).tolist()
    assert compiled.stats.compiled_calls >= 15, compiled.explain()
    assert compiled.stats.recordings <= 4
    assert other.stats.compiled_calls >= 15, other.explain()


def test_a_function_that_sets_what_it_asks_for() -> None:
    def f(x: Any) -> Any:
        tj.use_deterministic_algorithms(True)
        return by_mode(x)

    compiled = tj.compile(f)
    for _ in range(4):
        tj.use_deterministic_algorithms(False)
        assert compiled(tj.ones(2)).tolist() == [2, 2]
        assert tj.are_deterministic_algorithms_enabled()
    assert compiled.stats.compiled_calls == 0
