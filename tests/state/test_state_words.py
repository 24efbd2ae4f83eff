"""Guards compared as words of memory: every change of a dict, class, function, list or set shows."""

from __future__ import annotations

import builtins
import gc
import random
from collections import Counter, OrderedDict, defaultdict
from enum import Enum
from types import SimpleNamespace

import pytest

import tracejit as tj
from state_helpers import expect_change, expect_same, module
from tracejit.runtime.native import memory_words as memory
from tracejit.trace.state import state
from tracejit.trace.state.state import watch

pytestmark = pytest.mark.skipif(not memory.known(), reason="this interpreter lies in another way")


@pytest.fixture(autouse=True)
def _natively(monkeypatch):
    monkeypatch.setattr(state, "MANY", 0)


def group(words, answers):
    """A group that gives one answer after another, and tells how often it was asked."""
    asked = []

    def holds():
        asked.append(1)
        return answers[min(len(asked), len(answers)) - 1]

    return memory.Group(holds, words), asked


def test_without_changes_nothing_is_asked():
    found, asked = group([memory.dict_word({})], [False])
    kept = {}
    found.words = [memory.dict_word(kept)]
    same = memory.comparison([found])
    assert same() is True
    assert same() is True
    assert not asked


def test_a_change_is_asked_about_once():
    kept = {"a": 1}
    found, asked = group([memory.dict_word(kept)], [True])
    same = memory.comparison([found])
    kept["b"] = 2
    assert same() is True
    assert same() is True
    assert len(asked) == 1


def test_a_refused_change_stays_refused():
    kept = {"a": 1}
    found, asked = group([memory.dict_word(kept)], [False, False, True])
    same = memory.comparison([found])
    kept["a"] = 2
    assert [same(), same(), same(), same()] == [False, False, True, True]
    assert len(asked) == 3


def test_a_change_during_the_question_is_asked_about_again():
    kept = {"a": 1}
    asked = []

    def holds():
        asked.append(1)
        kept["a"] = 10 + len(asked) if len(asked) < 3 else kept["a"]
        return True

    same = memory.comparison([memory.Group(holds, [memory.dict_word(kept)])])
    kept["a"] = 2
    assert [same() for _ in range(5)] == [True] * 5
    assert len(asked) == 3


def test_errors_come_out():
    def holds():
        raise KeyError("inside")

    same = memory.comparison([memory.Group(holds)])
    with pytest.raises(KeyError, match="inside"):
        same()


@pytest.mark.parametrize("count", [0, 1, 7, 1000])
def test_many_groups(count):
    kept = [{} for _ in range(count)]
    found = [group([memory.dict_word(d)], [True]) for d in kept]
    always, asked = group([], [True])
    same = memory.comparison([*(g for g, _ in found), always])
    assert same() is True
    for d in kept[::3]:
        d["x"] = 1
    assert same() is True
    assert same() is True
    assert [len(a) for _, a in found] == [int(i % 3 == 0) for i in range(count)]
    assert len(asked) == 3


def test_what_is_compared_stays_alive():
    def make():
        kept = {"a": 1}
        return memory.comparison([memory.Group(lambda: kept["a"] == 1, [memory.dict_word(kept)])])

    same = make()
    gc.collect()
    [{} for _ in range(1000)]
    assert same() is True


CHANGES = {
    "set": lambda d: d.__setitem__("a", 98765),
    "new": lambda d: d.__setitem__("new", 1),
    "delete": lambda d: d.__delitem__("a"),
    "pop": lambda d: d.pop("a"),
    "popitem": lambda d: d.popitem(),
    "clear": lambda d: d.clear(),
    "update": lambda d: d.update(a=98765),
    "merge": lambda d: d.__ior__({"a": 98765}),
    "default": lambda d: d.setdefault("new"),
}


