"""Attributes that a program puts on compiled functions and other objects that are known otherwise."""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable
from typing import Any

import pytest

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


class Number(int):
    """A number with attributes."""


class Name(str):
    """Text with attributes, and a method that reads state."""

    def rate(self) -> float:
        return RATES[str(self)]


RATES = {"a": 0.5}


@contextlib.contextmanager
def manager() -> Any:
    yield


def cached() -> Any:
    return functools.lru_cache(lambda x: x)


def dispatched() -> Any:
    return functools.singledispatch(lambda x: x)


MAKERS: list[Callable[[], Any]] = [
    lambda: functools.partial(abs, 1),
    dispatched,
    lambda: functools.wraps(manager)(lambda: None),
    lambda: contextlib.contextmanager(lambda: None),
    lambda: Number(3),
    lambda: Name("a"),
    lambda: ValueError("x"),
    lambda: random.Random(1),
]


@pytest.mark.parametrize("make", MAKERS)
def test_counters_on_other_objects(make: Callable[[], Any]) -> None:
    def scenario(stage: Stage) -> None:
        owner = make()
        owner.calls = 0

        def count(x: Any) -> Any:
            owner.calls += 1
            return x * owner.calls

        f = stage.compile(count)
        for i in range(9):
            stage.call(f, tj.ones(2))
            stage.note("calls", (owner.calls, type(owner.calls).__name__))
            if i == 5:
                owner.calls = -7

    assert check(scenario).stats.compiled_calls >= 6


def test_counters_on_functions_with_a_cache() -> None:
    """Those take true numbers, and so do functions that they are reached from."""

    def scenario(stage: Stage) -> None:
        owner = cached()
        owner.calls = 0

        def count(x: Any) -> Any:
            owner.calls += 1
            return x * owner.calls

        f = stage.compile(count)
        for _ in range(6):
            stage.call(f, tj.ones(2))
            stage.note("calls", owner.calls)

    check(scenario, reason="it changes Python state")


def test_what_errors_were_made_with() -> None:
    def scenario(stage: Stage) -> None:
        error = ValueError(1)

        def count(x: Any) -> Any:
            return x * error.args[0]

        f = stage.compile(count)
        for i in range(6):
            stage.call(f, tj.ones(2))
            if i > 2:
                error.args = (i,)

    check(scenario)


def test_methods_of_text() -> None:
    def scenario(stage: Stage) -> None:
        name = Name("a")

        def scaled(x: Any) -> Any:
            return x * name.rate()

        f = stage.compile(scaled)
        for i in range(6):
            RATES["a"] = 0.5 * i
            stage.call(f, tj.ones(2))

    check(scenario)


def test_attributes_of_results() -> None:
    """A tensor that was made inside has them in every call."""

    def scenario(stage: Stage) -> None:
        def tagged(x: Any, k: int) -> Any:
            y = x * k
            y.tag = k
            return y, [y + 1]

        f = stage.compile(tagged)
        for i in range(5):
            stage.note("tag", f(tj.ones(2), i)[0].tag)

    check(scenario, reason="on which it has put an attribute: 'tag'")
