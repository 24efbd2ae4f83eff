"""compile(): objects that calls were given go, when later calls bring others."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn
from tracejit.trace.idle_objects import PATIENCE, IdleObjects
from tracejit.trace.signature import Static


def given(count: int, make: Any) -> tuple[Any, int]:
    """A function that was given so many objects, one after the other; and how many of them are still there."""
    f = tj.compile(lambda thing, x: thing(x).sum())
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    for _ in range(count):
        thing = make()
        alive.add(thing)
        for _ in range(3):
            assert f(thing, tj.ones(1, 2)).shape == ()
        del thing
    gc.collect()
    return f, len(alive)


class Scale:
    def __init__(self) -> None:
        self.weight = tj.ones(2)

    def __call__(self, x: Any) -> Any:
        return x * self.weight


@pytest.mark.parametrize("make", [lambda: nn.Linear(2, 2), Scale])
def test_models_of_earlier_trials_go(make: Any) -> None:
    f, left = given(40, make)
    assert left <= PATIENCE + 1
    assert f.stats.compiled_calls >= 70, f.explain()


@pytest.mark.parametrize("count", [5, 20])
def test_models_that_take_turns_stay(count: int) -> None:
    f = tj.compile(lambda thing, x: thing(x).sum())
    models = [nn.Linear(2, 2) for _ in range(count)]
    for _ in range(6):
        for model in models:
            f(model, tj.ones(1, 2))
    before = f.stats.recordings
    for model in models * 2:
        f(model, tj.ones(1, 2))
    assert f.stats.recordings == before, f.explain()


def test_a_model_that_comes_back_is_recorded_again() -> None:
    f = tj.compile(lambda thing, x: thing(x).sum())
    first, x = nn.Linear(2, 2), tj.ones(1, 2)
    expected = first(x).sum().item()
    for _ in range(2):
        f(first, x)
    for _ in range(PATIENCE + 2):
        for _ in range(2):
            f(nn.Linear(2, 2), x)
    assert abs(f(first, x).item() - expected) < 1e-6
    assert abs(f(first, x).item() - expected) < 1e-6


def test_what_is_made_where_one_lay_did_not_come_back() -> None:
    """A new object may have the number of one that is gone: it is another one all the same."""

    class Thing:
        pass

    idle = IdleObjects()
    first, others = Thing(), [Thing() for _ in range(PATIENCE)]
    number = id(first)
    for thing in (first, *others):
        idle.learn((Static(thing),), {})
    assert len(idle.forgotten) == 1
    del first, thing
    gc.collect()
    again = [Thing() for _ in range(100)]
    found = next((x for x in again if id(x) == number), None)
    if found is None:  # its memory was used for something else
        found = again[0]
    idle.forgotten = {hash((Static(found),)): next(iter(idle.forgotten.values()))}
    idle.learn((Static(found),), {})
    assert idle.patience == PATIENCE


def test_what_came_back_is_waited_for_longer() -> None:
    class Thing:
        pass

    idle = IdleObjects()
    things = [Thing() for _ in range(PATIENCE + 1)]
    for thing in things:
        idle.learn((Static(thing),), {})
    assert len(idle.forgotten) == 1
    idle.learn((Static(things[0]),), {})
    assert idle.patience == 2 * PATIENCE
