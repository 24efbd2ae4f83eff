"""Numbers that vary, given to functions with a cache: what is kept, and when they run, is as in eager code."""

from __future__ import annotations

import threading
from functools import lru_cache

import pytest

import tracejit as tj


def functions():
    ran = []

    @lru_cache(maxsize=2)
    def factor(n):
        ran.append(n)
        return n * 2.5

    class Holder:
        kept = staticmethod(factor)

    return ran, factor, [lambda x, i: x * factor(i % 4), lambda x, i: Holder.kept(i) * x]


def test_they_run_as_often_as_in_eager_code() -> None:
    x = tj.ones(3)
    for which in range(2):
        results = []
        for compiled in (False, True):
            ran, factor, made = functions()
            f = tj.compile(made[which]) if compiled else made[which]
            found = [f(x, i).tolist() for i in (0, 1, 0, 1, 0, 2, 0, 1, 3, 3, 1, 0)]
            results.append((found, ran, factor.cache_info()))
            assert {*map(type, ran)} == {int}
        assert results[0] == results[1]


def test_other_numbers_go_on_varying() -> None:
    _, factor, (f, _) = functions()
    compiled = tj.compile(lambda x, rate: x * rate + factor(3))
    for i in range(10):
        assert tj.equal(compiled(tj.ones(2), 0.5 + i), tj.full((2,), 8.0 + i))
    assert compiled.stats.recordings <= 3
    assert f(tj.ones(2), 1).tolist() == [2.5, 2.5]


def sharing(asks):
    """A function with a number that varies, and another that shares the cache with it, and may ask about it."""
    _, factor, _ = functions()
    other = (lambda: factor.cache_info()) if asks else (lambda: factor(1))
    return tj.compile(lambda x, rate: x * rate + factor(3)), other


@pytest.mark.parametrize("asks", [False, True])
def test_threads_of_the_program_matter_only_where_one_may_look_at_the_cache(asks) -> None:
    compiled, other = sharing(asks)
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        for i in range(10):
            assert tj.equal(compiled(tj.ones(2), 0.5 + i), tj.full((2,), 8.0 + i))
    finally:
        over.set()
        thread.join()
    assert other() is not None
    assert (compiled.stats.recordings <= 3) is not asks
