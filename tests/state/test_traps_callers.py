"""Traps: what a function does besides computing counts wherever it is called from."""

from __future__ import annotations

import contextlib

import pytest

import tracejit as tj
from trap_objects import x
from trap_tools import agree, user_module


class Closing:
    """Calls something when it is let go."""

    def __init__(self, call):
        self.call = call

    def __del__(self):
        self.call()


def from_a_generator(call):
    def calls():
        yield call()
        yield call()

    return list(calls())


def from_a_context(call):
    @contextlib.contextmanager
    def around():
        yield
        call()

    with around():
        pass
    with around():
        pass


def from_a_finalizer(call):
    closing = Closing(call)
    del closing
    call()


@pytest.mark.parametrize("around", [from_a_generator, from_a_context, from_a_finalizer])
@pytest.mark.parametrize("effect", ["tj.manual_seed(4)", "print('here')", "time.sleep(0)"])
def test_effects_count_wherever_the_call_comes_from(around, effect, capsys):
    module = user_module(
        f"import time\nimport tracejit as tj\ndef f(x):\n    {effect}\n    return x * 2\n"
    )
    f = tj.compile(module.f)
    for _ in range(3):
        tj.manual_seed(1)
        around(lambda: f(tj.ones(3)))
        assert f.stats.compiled_calls == 0 or effect == "print('here')"
        assert effect != "tj.manual_seed(4)" or tj.initial_seed() == 4
    if effect == "print('here')":  # which compiled calls do, too
        assert f.stats.compiled_calls >= 4
        assert capsys.readouterr().out.splitlines() == ["here"] * 6
    else:
        assert any(effect.partition("(")[0].rpartition(".")[2] in reason for reason in f.reasons)


LET_GO = """
class Closing:
    def __init__(self, v):
        self.v = v

    def __del__(self):
        {effect}

def f(x):
    closing = Closing(x)
    {end}
    return closing.v * 2

said, count = [], 0
"""
CLASSES = """
said = []

class Base:
    def __init_subclass__(cls, gain=1.0):
        cls.gain = gain
        said.append(cls.__name__)

class Named:
    def __set_name__(self, owner, name):
        said.append(name)

class Asked:
    def __class_getitem__(cls, item):
        said.append(item)
        return item

def derived(x):
    class Derived(Base, gain=2.0):
        pass
    return x * Derived.gain

def computed(x):
    return x * type("Computed", (Base,), {}).gain

def named(x):
    class Holder:
        part = Named()
    return x * (Holder.part is not None)

def asked(x):
    return x * Asked[3]
"""


@pytest.mark.parametrize("end", ["pass", "closing, kept = None, closing\n    return kept.v * 3"])
@pytest.mark.parametrize(
    "effect", ["said.append('gone')", "print('gone')", "globals()['count'] += 1"]
)
def test_what_runs_when_an_object_made_inside_is_let_go(effect, end, capsys) -> None:
    def scenario(stage):
        module = user_module(LET_GO.format(effect=effect, end=end))
        f = stage.compile(module.f)
        for _ in range(5):
            stage.call(f, x())
            stage.note("said", (list(module.said), module.count, capsys.readouterr().out))

    agree(scenario)


def test_objects_made_inside_are_let_go_in_compiled_code() -> None:
    module = user_module(LET_GO.format(effect="said.append('gone')", end="pass"))
    f = tj.compile(module.f)
    for count in range(1, 6):
        f(x())
        assert module.said == ["gone"] * count
    assert f.stats.compiled_calls >= 3


@pytest.mark.parametrize("asked", ["x.sum() > 0", "x.sum().item() > scale"])
def test_an_object_goes_where_it_goes_though_variables_were_looked_at(asked) -> None:
    source = LET_GO.format(effect="said.append('gone')", end="pass")
    source += (
        "def g(x):\n    closing, scale = Closing(x), 0.0\n"
        f"    if {asked}:\n        closing = None\n    return x * len(said)\n"
    )

    def scenario(stage):
        module = user_module(source)
        f = stage.compile(module.g)
        for sign in (-1, 1, 1, -1, 1):
            stage.note("result", stage.call(f, x().abs() * sign))
            stage.note("said", list(module.said))

    agree(scenario)


@pytest.mark.parametrize("end", ["v", "v * 2"])
def test_what_is_to_be_called_when_a_tensor_is_let_go(end) -> None:
    module = user_module(
        f"import weakref\nsaid = []\ndef f(v):\n    out = {end}\n"
        "    weakref.finalize(out, said.append, 'gone')\n    return out * 1\n"
    )
    f = tj.compile(module.f)
    for count in range(1, 6):
        f(x())
        assert module.said == ["gone"] * count
    assert any("weakref.finalize" in reason for reason in f.reasons)


@pytest.mark.parametrize("name", ["derived", "computed", "named", "asked"])
def test_methods_that_run_where_classes_are_made_or_asked(name) -> None:
    def scenario(stage):
        module = user_module(CLASSES)
        f = stage.compile(getattr(module, name))
        for _ in range(5):
            stage.call(f, x())
            stage.note("said", list(module.said))

    agree(scenario)
