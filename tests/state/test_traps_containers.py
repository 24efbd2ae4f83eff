"""Traps: objects, classes and containers whose state changes between calls or inside them."""

from __future__ import annotations

import types
from collections import namedtuple
from dataclasses import dataclass

import pytest

import tracejit as tj
from trap_objects import (
    CHANGES,
    ITERATORS,
    check_either,
    last_k,
    x,
)
from trap_tools import check


def test_dataclass_argument_mutated_between_and_inside() -> None:
    @dataclass
    class State:
        h: tj.Tensor
        k: float = 2.0

    def scenario(stage):
        def f(s):
            return s.h * s.k

        def g(s):
            s.k += 1.0
            s.h = s.h * 2
            return s.h * s.k

        state = State(x())
        reads, writes = stage.compile(f), stage.compile(g)
        for state.k in (2.0, 2.0, 3.0, 3.0):
            stage.call(reads, state)
        for _ in range(4):
            stage.call(writes, state)
            stage.note("state", state)

    check(scenario, compiled=4)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("where", ["closure", "attribute", "argument"])
def test_container_changed(name: str, where: str) -> None:
    make, change, read = CHANGES[name]

    def scenario(stage):
        space = {"last_k": last_k, "thing": types.SimpleNamespace(c=make()), "c": make()}
        c = space["c"] if where == "closure" else space["thing"].c
        text = {
            "closure": f"def f(v): return v * ({read})",
            "attribute": f"def f(v):\n    c = thing.c\n    return v * ({read})",
            "argument": f"def f(v, c): return v * ({read})",
        }[where]
        exec(text, space)
        f = stage.compile(space["f"])
        given = (c,) if where == "argument" else ()
        stage.call(f, x(), *given)
        stage.call(f, x(), *given)
        change(c)
        stage.call(f, x(), *given)
        stage.call(f, x(), *given)

    f = check_either(scenario)
    assert f.stats.compiled_calls >= 2 or f.reasons


def test_list_appended_inside() -> None:
    def scenario(stage):
        log = []

        def f(v):
            log.append(float(len(log)))
            return v * len(log)

        g = stage.compile(f)
        for _ in range(5):
            stage.call(g, x())
            stage.note("log", log)

    check(scenario, reason="'log'")


def test_argument_list_appended_inside() -> None:
    def scenario(stage):
        def f(v, out):
            out.append(v * 2)
            return v.sum()

        g = stage.compile(f)
        for _ in range(4):
            out = []
            stage.call(g, x(), out)
            stage.note("out", out)

    check(scenario, compiled=2)


def test_tensors_kept_in_a_list() -> None:
    def scenario(stage):
        cache = []

        def f(v):
            cache.append(v * 2)
            return tj.stack(list(cache)).sum()

        g = stage.compile(f)
        for step in range(4):
            stage.call(g, x(1.0, float(step)))

    check(scenario, reason="'cache'")


@pytest.mark.parametrize("name", ITERATORS)
@pytest.mark.parametrize("where", ["argument", "closure"])
def test_iterator_used_up(name: str, where: str) -> None:
    def scenario(stage):
        items = ITERATORS[name]()
        if where == "argument":
            g = stage.compile(lambda v, it: v * float(next(it)))
            for _ in range(5):
                stage.call(g, x(), items)
        else:
            g = stage.compile(lambda v: v * float(next(items)))
            for _ in range(5):
                stage.call(g, x())

    check_either(scenario)


def test_generator_of_tensors_as_argument() -> None:
    def scenario(stage):
        def f(parts):
            total = 0.0
            for p in parts:
                total = total + p * 2
            return total

        g = stage.compile(f)
        v = x()
        for _ in range(3):
            stage.call(g, (v * k for k in range(3)), wrt=[v])
            stage.call(g, [v * k for k in range(3)], wrt=[v])

    check_either(scenario)


def test_tuple_and_namedtuple_arguments() -> None:
    Pair = namedtuple("Pair", "a k")

    def scenario(stage):
        f = stage.compile(lambda p, q=(1.0,): p.a * p.k + q[0])
        for k in (2.0, 2.0, 3.0, 3.0):
            stage.call(f, Pair(x(), k))
            stage.call(f, Pair(x(), k), q=(k,))

    check(scenario, compiled=2)


def test_equal_arguments_of_other_types() -> None:
    def scenario(stage):
        f = stage.compile(lambda v, k: v * k if k is not True else v - 1)
        for k in (1, 1, True, True, 1.0, 1.0, 1, 0.0, 0.0, -0.0, -0.0, float("nan"), float("nan")):
            stage.call(f, x(), k)

    check(scenario, compiled=5)


def test_objects_with_unusual_equality() -> None:
    class Odd:
        def __init__(self, k):
            self.k = k

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 7

    def scenario(stage):
        f = stage.compile(lambda v, o: v * o.k)
        odd = [Odd(2.0), Odd(3.0)]
        for step in range(6):
            stage.call(f, x(), odd[step % 2])

    check(scenario, compiled=2)


def test_an_object_that_replaces_a_dead_one() -> None:
    def scenario(stage):
        class Box:
            def __init__(self, k):
                self.k = k

        f = stage.compile(lambda v, b: v * b.k)
        for k in (2.0, 2.0, 3.0, 3.0, 4.0):
            stage.call(f, x(), Box(k))  # often at the address of the one before

    check_either(scenario)


def test_attributes_of_tensors() -> None:
    def scenario(stage):
        w = x(1.0, 2.0, 3.0)
        w.gain = 2.0
        f = stage.compile(lambda v: v * w.gain * getattr(v, "gain", 1.0))
        stage.call(f, x())
        stage.call(f, x())
        w.gain = 3.0
        stage.call(f, x())
        v = x()
        v.gain = 10.0
        stage.call(f, v)
        stage.call(f, x())

    check_either(scenario)


def test_attribute_put_on_a_tensor_inside() -> None:
    def scenario(stage):
        def f(v):
            y = v * 2
            y.tag = "made inside"
            v.seen = True
            return y

        g = stage.compile(f)
        for _ in range(4):
            v = x()
            y = stage.call(g, v)
            stage.note("tags", (getattr(y, "tag", None), getattr(v, "seen", None)))

    check_either(scenario)


def test_a_list_of_layers_changed() -> None:
    def scenario(stage):
        steps = [tj.exp, tj.sin]

        def f(v):
            for step in steps:
                v = step(v)
            return v

        g = stage.compile(f)
        stage.call(g, x())
        stage.call(g, x())
        steps.append(tj.cos)
        stage.call(g, x())
        steps[0] = tj.tanh
        stage.call(g, x())
        steps.reverse()
        stage.call(g, x())
        stage.call(g, x())

    check(scenario, compiled=2)