@pytest.mark.parametrize("kind", [dict, Counter, OrderedDict, lambda d: defaultdict(int, d)])
@pytest.mark.parametrize("name", CHANGES)
def test_dicts_count_every_change(kind, name):
    for keys in (1, 5, 40, 3000):
        kept = kind({"a": 1} | {f"k{i}": i for i in range(1, keys)})
        before = memory.dict_word(kept)
        CHANGES[name](kept)
        assert memory.dict_word(kept).found != before.found


def write_attribute(holder, value):
    holder.value = value


def write_item(holder, value):
    holder["value"] = value


class Plain:
    pass


class Slotted:
    __slots__ = ("__dict__",)


@pytest.mark.parametrize(
    ("make", "space", "write"),
    [
        (lambda: {"value": 0}, lambda d: d, write_item),
        (Plain, vars, write_attribute),
        (Slotted, vars, write_attribute),
        (SimpleNamespace, vars, write_attribute),
        (lambda: module("words", "value = 0"), vars, write_attribute),
        (lambda: lambda: None, vars, write_attribute),
    ],
)
def test_writes_of_hot_code_count(make, space, write):
    """Code that runs often is rewritten by the interpreter, and writes in shorter ways."""
    holder = make()
    write(holder, 0)
    space = space(holder)
    missed = 0
    for value in range(3000, 5000):
        before = memory.dict_word(space)
        write(holder, value)
        missed += before is not None and memory.dict_word(space).found == before.found
    assert missed == 0


def test_order_of_an_ordered_dict():
    user = module("user", "def f(x):\n    for k in table: x = x * 2 + len(k)\n    return x")
    user.table = OrderedDict(a=1, b=2)
    guard = watch(user.f)
    expect_same(guard)
    user.table.move_to_end("a")
    expect_change(guard, "order")


def test_classes_with_bases_metaclass_and_members():
    source = """
class Meta(type): pass
class Base:
    scale = 2
    def half(self, x): return x / 2
class Child(Base, metaclass=Meta): pass
def f(x): return child.half(x) * child.scale + Child.scale
"""
    for change in (
        lambda u: setattr(u.Base, "scale", 3),
        lambda u: setattr(u.Child, "scale", 3),
        lambda u: setattr(u.Base, "half", lambda self, x: x),
        lambda u: setattr(u.child, "half", lambda x: x),
        lambda u: setattr(u.child, "__class__", type("Other", (u.Base,), {"scale": 5})),
        lambda u: setattr(u, "child", u.Child()),
    ):
        user = module("user", source)
        user.child = user.Child()
        guard = watch(user.f)
        expect_same(guard)
        user.Child.unrelated = 1
        user.Base.unrelated = 1
        expect_same(guard)
        change(user)
        expect_change(guard)


def test_lists_that_move_and_shrink():
    user = module("user", "def f(x):\n    for s in scales: x = x * s\n    return x")
    for change in (
        lambda s: s.append(1),
        lambda s: s.extend(range(10_000)),
        lambda s: s.pop(),
        lambda s: s.clear(),
        lambda s: s.__setitem__(1, 7.0),
        lambda s: s.reverse(),
        lambda s: s.insert(0, 9.0),
    ):
        user.scales = [1.5, 2.5, 3.5]
        guard = watch(user.f)
        expect_same(guard)
        change(user.scales)
        expect_change(guard)
        user.scales[:] = [1.5, 2.5, 3.5]
        expect_same(guard)


def test_sets_of_all_sizes():
    for size in (1, 3, 24, 200):
        user = module("user", "def f(x):\n    return x + len(names) + ('a' in names)")
        user.names = {f"n{i}" for i in range(size)}
        guard = watch(user.f)
        expect_same(guard)
        user.names.add("a")
        expect_change(guard, "names")
        user.names.discard("a")
        user.names.discard("n0")
        expect_change(guard, "names")


def test_a_builtin_is_replaced(monkeypatch):
    user = module("user", "def f(x): return x * len(x)")
    guard = watch(user.f)
    expect_same(guard)
    monkeypatch.setattr(builtins, "len", lambda x: 7)
    changed = guard.holds()
    monkeypatch.undo()
    assert changed is False
    expect_same(guard)


