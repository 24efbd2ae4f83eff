"""Large libraries: guards on what the code that ran reads, instead of all that could be read."""

from __future__ import annotations

import inspect
import os
import sys

import numpy as np
import pytest

import tracejit as tj
from state_helpers import module
from tracejit.trace.state import reach as state_reach

LIBRARY = """
import os

class Config:
    names = {"hidden": "width"}
    def __init__(self, **settings):
        self.__dict__.update(settings)
    def __getattribute__(self, key):
        if key != "names" and key in super().__getattribute__("names"):
            key = super().__getattribute__("names")[key]
        return super().__getattribute__(key)

class Registry:
    def __init__(self): self.table = {}
    def __getitem__(self, key): return self.table[key]

registry = Registry()
scale = 2.0
limits = [1.0, 2.0]
unused_state = {"a": 1}

def plain(x, config): return x * config.hidden
def twice(x, config): return bump(x) * 2
def bump(x): return x + scale
def unused(x, config): return x * unused_state["a"]
registry.table.update(plain=plain, twice=twice, unused=unused)

def forward(x):
    function = registry[config.kind]
    if hasattr(function, "before"): x = function.before + x
    for name in ("first", "second"):
        x = x + getattr(config, name)
    return function(x, config) + limits[0]

config = Config(kind="plain", width=3.0, first=1.0, second=2.0)
"""


@pytest.fixture
def library(monkeypatch):
    """A library, of which everything together is too much."""
    monkeypatch.setattr(state_reach, "MAX_CHECKS", 10)
    return module("library", LIBRARY)


def settled(compiled, x, calls=4):
    """Call until calls are compiled."""
    for _ in range(calls):
        compiled(x)
    before = compiled.stats.compiled_calls
    compiled(x)
    assert compiled.stats.compiled_calls == before + 1, compiled.explain()


X = tj.tensor(np.linspace(-1, 1, 5))


def test_the_first_call_is_eager_and_the_second_recorded(library):
    compiled = tj.compile(library.forward)
    counts = []
    for _ in range(4):
        assert compiled(X).tolist() == library.forward(X).tolist()
        counts.append((compiled.stats.recordings, compiled.stats.compiled_calls))
    assert counts == [(0, 0), (1, 0), (1, 1), (1, 2)]


def set_code(u):
    u.plain.__code__ = (lambda x, config: x * 7).__code__


