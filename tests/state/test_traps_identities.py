"""Traps: code that asks which tensor an argument is, and caches that are emptied."""

from __future__ import annotations

import functools
import weakref
from types import SimpleNamespace

import pytest

import tracejit as tj
from tracejit import nn
from trap_objects import Thing, x
from trap_tools import agree, check, user_module


def test_an_argument_that_is_a_tensor_of_the_state() -> None:
    def scenario(stage):
        a, b = x(grad=False), x(4.0, 5.0, 6.0, grad=False)
        state = SimpleNamespace(last=None)
        f = stage.compile(lambda v: v * 2 if v is state.last else v - 1)
        for state.last in (a, a, b, b, a, None, b):
            for v in (a, b, x(7.0, 8.0, 9.0, grad=False)):
                stage.call(f, v)

    check(scenario, compiled=6)


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset, dict.fromkeys])
def test_an_argument_among_others(kind) -> None:
    def scenario(stage):
        known = [x(1.0, grad=False), x(2.0, grad=False)]
        seen = kind(known)
        f = stage.compile(lambda v: v * 2 if any(v is t for t in seen) else v - 1)
        for v in (known[0], x(3.0, grad=False), x(4.0, grad=False), known[1], known[1], known[0]):
            stage.call(f, v)

    check(scenario, compiled=2)


def test_the_class_of_an_argument() -> None:
    def scenario(stage):
        f = stage.compile(lambda w: w * 2 if isinstance(w, nn.Parameter) else w - 1)
        for i in range(10):
            w = x()
            stage.call(f, nn.Parameter(w) if i % 2 else w)

    check(scenario, compiled=8)


def test_an_argument_as_a_key() -> None:
    def scenario(stage):
        a, b = x(), x()
        table = {a: 2.0, b: 3.0}
        f = stage.compile(lambda v: v * table.get(v, 5.0))
        for v in (a, x(), x(), b, a, b, x()):
            stage.call(f, v)

    check(scenario, compiled=3)


def test_an_argument_that_is_a_parameter() -> None:
    def scenario(stage):
        model, other = nn.Linear(3, 3), nn.Linear(3, 3)
        for p in (*model.parameters(), *other.parameters()):
            nn.init.constant_(p, 0.5)
        f = stage.compile(lambda w: w * 2 if w is model.weight else w - 1)
        for w in (model.weight, other.weight, other.weight, model.weight, model.bias, other.bias):
            stage.call(f, w)

    check(scenario, compiled=2)


@pytest.mark.parametrize("ask", ["id", "hash"])
def test_the_number_of_an_argument(ask) -> None:
    def scenario(stage):
        a, b, others = x(), x(), [x() for _ in range(3)]
        number = {"id": id, "hash": hash}[ask]
        table = {number(a): 2.0, number(b): 3.0}
        space = {"table": table}
        exec(f"def f(v): return v * table.get({ask}(v), 5.0)", space)
        f = stage.compile(space["f"])
        for v in (a, a, others[0], others[1], b, b, a, others[2]):
            stage.call(f, v)
        assert ask not in space

    check(scenario, compiled=3)


def test_the_numbers_of_other_objects_do_not_matter() -> None:
    def f(v, model):
        once = {id(p): p for p in model.parameters()}
        return v * sum(p.sum() for p in once.values())

    compiled, model = tj.compile(f), nn.Linear(2, 2)
    for _ in range(4):
        v = x()
        assert compiled(v, model).tolist() == pytest.approx(f(v, model).tolist())
    assert compiled.stats.compiled_calls == 3
    assert "id" not in globals()


def test_an_argument_that_is_gone() -> None:
    """Recordings for one tensor do not keep it."""
    compiled = tj.compile(lambda v: v * (id(v) > 0))
    v = x()
    for _ in range(3):
        compiled(v)
    gone = weakref.ref(v)
    del v
    assert gone() is None
    assert compiled(x()).tolist() == x().tolist()


@pytest.mark.sampled(24)
@pytest.mark.parametrize("size", [None, 1, 128])
@pytest.mark.parametrize("step", [3, 4, 5])
def test_a_cache_that_is_emptied(size, step) -> None:
    def scenario(stage):
        thing = Thing()

        @functools.lru_cache(maxsize=size)
        def scaled(n):
            return n * thing.rate

        f = stage.compile(lambda v: v * scaled(3))
        for i in range(10):
            if i == 2:
                thing.rate = 5.0
            if i == step:
                scaled.cache_clear()
            if i == 7:
                scaled(4)  # other results
            stage.call(f, x())

    assert agree(scenario).stats.compiled_calls >= 3


@pytest.mark.sampled(2)
@pytest.mark.parametrize("asked", [(4,), (4, 3), (4, 3, 2), (3, 2), (2,)])
@pytest.mark.parametrize("size", [2, 3])
def test_a_full_cache_uses_its_places_again(size, asked) -> None:
    """Others ask it for something: what it drops, and computes anew, hangs on the order of all calls."""

    def scenario(stage):
        thing = Thing()

        @functools.lru_cache(maxsize=size)
        def scaled(n):
            return {"scale": n * thing.rate}

        f = stage.compile(lambda v: v * scaled(2)["scale"] + scaled(3)["scale"])
        for i in range(14):
            thing.rate = 2.0 + i
            if i in (5, 9):
                for n in asked:
                    scaled(n)
            stage.call(f, x())
        stage.note("scale", scaled(3)["scale"])

    assert agree(scenario).stats.compiled_calls >= 3


CACHED = """
import functools
said = []

@functools.lru_cache(maxsize={size}, typed={typed})
def table(n):
    said.append(n)
    return tj.ones(n)

def f(v, k=1):
    return v * table(v.shape[0]) + table(k)[0]
"""


@pytest.mark.parametrize("size", [None, 8])
@pytest.mark.parametrize("typed", [False, True])
def test_a_cache_is_asked_for_sizes_and_numbers_that_vary(size, typed) -> None:
    """A lone ``int`` is another key there than what stands for one."""

    def scenario(stage):
        module = user_module(CACHED.format(size=size, typed=typed))
        f = stage.compile(module.f)
        for i in range(12):
            stage.call(f, tj.ones(3 + i % 2), k=1 + i % 3)
            module.table(3).mul_(2.0)
            stage.note("said", list(module.said))

    agree(scenario)


@pytest.mark.parametrize("size", [None, 8])
def test_a_result_in_a_cache_that_is_changed(size) -> None:
    def scenario(stage):
        @functools.lru_cache(maxsize=size)
        def settings():
            return {"scale": 2.0, "more": [1.0]}

        f = stage.compile(lambda v: v * settings()["scale"] + settings()["more"][-1])
        for i in range(9):
            if i == 3:
                settings()["scale"] = 7.0
            if i == 5:
                settings()["more"].append(4.0)
            stage.call(f, x())

    check(scenario, compiled=3)


def test_keys_that_keep_state() -> None:
    def scenario(stage):
        things = {Thing(2.0): 1.0, Thing(3.0): 0.5}
        f = stage.compile(lambda v: sum(v * t.rate * share for t, share in things.items()))
        for i in range(7):
            if i in (3, 5):
                next(iter(things)).rate += 1.0
            stage.call(f, x())

    check(scenario, compiled=0)
