"""Loops in C that read truths: how many rounds they make shows in what they return, so they are no open loops."""

from __future__ import annotations

import itertools

import pytest

import tracejit as tj
from trap_tools import check


def _taken(x):
    def following():
        nonlocal x
        x = x + 1
        return x

    taken = itertools.takewhile(lambda t: t.sum() < 10, (following() for _ in range(30)))
    return len(list(taken)), x


class Steps:
    def __init__(self, x):
        self.x = x

    def __iter__(self):
        return self

    def __next__(self):
        self.x = self.x + 1
        return self.x


def _taken_of_object(x):
    return len(list(itertools.takewhile(lambda t: t.sum() < 10, Steps(x)))), x


def _until(x):
    def done():
        nonlocal x
        x = x + 1
        return x.sum() > 10

    return len(list(iter(done, True))), x


def _taken_again_and_again(x):
    counts = []
    while x.sum() < 30:
        parts = [x + k for k in range(12)]
        counts.append(len(list(itertools.takewhile(lambda t: t.sum() < 10, parts))))
        x = x + 5
    return counts, x


def _counted(x):
    def following():
        nonlocal x
        x = x + 1
        return x

    return next(i for i in itertools.count() if following().sum() > 10), x


def _filtered(x):
    parts = [x - k for k in range(9)]
    return len(list(filter(lambda t: t.sum() > 0, parts))), sum(
        map(bool, [x.sum() > k for k in range(9)])
    )


PROGRAMS = [_taken, _taken_of_object, _until, _taken_again_and_again, _counted, _filtered]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__[1:])
def test_rounds_of_a_loop_in_c_are_counted(program) -> None:
    def scenario(stage):
        f = stage.compile(program)
        for k in (3, 3, 3, 4, 4, 2, 2, 1, 0, 5, 6, 7, -2, 4, 3, -2):
            stage.call(f, tj.full((2,), float(k)))

    check(scenario, compiled=1)


def test_calls_that_read_truths_are_still_rolled() -> None:
    def grow(x):
        def more(v):
            return bool(v.sum() < 10)

        while more(x):
            x = x + 1
        while (x.sum() > -4).item():
            x = x - 1
        return x

    def scenario(stage):
        f = stage.compile(grow)
        for k in (3, 4, 2, 1, 0, 1, -2):
            stage.call(f, tj.full((2,), float(k)))

    check(scenario, recorded=3)