CHANGES = {
    "an attribute behind a map": lambda u: setattr(u.config, "width", 4.0),
    "the map": lambda u: u.Config.names.update(hidden="first"),
    "an attribute by a computed name": lambda u: setattr(u.config, "second", 5.0),
    "the key of a registry": lambda u: setattr(u.config, "kind", "twice"),
    "what a registry holds": lambda u: u.registry.table.update(plain=u.twice),
    "a function that ran": lambda u: setattr(u, "plain", lambda x, c: x),
    "its code": set_code,
    "an item of a list": lambda u: u.limits.__setitem__(0, 9.0),
    "an attribute of a function": lambda u: setattr(u.plain, "before", 3.0),
    "a method of a registry": lambda u: setattr(
        u.Registry, "__getitem__", lambda self, key: u.unused
    ),
    "the registry": lambda u: setattr(u, "registry", {"plain": u.unused}),
    "a method of the settings": lambda u: setattr(
        u.Config, "__getattribute__", lambda self, key: 1.0 if key != "kind" else "plain"
    ),
    "a variable of the class": lambda u: setattr(u.Config, "first", property(lambda self: 8.0)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_noticed(library, name):
    compiled = tj.compile(library.forward)
    settled(compiled, X)
    CHANGES[name](library)
    for _ in range(5):
        assert compiled(X).tolist() == library.forward(X).tolist()


@pytest.mark.parametrize(
    "change",
    [
        lambda u: u.unused_state.update(a=5),
        lambda u: setattr(u, "scale", 9.0),
        lambda u: setattr(u.bump, "__defaults__", ()),
    ],
)
def test_what_does_not_matter_is_no_reason_to_record(library, change):
    compiled = tj.compile(library.forward)
    settled(compiled, X)
    recordings = compiled.stats.recordings
    change(library)
    compiled(X)
    assert compiled.stats.recordings == recordings


def test_state_of_code_that_runs_later(library):
    """Functions that turn out to run are looked into from then on."""
    compiled = tj.compile(library.forward)
    settled(compiled, X)
    library.config.kind = "twice"
    settled(compiled, X, 6)
    for value in (3.0, 4.5, "no number", 2.0):
        library.scale = value
        if isinstance(value, str):
            with pytest.raises(TypeError):
                compiled(X)
        else:
            assert compiled(X).tolist() == library.forward(X).tolist()
    library.config.kind = "plain"
    assert compiled(X).tolist() == library.forward(X).tolist()


def test_branches_with_code_of_their_own(library):
    source = """
def up(x): return x + offset
def down(x): return x - offset
def f(x):
    if x.sum() > 0: return up(x)
    return down(x)
"""
    user = module("user", source)
    user.offset = 1.0
    compiled = tj.compile(user.f)
    inputs = [tj.tensor([1.0, 2.0]), tj.tensor([-1.0, -2.0])]
    for step in range(12):
        x = inputs[step % 2]
        assert compiled(x).tolist() == user.f(x).tolist()
    assert compiled.stats.compiled_calls >= 2, compiled.explain()
    user.offset = 2.5
    for step in range(12):
        x = inputs[step % 2]
        assert compiled(x).tolist() == user.f(x).tolist()


def test_modules_with_gradients(library):
    class Layer(tj.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = tj.nn.Linear(4, 4)
            self.kinds = {"relu": tj.nn.functional.relu, "tanh": tj.tanh}
            self.kind = "relu"

        def forward(self, x):
            return self.kinds[self.kind](self.linear(x)) * getattr(
                library.config, self.kind[:0] + "first"
            )

    layer = Layer()
    compiled = tj.compile(layer)
    x = tj.randn(3, 4)
    for kind in ("relu", "tanh", "relu"):
        layer.kind = kind
        for _ in range(5):
            layer.zero_grad()
            compiled(x).sum().backward()
            found = layer.linear.weight.grad.clone()
            layer.zero_grad()
            layer(x).sum().backward()
            assert tj.allclose(found, layer.linear.weight.grad)
    assert compiled.stats.compiled_calls > 0


def test_errors_of_the_first_call(library):
    def fails(x):
        raise ValueError("from inside") if library.config.kind == "plain" else KeyError

    compiled = tj.compile(fails)
    for _ in range(3):
        with pytest.raises(ValueError, match="from inside") as caught:
            compiled(X)
        assert caught.value.__context__ is None
    assert sys.getprofile() is None


def test_a_profiler_of_the_user_is_left_alone(library):
    events = []

    def profiler(frame, event, argument):
        events.append(event)

    compiled = tj.compile(library.forward)
    sys.setprofile(profiler)
    try:
        results = [compiled(X).tolist() for _ in range(3)]
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    assert results == [library.forward(X).tolist()] * 3


def test_the_environment():
    user = module("user", LIBRARY + '\ndef f(x): return x * float(os.environ.get("TJ_SCALE", 2))')
    compiled = tj.compile(user.f)
    settled(compiled, X)
    for value in ("3", "4", None, "3"):
        if value is None:
            del os.environ["TJ_SCALE"]
        else:
            os.environ["TJ_SCALE"] = value
        assert compiled(X).tolist() == user.f(X).tolist()
    del os.environ["TJ_SCALE"]


def test_a_class_gets_what_its_instances_have():
    class Settings:
        pass

    settings = Settings()
    settings.scale = 2.0
    compiled = tj.compile(lambda x: x * settings.scale)
    settled(compiled, X)
    Settings.unrelated = 1
    compiled(X)
    assert compiled.stats.recordings == 1
    Settings.scale = property(lambda self: 5.0)
    assert compiled(X).tolist() == (X * 5.0).tolist()


# -- attributes that tensors lack ----------------------------------------------------------------------


def test_an_argument_that_has_an_attribute_at_times():
    compiled = tj.compile(lambda x, y: x * 2 if hasattr(x, "tag") else x + y)
    a, b = tj.tensor([1.0, 5.0]), tj.tensor([3.0, 4.0])
    for _ in range(3):
        compiled(a, b)
    assert compiled.stats.compiled_calls == 2
    tagged, other = tj.tensor([1.0, 5.0]), tj.tensor([1.0, 5.0])
    tagged.tag, other.unrelated = 1, 1
    for _ in range(3):
        assert compiled(tagged, b).tolist() == [2.0, 10.0]
        assert compiled(a, b).tolist() == [4.0, 9.0]
        assert compiled(other, b).tolist() == [4.0, 9.0]
    before = compiled.stats.compiled_calls
    compiled(other, b)
    assert compiled.stats.compiled_calls == before + 1
    a.tag = None
    assert compiled(a, b).tolist() == [2.0, 10.0]


def test_a_captured_tensor_that_gets_an_attribute():
    weight = tj.tensor([3.0, 4.0])

    def f(x):
        try:
            return x * weight.factor
        except AttributeError:
            return x + weight

    compiled = tj.compile(f)
    x = tj.tensor([1.0, 5.0])
    settled(compiled, x)
    weight.factor = 3.0
    for _ in range(3):
        assert compiled(x).tolist() == [3.0, 15.0]
    del weight.factor
    assert compiled(x).tolist() == [4.0, 9.0]


def test_a_default_for_an_attribute_of_each_of_several_arguments():
    def f(*xs):
        return sum(x * getattr(x, "weight", 1.0) for x in xs)

    compiled = tj.compile(f)
    xs = [tj.tensor([float(i)]) for i in range(4)]
    for _ in range(3):
        assert compiled(*xs).item() == 6.0
    xs[2].weight = 10.0
    for _ in range(3):
        assert compiled(*xs).item() == 24.0
    assert compiled(*[tj.tensor([float(i)]) for i in range(4)]).item() == 6.0


def test_the_signature_of_a_function_that_is_called():
    """Looking through wrappers asks for the limit of recursion; a function that asks for itself is not recorded."""

    def inner(x, scale=2.0):
        return x * scale

    signed = tj.compile(lambda x: inner(x) + len(inspect.signature(inner).parameters))
    limit = tj.compile(lambda x: x * sys.getrecursionlimit())
    for _ in range(4):
        assert signed(X).tolist() == (X * 2.0 + 2).tolist()
        limit(X)
    assert limit.stats.compiled_calls == 0
    assert signed.stats.compiled_calls > 0, signed.explain()
    inner.__defaults__ = (3.0,)
    assert signed(X).tolist() == (X * 3.0 + 2).tolist()


def test_all_code_of_a_backward_counts_at_once(monkeypatch):
    monkeypatch.setattr(state_reach, "MAX_CHECKS", 24)
    found = module(
        "scans",
        LIBRARY
        + """
import tracejit as tj

def one(g): return two(g) * 2.0
def two(g): return three(g) + scale
def three(g): return g * limits[1]

class Scan(tj.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 3.0
    @staticmethod
    def backward(ctx, g): return one(g)

def scanned(x): return Scan.apply(forward(x)).sum()
""",
    )
    compiled = tj.compile(found.scanned)
    grads = []
    for run in (found.scanned, *[compiled] * 6):
        x = tj.ones(3, requires_grad=True)
        run(x).backward()
        grads.append(x.grad.tolist())
    assert all(g == grads[0] for g in grads)
    assert compiled.stats.recordings <= 3
    assert compiled.stats.compiled_calls >= 2


def test_named_tuples_are_made_in_large_libraries(monkeypatch):
    monkeypatch.setattr(state_reach, "MAX_CHECKS", 10)
    source = LIBRARY + (
        "from collections import namedtuple\n"
        "Pair = namedtuple('Pair', 'left right')\n"
        "def sum_of(x):\n"
        "    pair = Pair(left=forward(x), right=x * scale)\n"
        "    return pair.left + pair.right\n"
    )
    library = module("library", source)
    compiled = tj.compile(library.sum_of)
    x = tj.ones(2)
    for _ in range(4):
        assert compiled(x).tolist() == library.sum_of(x).tolist()
    assert compiled.stats.compiled_calls > 0
    library.scale = 3.0
    assert compiled(x).tolist() == library.sum_of(x).tolist()
