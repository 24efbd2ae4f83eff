"""Attributes that a program keeps on a compiled function, as on any other."""

from __future__ import annotations

from typing import Any

import tracejit as tj
from trap_tools import Stage, check


def test_counters() -> None:
    def scenario(stage: Stage) -> None:
        def count(x: Any) -> Any:
            f.calls = getattr(f, "calls", 0) + 1
            return x * f.calls

        f: Any = stage.compile(count)
        for i in range(12):
            stage.call(f, tj.ones(2))
            stage.note("calls", (f.calls, type(f.calls).__name__))
            if i == 5:
                f.calls = -7
            if i == 8:
                del f.calls

    compiled = check(scenario, reason="has the new attribute 'calls'")
    assert compiled.stats.compiled_calls >= 6


def test_settings_that_the_program_changes() -> None:
    """Also those that the function had before it was compiled, and in another function that reads them."""

    def scenario(stage: Stage) -> None:
        def scaled(x: Any) -> Any:
            return x * f.scale + f.offset

        def other(x: Any) -> Any:
            return x - f.scale if hasattr(f, "scale") else x

        vars(scaled)["offset"] = tj.zeros(2)
        f: Any = stage.compile(scaled)
        g = stage.compile(other)
        f.offset = vars(scaled)["offset"]
        stage.call(g, tj.ones(2))
        for i in range(10):
            f.scale = 0.5 * i
            stage.call(f, tj.ones(2))
            stage.call(g, tj.ones(2))
            if i > 6:
                f.offset = tj.ones(2) * i

    assert check(scenario).stats.compiled_calls >= 6


def test_caches() -> None:
    def scenario(stage: Stage) -> None:
        def cached(x: Any) -> Any:
            if not hasattr(f, "cache"):
                f.cache = {}
            if x.shape not in f.cache:
                f.cache[x.shape] = tj.ones(x.shape) * len(x)
            return x * f.cache[x.shape]

        f: Any = stage.compile(cached)
        for i in range(12):
            stage.call(f, tj.ones(2 + i % 2))
            stage.note("cache", sorted((len(k), v.tolist()) for k, v in f.cache.items()))
            if i == 7:
                f.cache = {}

    check(scenario)
