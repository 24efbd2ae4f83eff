"""Guards on objects and classes: attributes, methods and how they are looked up."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace

import pytest

import tracejit as tj
from state_helpers import expect_change, expect_same, module
from tracejit.trace.state.state import watch

# -- objects and classes ---------------------------------------------------------------------------------


class Config:
    base = 10

    def __init__(self):
        self.rate = 0.5
        self.unread = 1
        self.table = {"depth": 2}

    def helper(self, x):
        return x * self.rate + self.base

    @property
    def half(self):
        return self.rate * FACTOR

    @classmethod
    def default(cls):
        return cls()

    @staticmethod
    def fixed(x):
        return x


FACTOR = 0.5


def use(config, x):
    return config.helper(x) + config.half + config.table["depth"] + config.fixed(x)


def test_attributes_of_an_argument():
    config = Config()
    guard = watch(use, (config,))
    expect_same(guard)
    config.unread = 2
    config.new_and_unread = 3
    expect_same(guard)
    config.rate = 0.25
    expect_change(guard, "attribute 'rate' of Config (argument 0) was 0.5 and is 0.25")
    config.rate = 0.5
    config.table["depth"] = 3
    expect_change(guard, "item 'depth' of attribute 'table' of Config", "was 2 and is 3")
    config.table["depth"] = 2
    expect_same(guard)
    del config.rate
    expect_change(guard, "attribute 'rate'", "is not set")


def test_two_instances_are_guarded_apart():
    one, two = Config(), Config()
    first, second = watch(use, (one,)), watch(use, (two,))
    one.rate = 7
    expect_change(first, "attribute 'rate'")
    expect_same(second)


@pytest.mark.parametrize("name", ["helper", "half", "fixed"])
def test_a_method_is_replaced_on_the_class_or_covered_on_the_object(monkeypatch, name):
    config = Config()
    guard = watch(use, (config,))
    with monkeypatch.context() as patch:
        patch.setattr(Config, name, lambda self, x: x)
        expect_change(guard, f"{name!r} of class Config")
    expect_same(guard)
    vars(config)[name] = lambda x: x
    expect_change(guard, f"has the new attribute {name!r}")


@pytest.mark.parametrize("others", [2, 40])
def test_a_name_that_is_read_comes_while_others_go(others):
    config = Config()
    vars(config).update({f"unread{i}": i for i in range(others)})
    guard = watch(use, (config,))
    for name in ("unread0", "unread1"):
        delattr(config, name)
        setattr(config, f"other{name}", 1)
        expect_same(guard)
    vars(config)["half"] = lambda x: x
    del config.otherunread0
    expect_change(guard, "has the new attribute 'half'")


def test_a_class_attribute_is_replaced(monkeypatch):
    guard = watch(use, (Config(),))
    monkeypatch.setattr(Config, "base", 11)
    expect_change(guard, "'base' of class Config was 10 and is 11")


def test_a_global_read_by_a_property(monkeypatch):
    guard = watch(use, (Config(),))
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    expect_change(guard, "global 'FACTOR' was 0.5 and is 2.0")


def test_a_method_reached_through_super():
    class Parent:
        def step(self, x):
            return x

    class Child(Parent):
        def step(self, x):
            return super().step(x)

    guard = watch(Child.step, (Child(),))
    expect_same(guard)
    Parent.step = lambda self, x: -x
    expect_change(guard, "'step' of class", "Parent")


def test_a_method_that_a_class_of_the_package_was_given_is_hidden_by_those_of_subclasses(
    monkeypatch,
):
    """Programs add methods to classes of libraries; what their own classes call so is what calls find there."""
    law = tj.distributions.Transform

    def shown(self, x):
        return self(x), x

    monkeypatch.setattr(law, "shown", shown, raising=False)

    class Doubled(law):
        def _call(self, x):
            return x * 2

    class Joined(law):
        def __init__(self, *parts):
            super().__init__()
            self.parts = parts

        def shown(self, x):
            for part in self.parts:
                x, _ = part.shown(x)
            return x, x + 1

    class Flow:
        def __init__(self, made):
            self.made = made

        def run(self, x):
            return self.made.shown(x)[1]

    def joined():
        return Flow(Joined(Doubled(), Doubled()))

    compiled = tj.compile(lambda x: joined().run(x), strict=True)
    for _ in range(3):
        assert compiled(tj.ones(2)).tolist() == [5.0, 5.0]
    monkeypatch.setattr(law, "shown", lambda self, x: (x * 3, x))
    for _ in range(3):
        assert compiled(tj.ones(2)).tolist() == [10.0, 10.0]
    assert compiled.stats.compiled_calls == 4


def test_a_subclass_override_and_a_new_class():
    class Child(Config):
        pass

    config = Child()
    guard = watch(use, (config,))
    Child.helper = lambda self, x: x
    expect_change(guard, "'helper' of class")
    del Child.helper
    expect_same(guard)
    Child.fixed = staticmethod(lambda x: x)
    expect_change(guard, "'fixed' of class")
    del Child.fixed
    config.__class__ = Config
    expect_change(guard, "class Config")


def test_an_object_made_inside_the_function(monkeypatch):
    def f(x):
        return Config.default().helper(x)

    guard = watch(f)
    expect_same(guard)
    monkeypatch.setattr(Config, "__init__", lambda self: None)
    expect_change(guard, "'__init__' of class Config")


def test_a_counter_attribute_is_a_change_by_the_run():
    class Counter:
        def __init__(self):
            self.calls = 0

        def step(self, x):
            self.calls += 1
            self.last = x

    counter = Counter()
    guard = watch(Counter.step, (counter,))
    _, change = guard.changed_by(lambda: counter.step(2))
    assert change is not None
    assert "attribute 'calls' of" in change
    counter.calls = 0
    expect_change(guard, "has the new attribute 'last'")


def test_slots_set_and_unset():
    class Slotted:
        __slots__ = ("n", "other", "unset")

    thing = Slotted()
    thing.n = 1

    def f(x):
        return x * thing.n if hasattr(thing, "unset") else x

    guard = watch(f)
    expect_same(guard)
    thing.other = 2
    expect_same(guard)
    thing.n = 2
    expect_change(guard, "attribute 'n' of", "was 1 and is 2")
    thing.n = 1
    thing.unset = 1
    expect_change(guard, "attribute 'unset' of", "was not set and is 1")


def test_dataclasses_nested_in_each_other():
    @dataclass
    class Inner:
        sizes: list = field(default_factory=lambda: [1, 2])

    @dataclass
    class Outer:
        inner: Inner = field(default_factory=Inner)

    outer = Outer()
    guard = watch(lambda x: x * outer.inner.sizes[0])
    outer.inner.sizes.append(3)
    expect_change(guard, "the length of attribute 'sizes' of", "was 2 and is 3")


def test_attributes_read_by_computed_names():
    thing = SimpleNamespace(w0=1, w1=2)

    def computed(x):
        return sum(x * getattr(thing, f"w{i}") for i in range(2))

    def constant(x):
        return x * getattr(thing, "w0")  # noqa: B009

    def whole(x):
        return x * sum(vars(thing).values())

    guards = [watch(f) for f in (computed, constant, whole)]
    thing.w1 = 3
    expect_change(guards[0], "attribute 'w1'")
    expect_same(guards[1])
    expect_change(guards[2], "attribute 'w1'")
    thing.w0 = 3
    expect_change(guards[1], "attribute 'w0'")


def test_an_optional_attribute_appears():
    thing = SimpleNamespace(a=1)
    guard = watch(lambda x: x if hasattr(thing, "bias") else -x)
    thing.unread = 1
    expect_same(guard)
    thing.bias = 1
    expect_change(guard, "has the new attribute 'bias'")


def test_enum_members_and_objects_with_strange_equality():
    class Color(enum.Enum):
        RED = 1
        BLUE = 2

    class Equal:
        def __eq__(self, other):
            raise AssertionError("a guard must not run this")

        __hash__ = None

    user = module("user", "def f(x): return x if color else thing")
    user.color, user.thing = Color.RED, Equal()
    guard = watch(user.f)
    expect_same(guard)
    user.color = Color.BLUE
    expect_change(guard, "global 'color'")
    user.color = Color.RED
    user.thing = Equal()
    expect_change(guard, "global 'thing'")


def test_a_bound_method_of_a_container():
    log = []
    push = log.append
    _, change = watch(lambda x: push(x)).changed_by(lambda: push(1))
    assert change is not None
    assert change.startswith("the length of the owner of closure variable 'push'")


class Ranked:
    rank = -1


class Slotted(Ranked):
    __slots__ = ("rank",)

    def __init__(self, rank):
        self.rank = rank


SLOTTED = Slotted(2.0)


def test_slots_hide_what_bases_have():
    compiled = tj.compile(lambda x: x * SLOTTED.rank, strict=True)
    for rank in (2.0, 2.0, 3.0, 3.0):
        SLOTTED.rank = rank
        assert compiled(tj.ones(2)).tolist() == [rank, rank]
    assert compiled.stats.compiled_calls >= 2


# --- objects of this package that are neither modules nor optimizers -------------------------------------------------

D = tj.distributions


def normal():
    prior = D.Normal(tj.zeros(2), tj.ones(2))
    wider = partial(setattr, prior, "scale", tj.full((2,), 3.0))
    return prior.log_prob, [lambda: prior.loc.fill_(1.0), wider]


def transformed():
    law = D.TransformedDistribution(
        D.Normal(tj.zeros(2), tj.ones(2)), [D.AffineTransform(0.0, 1.0)]
    )
    scaled = partial(setattr, law.transforms[0], "scale", 3.0)
    return law.log_prob, [scaled, lambda: law.transforms.append(D.ExpTransform())]


def independent():
    law = D.Independent(D.Normal(tj.zeros(2), tj.ones(2)), 1)
    return law.log_prob, [partial(setattr, law.base_dist, "scale", tj.full((2,), 4.0))]


def dataset():
    data = tj.utils.data.TensorDataset(tj.arange(4.0))
    other = partial(setattr, data, "tensors", (tj.full((4,), 9.0),))
    return lambda x: data[1][0] * x, [lambda: data.tensors[0].fill_(7.0), other]


@pytest.mark.parametrize("made", [normal, transformed, independent, dataset])
def test_objects_of_the_package_are_watched(made):
    function, changes = made()
    compiled = tj.compile(lambda x: function(x) * 2)
    x = tj.tensor([0.3, 0.4])
    for change in (lambda: None, *changes):
        change()
        for _ in range(3):
            assert compiled(x).tolist() == (function(x) * 2).tolist()
    assert compiled.stats.compiled_calls > 0
