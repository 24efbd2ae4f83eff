"""Recording does not change how often Python collects garbage, except while it lasts."""

from __future__ import annotations

import gc
import threading

import pytest

import tracejit as tj
from tracejit.trace.recording.collection import RARE, collecting_rarely


@pytest.fixture(autouse=True)
def own_threshold():
    before = gc.get_threshold()
    gc.set_threshold(701, 11, 12)
    yield
    gc.set_threshold(*before)


def test_thresholds_are_put_back():
    seen = []

    def f(x):
        seen.append(threshold())
        return x * 2

    def threshold():
        return gc.get_threshold()

    tj.compile(f)(tj.ones(3))
    assert seen[0] == (RARE, 11, 12)
    assert gc.get_threshold() == (701, 11, 12)


def test_after_an_error_and_inside_another_recording():
    def fails(x):
        raise KeyError("no")

    inner = tj.compile(lambda x: x + 1)

    def outer(x):
        return inner(x) * 2

    with pytest.raises(KeyError):
        tj.compile(fails)(tj.ones(3))
    assert gc.get_threshold() == (701, 11, 12)
    tj.compile(outer)(tj.ones(3))
    assert gc.get_threshold() == (701, 11, 12)


@pytest.mark.parametrize("chosen", [(0, 10, 10), (RARE + 1, 3, 4)])
def test_a_choice_of_the_user_stays(chosen):
    def f(x):
        gc.set_threshold(*chosen)
        return x * 2

    tj.compile(f)(tj.ones(3))
    assert gc.get_threshold() == chosen
    tj.compile(lambda x: x * 3)(tj.ones(3))
    assert gc.get_threshold() == chosen


def test_recordings_in_several_threads():
    barrier = threading.Barrier(4)

    def record(number):
        barrier.wait()
        for n in range(5):
            tj.compile(lambda x, n=n: (x * number).sin() + n)(tj.ones(3))

    threads = [threading.Thread(target=record, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gc.get_threshold() == (701, 11, 12)


def collections():
    """Of any generation: what is due decides which one it is."""
    return sum(generation["collections"] for generation in gc.get_stats())


def test_cycles_are_collected_while_a_call_is_recorded():
    found = []

    def f(x):
        before = collections()
        for _ in range(2 * RARE):
            cycle: list = []
            cycle.append(cycle)
        found.append(collections() - before)
        return x + 1

    tj.compile(f)(tj.ones(3))
    assert found[0] >= 1


def test_planning_too_collects_rarely():
    assert collecting_rarely(gc.get_threshold) == (RARE, 11, 12)
    with pytest.raises(ZeroDivisionError):
        collecting_rarely(lambda: 1 // 0)
    assert gc.get_threshold() == (701, 11, 12)
