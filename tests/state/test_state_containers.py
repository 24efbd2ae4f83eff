"""Guards on containers, bounds and lifetimes."""

from __future__ import annotations

import array
import gc
import weakref
from collections import OrderedDict, defaultdict, deque
from types import SimpleNamespace

import numpy as np
import pytest

from state_helpers import expect_change, expect_same, module
from tracejit.trace.state import reach as state_reach
from tracejit.trace.state.state import watch
from tracejit.trace.state.values import same, token

# -- containers ------------------------------------------------------------------------------------------


class LoudDict(dict):
    def __getitem__(self, key):
        raise AssertionError("a guard must not run this")

    def __iter__(self):
        raise AssertionError("a guard must not run this")


class LoudList(list):
    def __getitem__(self, key):
        raise AssertionError("a guard must not run this")

    __len__ = __iter__ = __getitem__


CONTAINER_CHANGES = {
    "list item": (lambda: [1, 2], lambda c: c.__setitem__(0, 5)),
    "list type of item": (lambda: [1, 2], lambda c: c.__setitem__(0, True)),
    "list append": (lambda: [1], lambda c: c.append(2)),
    "list pop": (lambda: [1], lambda c: c.pop()),
    "list order": (lambda: [1, 2], lambda c: c.reverse()),
    "list subclass": (lambda: LoudList([1]), lambda c: list.__setitem__(c, 0, 2)),
    "list subclass length": (lambda: LoudList([1]), lambda c: c.clear()),
    "nested": (lambda: [{"a": [1]}], lambda c: c[0]["a"].append(2)),
    "in a tuple": (lambda: ([1],), lambda c: c[0].append(2)),
    "dict item": (lambda: {"a": 1}, lambda c: c.update(a=2)),
    "dict type of item": (lambda: {"a": 1}, lambda c: c.update(a=1.0)),
    "dict new": (lambda: {"a": 1}, lambda c: c.update(b=2)),
    "dict removed": (lambda: {"a": 1, "b": 2}, lambda c: c.pop("a")),
    "dict renamed": (lambda: {"a": 1}, lambda c: c.update(b=c.pop("a"))),
    "dict order": (lambda: {"a": 1, "b": 2}, lambda c: c.update(a=c.pop("a"))),
    "dict type of key": (lambda: {1: 0}, lambda c: c.update({True: c.pop(1)})),
    "dict tuple key": (lambda: {(1, 2): 0}, lambda c: c.update({(1, 2): 3})),
    "dict subclass": (lambda: LoudDict(a=1), lambda c: dict.__setitem__(c, "a", 2)),
    "dict subclass key": (lambda: LoudDict(a=1), lambda c: dict.pop(c, "a")),
    "defaultdict": (lambda: defaultdict(list, a=1), lambda c: c.pop("a")),
    "ordered": (lambda: OrderedDict(a=1, b=2), lambda c: c.move_to_end("a")),
    "deque": (lambda: deque([1, 2]), lambda c: c.rotate()),
    "set": (lambda: {1, 2}, lambda c: c.add(3)),
    "set type": (lambda: {1}, lambda c: (c.clear(), c.add(True))),
    "array": (lambda: np.zeros(3), lambda c: c.__setitem__(0, -0.0)),
    "bytearray": (lambda: bytearray(3), lambda c: c.__setitem__(0, 1)),
    "array.array": (lambda: array.array("i", [1]), lambda c: c.append(2)),
    "many items": (lambda: dict.fromkeys(map(str, range(100)), 0), lambda c: c.clear()),
    "many items, key in code": (
        lambda: {**dict.fromkeys(map(str, range(100)), 0), "needed": 1},
        lambda c: c.update(needed=2),
    ),
}


@pytest.mark.parametrize("name", CONTAINER_CHANGES)
def test_a_container_changes_in_place(name):
    make, change = CONTAINER_CHANGES[name]
    user = module("user", "def f(x): return x, box['needed']")
    user.box = make()
    guard = watch(user.f)
    expect_same(guard)
    change(user.box)
    expect_change(guard, "global 'box'")


def test_a_set_rebuilt_with_the_same_members():
    user = module("user", "def f(x): return x in box")
    user.box = {1, 2.0, 3}
    guard = watch(user.f)
    user.box.clear()
    user.box.update([float("2.0"), 3, 1])
    expect_same(guard)


def test_a_defaultdict_is_not_filled_by_looking():
    user = module("user", "def f(x): return x, box['a']")
    user.box = defaultdict(list, a=1)
    guard = watch(user.f)
    user.box.clear()
    expect_change(guard, "key 'a'")
    assert not user.box


def test_containers_that_contain_themselves():
    box: list = []
    box.append(box)
    pair = SimpleNamespace()
    pair.me = pair
    guard = watch(lambda x: (x, box, pair.me))
    expect_same(guard)
    box.append(1)
    expect_change(guard, "the length of closure variable 'box'")


# -- bounds, lifetimes, comparison -----------------------------------------------------------------------


def test_bounds_are_reported(monkeypatch):
    deep: list = []
    inner = deep
    for _ in range(state_reach.MAX_DEPTH + 2):
        inner.append([])
        inner = inner[0]
    assert "nested deeper" in watch(lambda x: (x, deep)).limits[0]
    many = list(range(5000))
    assert "not every item of closure variable 'many'" in watch(lambda x: (x, many)).limits[0]
    big = np.zeros(10_000)
    assert "the values of closure variable 'big'" in watch(lambda x: (x, big)).limits[0]
    assert watch(lambda x: inner).limits == ()
    monkeypatch.setattr(state_reach, "MAX_CHECKS", 3)
    pair = SimpleNamespace(a=1, b=2)
    limited = watch(lambda x: pair.a + pair.b)
    assert len(limited.checks) == 4  # and one for the package
    assert "more than 3 places" in limited.limits[0]


def test_a_guard_leaves_with_its_last_reference():
    class Box:
        value = 1

    box = Box()
    guard = watch(lambda x: x * box.value)
    reference = weakref.ref(guard)
    gc.disable()
    try:
        del guard
        assert reference() is None
    finally:
        gc.enable()


def test_only_callables_can_be_watched():
    with pytest.raises(TypeError, match="watch takes a function, not int"):
        watch(3)


def test_nothing_to_check():
    guard = watch(len)
    expect_same(guard)


def test_tokens_tell_types_and_bits_apart():
    values = [
        0,
        0.0,
        -0.0,
        False,
        0j,
        -0j,
        "",
        b"",
        None,
        (),
        (0,),
        (0.0,),
        frozenset(),
        np.float32(0),
    ]
    assert len({token(v) for v in values}) == len(values)
    assert same(float("nan"), float("nan"))
    assert not same([], [])
