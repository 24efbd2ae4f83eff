"""Attributes of classes that a function counts up or fills: places like those of objects."""

from __future__ import annotations

import functools
import sys
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn

CALLS = 14


def counted(state: Any, x: Any) -> Any:
    state.step += 1
    return x * state.step


def through_an_instance(state: Any, x: Any) -> Any:
    type(state()).step += 1
    return x * state().step


def decayed(state: Any, x: Any) -> Any:
    state.rate = state.rate * 0.5
    return x * state.rate


def inherited(state: Any, x: Any) -> Any:
    state.__base__.step += 2
    return x * state.step


def filled(state: Any, x: Any) -> Any:
    state.last, before = x + 1, state.last
    return x if before is None else x * before


def classes() -> tuple[Any, Any]:
    """A new class and one that is derived from it."""

    class Base:
        step = 0
        rate = 8.0
        last = None

    class Derived(Base):
        pass

    return Base, Derived


def method_of_the_class(state: Any, x: Any) -> Any:
    return x + state.step + state.rate


@pytest.mark.parametrize("function", [counted, through_an_instance, decayed, filled])
@pytest.mark.parametrize("between", [False, True])
def test_a_class_that_is_changed(function: Any, between: bool) -> None:
    state, plain = classes()[0], classes()[0]
    compiled = tj.compile(lambda x: function(state, x))
    for call in range(CALLS):
        if between and call % 5 == 4:
            state.step = plain.step = 100
            state.rate = plain.rate = 1.0
        x = tj.arange(3.0) + call
        tj.testing.assert_close(compiled(x), function(plain, x), rtol=0, atol=0)
        assert type(state.step) is int
        assert (state.step, state.rate) == (plain.step, plain.rate)
        if plain.last is not None:
            tj.testing.assert_close(state.last, plain.last, rtol=0, atol=0)
    assert compiled.stats.compiled_calls >= CALLS // 2, compiled.explain()


def test_the_class_that_it_is_derived_from() -> None:
    state, plain = classes()[1], classes()[1]
    compiled = tj.compile(lambda x: inherited(state, x))
    for call in range(CALLS):
        if call == 7:
            state.step = plain.step = -1  # from here on it has one of its own
        x = tj.arange(3.0)
        tj.testing.assert_close(compiled(x), inherited(plain, x), rtol=0, atol=0)
        assert state.__base__.step == plain.__base__.step == 2 * call + 2


def test_numbers_and_tensors_that_others_put_there() -> None:
    state = classes()[0]
    compiled = tj.compile(lambda x: method_of_the_class(state, x))
    for call in range(CALLS):
        state.step, state.rate = call, 0.5 * call
        tj.testing.assert_close(compiled(tj.ones(2)), tj.full((2,), 1 + 1.5 * call))
    assert compiled.stats.compiled_calls >= CALLS - 4, compiled.explain()


def test_classes_that_look_at_what_is_set_are_left_alone() -> None:
    seen = []

    class Looks(type):
        def __setattr__(cls, name: str, value: Any) -> None:
            seen.append((name, value))
            super().__setattr__(name, value)

    class State(metaclass=Looks):
        step = 0

    compiled = tj.compile(lambda x: counted(State, x))
    for call in range(6):
        tj.testing.assert_close(compiled(tj.ones(2)), tj.full((2,), 1.0 + call))
    assert seen == [("step", call + 1) for call in range(6)]


def keys() -> tuple[Any, Any, Any]:
    """A class whose instances are found by a hash of its own, a table by them, and a function that keeps results."""

    class Key:
        def __init__(self, name: str) -> None:
            self.name = name

        def __hash__(self) -> int:
            return hash(self.name)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Key) and self.name == other.name

    @functools.lru_cache
    def length(key: Any) -> int:
        return len(key.name)

    return Key, {Key("a"): 3.0}, length


def test_hashes_of_a_class_of_the_program() -> None:
    Key, table, length = keys()

    def looked_up(x: Any) -> Any:
        return x * table[Key("a")] if Key("b") not in table else x

    def kept(x: Any) -> Any:
        return x * length(Key("abc"))

    for function in (looked_up, kept):
        compiled = tj.compile(function)
        for _ in range(5):
            assert compiled(tj.ones(2)).tolist() == [3, 3]
        assert compiled.stats.compiled_calls >= 2, compiled.explain()
    compiled = tj.compile(looked_up)
    assert [compiled(tj.ones(1)).item() for _ in range(3)] == [3, 3, 3]
    table[Key("a")] = 4.0
    assert [compiled(tj.ones(1)).item() for _ in range(3)] == [4, 4, 4]
    Key.__hash__ = lambda self: 7
    with pytest.raises(KeyError):
        compiled(tj.ones(1))


FACTOR = 2.0


class Part(nn.Module):
    """Reads a global when it is made."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = FACTOR

    def forward(self, x):
        return x * self.factor


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([Part() for _ in range(2)])

    def forward(self, x):
        return self.parts[1](self.parts[0](x))


WHOLE = Whole()


def test_what_makes_instances_is_watched_though_some_are_there_before(monkeypatch) -> None:
    def f(x):
        return WHOLE(x) * Whole()(x)

    compiled = tj.compile(f)
    for factor in (2.0, 2.0, 2.0, 3.0, 5.0):
        monkeypatch.setattr(sys.modules[__name__], "FACTOR", factor)
        assert compiled(tj.ones(1)).item() == 4 * factor**2
    assert compiled.stats.compiled_calls >= 2
