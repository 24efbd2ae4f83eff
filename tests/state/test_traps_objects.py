"""Traps: objects, classes and containers whose state changes between calls or inside them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import pytest

import tracejit as tj
from trap_objects import (
    Thing,
    x,
)
from trap_tools import check


def test_attribute_changed() -> None:
    def scenario(stage):
        thing = Thing()
        f = stage.compile(lambda v: thing.apply(v))
        for thing.rate in (2.0, 2.0, 3.0, 3.0, 2.0):
            stage.call(f, x())

    check(scenario, compiled=3, recorded=2)


@pytest.mark.parametrize(
    "name", sorted({"training", "_modules", "_parameters", "_buffers", "_hooks"})
)
def test_an_attribute_of_an_ordinary_object_called_as_one_of_a_module(name: str) -> None:
    def scenario(stage):
        thing = Thing()
        setattr(thing, name, True)
        f = stage.compile(lambda v: v * 2 if getattr(thing, name) else v - 1)
        for value in (True, True, False, False, True):
            setattr(thing, name, value)
            stage.call(f, x())

    check(scenario, compiled=3, recorded=2)


def test_counter_attribute() -> None:
    def scenario(stage):
        thing = Thing()
        f = stage.compile(lambda v: thing.counted(v))
        for _ in range(5):
            stage.call(f, x())
            stage.note("calls", thing.calls)

    check(scenario, compiled=3)


def test_two_instances_of_one_class() -> None:
    def scenario(stage):
        f = stage.compile(Thing.apply)
        things = [Thing(2.0), Thing(3.0)]
        for step in range(8):
            if step == 5:
                things[0].rate = 4.0
            stage.call(f, things[step % 2], x())

    check(scenario, compiled=4, recorded=3)


def test_method_replaced_on_instance_and_class() -> None:
    def scenario(stage):
        class Own(Thing):
            pass

        thing, other = Own(), Own(3.0)
        f = stage.compile(Own.apply)

        def both():
            for one in (thing, other, thing, other):
                stage.call(f, one, x())

        both()
        thing.scale = lambda: 10.0
        both()
        Own.scale = lambda self: self.rate + 100.0
        both()
        del thing.scale
        both()
        Thing.scale, before = (lambda self: 0.5), Thing.scale
        del Own.scale
        both()
        Thing.scale = before

    check(scenario, compiled=8)


def test_class_attribute_changed() -> None:
    def scenario(stage):
        class Base:
            k = 2.0

        class Own(Base):
            def f(self, v):
                return v * self.k + type(self).k * Base.k

        own = Own()
        f = stage.compile(own.f)
        stage.call(f, x())
        stage.call(f, x())
        Base.k = 3.0
        stage.call(f, x())
        Own.k = 5.0
        stage.call(f, x())
        own.k = 7.0
        stage.call(f, x())
        del Own.k
        stage.call(f, x())
        stage.call(f, x())

    check(scenario, compiled=2)


def test_class_counter_written_inside() -> None:
    def scenario(stage):
        class Own:
            made = 0

            def __init__(self):
                Own.made += 1

        def f(v):
            Own()
            return v * Own.made

        g = stage.compile(f)
        for _ in range(5):
            stage.call(g, x())
            stage.note("made", Own.made)

    check(scenario, compiled=3, recorded=2)


def test_class_of_an_object_changed() -> None:
    def scenario(stage):
        class A:
            def go(self, v):
                return v * 2

        class B:
            def go(self, v):
                return v - 1

        thing = A()
        f = stage.compile(lambda v: thing.go(v) if isinstance(thing, A) else thing.go(v) * 10)
        for cls in (A, A, B, B, A):
            thing.__class__ = cls
            stage.call(f, x())

    check(scenario, compiled=2)


def test_isinstance_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def scenario(stage):
        space = {"Thing": Thing, "thing": Thing()}
        exec("def f(v): return v * 2 if isinstance(thing, Thing) else v * 3", space)
        f = stage.compile(space["f"])
        stage.call(f, x())
        stage.call(f, x())
        space["Thing"] = int
        stage.call(f, x())
        space["Thing"] = Thing
        space["isinstance"] = lambda *a: False
        stage.call(f, x())
        stage.call(f, x())

    check(scenario, compiled=2)


def test_abstract_class_registered() -> None:
    import abc

    def scenario(stage):
        class Shape(abc.ABC):  # noqa: B024
            pass

        class Square:
            side = 2.0

        thing = Square()
        f = stage.compile(lambda v: v * thing.side if isinstance(thing, Shape) else v - 1)
        stage.call(f, x())
        stage.call(f, x())
        Shape.register(Square)
        stage.call(f, x())
        stage.call(f, x())

    check(scenario, compiled=1)


def test_metaclass_instancecheck() -> None:
    def scenario(stage):
        class Meta(type):
            yes = True

            def __instancecheck__(cls, instance):
                return cls.yes

        class Anything(metaclass=Meta):
            pass

        f = stage.compile(lambda v: v * 2 if isinstance(v, Anything) else v * 3)
        stage.call(f, x())
        stage.call(f, x())
        Meta.yes = False
        stage.call(f, x())
        stage.call(f, x())

    check(scenario, compiled=1)


def test_property_and_getattr() -> None:
    def scenario(stage):
        class Own:
            def __init__(self):
                self.inner = {"gain": 2.0}
                self._rate = 3.0

            @property
            def rate(self):
                return self._rate * 2

            def __getattr__(self, name):
                return self.__dict__["inner"][name]

        own = Own()
        f = stage.compile(lambda v: v * own.rate + own.gain)
        stage.call(f, x())
        stage.call(f, x())
        own._rate = 4.0
        stage.call(f, x())
        own.inner["gain"] = 5.0
        stage.call(f, x())
        Own.rate = property(lambda self: 1.0)
        stage.call(f, x())
        own.gain = 9.0  # now an attribute of its own
        stage.call(f, x())
        stage.call(f, x())

    check(scenario, compiled=2)


def test_descriptor_with_state() -> None:
    def scenario(stage):
        class Descriptor:
            value = 2.0

            def __get__(self, instance, owner):
                return self.value

        class Own:
            rate = Descriptor()

        own = Own()
        f = stage.compile(lambda v: v * own.rate)
        stage.call(f, x())
        stage.call(f, x())
        vars(Own)["rate"].value = 3.0
        stage.call(f, x())
        stage.call(f, x())

    check(scenario, compiled=2)


def test_slots_enum_dataclass() -> None:
    class Mode(enum.Enum):
        TWICE = 2.0
        THRICE = 3.0

    @dataclass
    class Config:
        mode: Mode = Mode.TWICE
        sizes: list = field(default_factory=lambda: [1.0])

    class Slotted:
        __slots__ = ("config", "k")

    def scenario(stage):
        thing = Slotted()
        thing.k, thing.config = 2.0, Config()

        def f(v):
            v = v * thing.k + thing.config.sizes[0]
            return v * 2 if thing.config.mode is Mode.TWICE else v * thing.config.mode.value

        g = stage.compile(f)
        stage.call(g, x())
        stage.call(g, x())
        thing.k = 3.0
        stage.call(g, x())
        thing.config.mode = Mode.THRICE
        stage.call(g, x())
        thing.config.sizes[0] = 5.0
        stage.call(g, x())
        thing.config = Config()
        stage.call(g, x())
        stage.call(g, x())

    check(scenario, compiled=2)


def test_a_method_of_a_derived_dict_and_the_one_it_extends() -> None:
    class Registry(dict):
        def get(self, owner):
            return super().get(type(owner).__name__, 1.0)

    registry = Registry(float=2.0)
    f = tj.compile(lambda v, owner: v * registry.get(owner))
    assert [f(tj.ones(1), 0.5).item() for _ in range(3)] == [2.0, 2.0, 2.0]
    registry["float"] = 4.0
    assert f(tj.ones(1), 0.5).item() == 4.0
    assert f.stats.compiled_calls == 2


def test_a_property_of_a_kind_of_its_own() -> None:
    class OfClass(property):
        def __get__(self, instance, owner=None):
            return self.fget(owner)

    class Config:
        factor = 2.0

        @OfClass
        def table(cls):  # noqa: N805
            return {"factor": cls.factor}

    config = Config()
    f = tj.compile(lambda v: v * config.table["factor"])
    assert [f(tj.ones(1)).item() for _ in range(3)] == [2.0, 2.0, 2.0]
    Config.factor = 3.0
    assert f(tj.ones(1)).item() == 3.0
    assert f.stats.compiled_calls == 2


def test_whether_a_tensor_made_inside_has_an_attribute() -> None:
    def inner(v):
        y = v * 2
        if hasattr(y, "mark"):
            return y
        y.mark = 1
        return y * (3 if hasattr(y, "mark") else 5)

    f = tj.compile(inner)
    assert [f(tj.ones(1)).item() for _ in range(3)] == [6.0, 6.0, 6.0]
    assert f.stats.compiled_calls == 2
    given = tj.compile(lambda v: v * (3 if hasattr(v, "mark") else 5))
    marked = tj.ones(1)
    marked.mark = 1
    assert [given(v).item() for v in (tj.ones(1), tj.ones(1), marked)] == [5.0, 5.0, 3.0]


def test_attributes_of_members_of_an_enum() -> None:
    class Mode(enum.Enum):
        FAST = 1
        SLOW = 2

        @property
        def doubled(self):
            return self.rate * 2

    Mode.FAST.rate, Mode.SLOW.rate = 2.0, 3.0

    def scenario(stage):
        Mode.FAST.rate = 2.0
        chosen = {"mode": Mode.FAST}
        f = stage.compile(lambda v, m: v * m.rate + chosen["mode"].doubled)
        for i in range(9):
            if i == 3:
                Mode.FAST.rate = 7.0
            if i == 6:
                chosen["mode"] = Mode.SLOW
            stage.call(f, x(), Mode.FAST)

    check(scenario, compiled=3)