def test_equal_values_in_other_objects():
    """A number computed anew is another object with the same value, any number of times."""
    user = module("user", "def f(x): return x * scale + table['k'] + items[0] + cell()")
    user.scale, user.table, user.items = float("1.5"), {"k": float("2.5")}, [float("3.5")]
    kept = SimpleNamespace(value=float("4.5"))
    user.cell = (lambda value: lambda: value)(kept.value)
    guard = watch(user.f)
    for _ in range(5):
        user.scale, user.table["k"] = float("1.5"), float("2.5")
        user.items[0] = float("3.5")
        user.cell.__closure__[0].cell_contents = float("4.5")
        expect_same(guard)
    user.items[0] = -3.5
    expect_change(guard)


class Colour(Enum):
    RED = 1


SOURCE = """
def f(x):
    if flag: x = x * helper(x)
    for s in scales: x = x + s
    return x * table["a"] + holder.value + holder.inner.value + len(names)
def helper(x, factor=2.0): return x * factor
"""


def changes_of(user, rng):
    """What can happen to the state of a module made from ``SOURCE``."""
    return [
        lambda: setattr(user, "flag", rng.choice([True, 1, False])),
        lambda: setattr(user, "unrelated", rng.random()),
        lambda: user.scales.append(rng.random()),
        lambda: user.scales.__setitem__(0, rng.choice([1.0, 1, 5.0])),
        lambda: user.table.__setitem__(rng.choice("abc"), rng.choice([1.0, 2.0])),
        lambda: user.table.pop("c", None),
        lambda: setattr(user.holder, "value", rng.choice([1, 2])),
        lambda: setattr(user.holder.inner, "value", rng.choice([2, 3])),
        lambda: setattr(user.holder.inner, "other", 3),
        lambda: setattr(user.helper, "__defaults__", (rng.choice([2.0, 3.0]),)),
        lambda: user.names.symmetric_difference_update({"p"}),
        lambda: setattr(user, "helper", user.helper),
    ]


def test_random_changes_are_seen_as_by_python():
    """The native function and the generated one agree, whatever happens to the state."""
    rng = random.Random(4)
    for _ in range(60):
        user = module("user", SOURCE)
        user.flag, user.scales, user.table = True, [1.0, 2.0], {"a": 1.0, "b": Colour.RED}
        user.holder = SimpleNamespace(value=1, inner=Plain())
        user.holder.inner.value, user.names = 2, {"p", "q"}
        guard = watch(user.f)
        generated = state._generate(guard.checks)
        changes = changes_of(user, rng)
        for _ in range(25):
            rng.choice(changes)()
            assert guard.holds() is generated()


def test_a_compiled_function_with_a_large_state():
    """Hundreds of places, each of which is noticed."""
    parts = [f"def f{i}(x): return x * c{i} + d{i}.value" for i in range(60)]
    calls = " ".join(f"x = f{i}(x);" for i in range(60))
    user = module("user", "\n".join([*parts, f"def f(x):\n    {calls}\n    return x"]))
    for i in range(60):
        setattr(user, f"c{i}", 1.0)
        setattr(user, f"d{i}", SimpleNamespace(value=0.0))
    g = tj.compile(user.f)
    x = tj.ones(3)
    for _ in range(3):
        assert g(x).tolist() == [1.0] * 3
    assert g.stats.compiled_calls == 2
    for i in (0, 17, 59):
        setattr(user, f"c{i}", "no number")
        with pytest.raises(TypeError):
            g(x)
        setattr(user, f"c{i}", 1.0)
        getattr(user, f"d{i}").value = True
        assert g(x).tolist() == user.f(x).tolist() == [2.0] * 3
        getattr(user, f"d{i}").value = 0.0
        assert g(x).tolist() == [1.0] * 3
