"""Guards on the names and functions a function reads: whatever makes a replay stale is noticed."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import numpy as np
import pytest

import tracejit as tj
from state_helpers import expect_change, expect_same, module
from tracejit.trace.state.state import watch

# -- names of the function -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (2.0, 3.0),
        (2, 2.0),
        (True, 1),
        (0.0, -0.0),
        ("a", "b"),
        (None, 0),
        (b"a", "a"),
        (1j, complex(-0.0, 1)),
        ((1, 2), (1, 2.0)),
        ((1, (0.0,)), (1, (-0.0,))),
        (frozenset({1}), frozenset({True})),
        (slice(1), slice(2)),
        (range(3), range(4)),
        (np.float32(1), np.float64(1)),
        (np.float32(0), np.float32(-0.0)),
        ([1], [1]),
        (tj.float32, tj.float64),
    ],
)
def test_a_global_that_changes(before, after):
    user = module("user", "def f(x): return x * scale")
    user.scale = before
    guard = watch(user.f)
    expect_same(guard)
    user.scale = after
    expect_change(guard, "global 'scale' was", " is ")
    user.scale = before
    expect_same(guard)


@pytest.mark.parametrize(
    "make",
    [
        lambda: float("1.5"),
        lambda: float("nan"),
        lambda: int("12345678901"),
        lambda: "".join(["a", "b", "c"]),
        lambda: (float("2.5"), "".join(["p", "q"])),
        lambda: frozenset([float("0.5")]),
        lambda: np.float32(1.5),
    ],
)
def test_an_equal_value_in_its_place_is_no_change(make):
    user = module("user", "def f(x): return x * scale")
    user.scale = make()
    guard = watch(user.f)
    other = make()
    assert other is not user.scale
    user.scale = other
    expect_same(guard)


def test_the_words():
    user = module("user", "scale = 2.0\ndef f(x): return x * scale")
    guard = watch(user.f)
    user.scale = 3.0
    assert guard.difference() == "global 'scale' was 2.0 and is 3.0"
    del user.scale
    assert guard.difference() == "global 'scale' was 2.0 and is not set"
    assert not guard.holds()


def test_a_global_that_was_not_set():
    user = module("user", "def f(x):\n  try: return x * scale\n  except NameError: return x")
    guard = watch(user.f)
    expect_same(guard)
    user.unrelated = 1
    expect_same(guard)
    user.scale = 1
    expect_change(guard, "global 'scale' was not set and is 1")


def test_a_global_of_the_same_name_as_an_attribute_does_not_count():
    user = module("user", "weight = 1\ndef f(x): return x.weight")
    guard = watch(user.f)
    user.weight = 2
    expect_same(guard)


def test_a_builtin_that_is_covered_or_replaced(monkeypatch):
    user = module("user", "def f(x): return x * len([1])")
    guard = watch(user.f)
    user.len = lambda x: 7
    expect_change(guard, "global 'len' was not set")
    del user.len
    expect_same(guard)
    with monkeypatch.context() as patch:
        patch.setattr("builtins.len", lambda x: 7)
        held = guard.holds()
    assert not held


def test_a_global_that_the_function_writes():
    user = module("user", "count = 0\ndef f(x):\n  global count, last\n  count += 1\n  last = x")
    result, change = watch(user.f).changed_by(lambda: user.f(1))
    assert result is None
    assert change == "global 'count' was 0 and is 1"
    user.__dict__.update(count=0)
    del user.last
    guard = watch(user.f)
    user.last = 5
    expect_change(guard, "global 'last' was not set and is 5")


def test_closure_variables():
    scale, unset = 2.0, None
    del unset

    def f(x):
        return x * scale if scale else unset  # noqa: F821

    def set_scale(value):
        nonlocal scale
        scale = value

    def set_unset():
        nonlocal unset
        unset = 1

    guard = watch(f)
    expect_same(guard)
    set_scale(5.0)
    expect_change(guard, "closure variable 'scale' of f was 2.0 and is 5.0")
    set_scale(2.0)
    expect_same(guard)
    set_unset()
    expect_change(guard, "closure variable 'unset' of f was not set and is 1")


def test_a_closure_counter_is_a_change_by_the_run():
    calls = 0

    def f(x):
        nonlocal calls
        calls += 1
        return x

    result, change = watch(f).changed_by(lambda: f(3))
    assert result == 3
    assert change == "closure variable 'calls' of f was 0 and is 1"


def test_defaults_replaced_and_changed_in_place():
    def f(x, scales=[1.0, 2.0], *, mode={"fast": True}):  # noqa: B006
        return x * scales[0] if mode["fast"] else x

    guard = watch(f)
    expect_same(guard)
    f.__defaults__[0][1] = 3.0
    expect_change(guard, "item 1 of the default of 'scales' of f was 2.0 and is 3.0")
    f.__defaults__[0][1] = 2.0
    expect_same(guard)
    f.__kwdefaults__["mode"]["fast"] = False
    expect_change(guard, "item 'fast' of the default of 'mode' of f")
    f.__kwdefaults__["mode"] = {"fast": True}
    expect_change(guard, "the default of 'mode' of f")
    guard = watch(f)
    f.__defaults__ = ([1.0, 2.0],)
    expect_change(guard, "the defaults of f")


def test_code_replaced_in_place():
    user = module("user", "def g(x): return x\ndef f(x): return g(x)")
    guard = watch(user.f)
    user.g.__code__ = (lambda x: x + 1).__code__
    expect_change(guard, "the code of g")


# -- functions reached -----------------------------------------------------------------------------------


def test_a_helper_is_replaced_or_reads_something_else():
    user = module("user", "k = 1\ndef h(x): return [x * k for _ in (1,)]\ndef f(x): return h(x)")
    guard = watch(user.f)
    user.k = 2
    expect_change(guard, "global 'k' was 1 and is 2")
    user.k = 1
    expect_same(guard)
    user.h = lambda x: x
    expect_change(guard, "global 'h' was function h")


def test_a_function_of_an_imported_module():
    lib = module("lib", "rate = 0.1\ndef act(x): return x * rate\ndef other(x): return x")
    user = module("user", "def f(x): return lib.act(x)")
    user.lib = lib
    guard = watch(user.f)
    expect_same(guard)
    lib.other = None
    expect_same(guard)
    lib.rate = 0.2
    expect_change(guard, "global 'rate' was 0.1 and is 0.2")
    lib.rate = 0.1
    lib.act = lambda x: x
    expect_change(guard, "attribute 'act'", "was function act")


def test_an_import_inside_the_function(monkeypatch):
    lib = module("lib_inside", "def act(x): return x")
    monkeypatch.setitem(__import__("sys").modules, "lib_inside", lib)

    def f(x):
        from lib_inside import act

        return act(x)

    guard = watch(f)
    expect_same(guard)
    lib.act = abs
    expect_change(guard, "attribute 'act'")


def test_decorated_functions():
    factor = [2.0]

    def twice(function):
        @functools.wraps(function)
        def wrapper(x):
            return function(x) * 2

        return wrapper

    def plain(function):
        return lambda x: function(x)

    for decorator in (twice, plain, functools.lru_cache, tj.no_grad(), functools.partial):

        def f(x):
            return x * factor[0]

        decorated = decorator(f)
        guard = watch(decorated)
        expect_same(guard)
        factor[0] = 3.0
        expect_change(guard, "item 0 of closure variable 'factor' of f was 2.0 and is 3.0")
        factor[0] = 2.0


def test_partial_objects_and_what_they_bind():
    def g(settings, x):
        return settings.rate * x

    settings = SimpleNamespace(rate=1)
    user = module("user", "def f(x): return step(x)")
    user.step = functools.partial(g, settings)
    guard = watch(user.f)
    settings.rate = 2
    expect_change(guard, "attribute 'rate' of SimpleNamespace", "was 1 and is 2")


def test_callable_objects():
    class Scale:
        def __init__(self):
            self.by = 2

        def __call__(self, x):
            return x * self.by

    scale = Scale()
    guard = watch(lambda x: scale(x))
    direct = watch(scale)
    expect_same(direct)
    scale.by = 3
    expect_change(guard, "attribute 'by' of", "was 2 and is 3")
    expect_change(direct, "attribute 'by'")
    scale.by = 2
    expect_same(guard)
    Scale.__call__ = lambda self, x: x
    expect_change(guard, "'__call__' of class")
