"""Code that asks for the type of numbers which vary from call to call: it hears what a true number would say."""

from __future__ import annotations

import json
import random
import threading
import types
from collections.abc import Iterator

import pytest

import tracejit as tj
from trap_tools import agree, user_module


def checked(x, n):
    if type(n) is not float:
        raise TypeError(f"got {type(n)}")
    return x * n


def picked(x, n):
    """As detection models draw the size of an image."""
    if not isinstance(x, tj.Tensor):
        raise TypeError(f"Expected a tensor, got {type(x)}")
    index = int(tj.empty(1).uniform_(0.0, 3.0).item())
    return x * (2, 3, 5)[index], type(index) is int, type(n).__name__


def found_size(x, n):
    found = x[x > 0]
    if type(len(found)) is not int or type(found.shape[0]) is not int:
        raise TypeError(f"got {type(found.shape[0])}")
    return found * n / max(len(found), 1)


def made(x, n):
    kind = type("Kind", (), {"factor": n})
    return x * kind.factor, type(kind.factor) in (float, int)


def handed_on(x, n):
    return x * n, [*map(type, (n, 1))]  # not only called


def asked(x, n):
    return x * n, isinstance(n, type)


kind_of = type


def by_another_name(x, n):
    return x * n, kind_of(n) is float, kind_of(n).__name__


def made_here(x, n):
    made = type("Made", (tuple,), {"factor": n})
    return x * made.factor, made.__module__, list(vars(made))


def outcome(function, *given):
    tj.manual_seed(7)
    try:
        found = function(*given)
    except TypeError as error:
        return str(error)
    parts = found if isinstance(found, tuple) else (found,)
    return [p.tolist() if isinstance(p, tj.Tensor) else p for p in parts]


EVERY = [checked, picked, found_size, made, made_here, handed_on, asked, by_another_name]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("function", EVERY)
@pytest.mark.parametrize("kind", [float, int])
def test_as_in_plain_python(function, kind) -> None:
    compiled = tj.compile(function)
    for i in range(10):
        x, n = tj.randn(5), kind(i + 2)
        assert outcome(compiled, x, n) == outcome(function, x, n)


@pytest.mark.parametrize("function", [checked, picked, made, by_another_name])
def test_numbers_vary(function) -> None:
    compiled = tj.compile(function)
    x = tj.randn(5)
    for i in range(12):
        compiled(x, i + 0.5)
    assert compiled.stats.recordings <= 6
    assert compiled.stats.compiled_calls >= 5
    assert not any("numbers are constants" in line for line in str(compiled.explain()).splitlines())


def test_sizes_that_calls_tell() -> None:
    def total(x):
        if type(x.shape[0]) is not int:
            raise TypeError(f"got {type(x.shape[0])}")
        return x.sum() / len(x)

    compiled = tj.compile(total)
    for _ in range(12):
        x = tj.randn(random.randint(2, 40))
        tj.testing.assert_close(compiled(x), total(x))


def test_a_module_with_a_name_type_of_its_own() -> None:
    module = types.ModuleType("own")
    source = "from builtins import type\ndef f(x, n):\n    return x * n, type(n) is float\n"
    exec(source, vars(module))  # a module of the user's
    compiled = tj.compile(module.f)
    for i in range(6):
        assert outcome(compiled, tj.ones(2), i + 0.5) == [[i + 0.5] * 2, True]
    assert module.type is type


def test_names_are_as_before_afterwards() -> None:
    compiled, compiled_other = tj.compile(checked), tj.compile(by_another_name)
    for i in range(6):
        compiled(tj.ones(2), i + 0.5)
        compiled_other(tj.ones(2), i + 0.5)
    assert "type" not in globals()
    assert kind_of is type


@pytest.fixture
def another_thread() -> Iterator[None]:
    """A thread that waits, as in notebooks."""
    waiting = threading.Event()
    thread = threading.Thread(target=waiting.wait)
    thread.start()
    yield
    waiting.set()
    thread.join()


@pytest.mark.usefixtures("another_thread")
def test_another_thread_sees_the_true_name() -> None:
    compiled = tj.compile(checked)
    for i in range(6):
        assert compiled(tj.ones(2), i + 0.5).tolist() == [i + 0.5] * 2
    assert "numbers are constants here, because the code uses 'type'" in str(compiled.explain())


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("another_thread")
@pytest.mark.parametrize("kind", [float, int])
@pytest.mark.parametrize("function", EVERY)
def test_as_in_plain_python_beside_another_thread(function, kind) -> None:
    test_as_in_plain_python(function, kind)


MODULE = """
def typed(x, n):
    if type(n).__name__ != "float":
        raise TypeError(f"got {type(n)}")
    return x * float(n)

class Scale:
    @property
    def rate(self):
        return 2.0
"""


@pytest.mark.usefixtures("another_thread")
@pytest.mark.parametrize(("more", "recordings"), [("", 2), ("kinds = lambda: [type]", 6)])
def test_a_name_that_is_only_called_in_its_module_is_followed_beside_others(
    more: str, recordings: int
) -> None:
    module = types.ModuleType("own")
    exec(MODULE + more, vars(module))  # a module of the user's
    compiled = tj.compile(module.typed)
    for i in range(6):
        assert compiled(tj.ones(2), i + 0.5).tolist() == [i + 0.5] * 2
    assert compiled.stats.recordings == recordings


def test_types_of_sizes_that_the_run_tells_where_type_is_not_only_called() -> None:
    def found_sizes(x):
        found = x[x > 0]
        return found * 2, [t.__name__ for t in map(type, (len(found), found.shape[0]))]

    compiled = tj.compile(found_sizes)
    for i in range(4):
        x = tj.arange(-1.0, 4.0 + i)
        assert compiled(x)[1] == found_sizes(x)[1] == ["int", "int"]
    assert "the code uses 'type'" in str(compiled.explain())


def test_texts_of_sizes_that_the_run_tells() -> None:
    def described(x):
        found = x[x > 0]
        return found * 2, json.dumps({"n": found.shape[0]})

    compiled = tj.compile(described)
    for i in range(4):
        x = tj.arange(-1.0, 4.0 + i)
        assert compiled(x)[1] == described(x)[1]


TRUE_INTS = (
    "list(collections.deque(range(9), maxlen=n))",
    "math.ldexp(1.0, n)",
    "statistics.mean([n, 3])",
)


@pytest.mark.parametrize("source", ["v.shape[0]", "k", "int(v.sum())"])
@pytest.mark.parametrize("text", TRUE_INTS)
def test_code_that_takes_nothing_but_true_ints_gets_them(text, source) -> None:
    """It is written in C, and its errors do not tell what it was given."""

    def scenario(stage):
        imports = "import collections, math, statistics\n"
        module = user_module(f"{imports}def f(v, k):\n    n = {source}\n    return v * 2, {text}\n")
        f = stage.compile(module.f)
        for i in (0, 0, 1, 2, 1, 3, 4, 2):
            stage.call(f, tj.ones(2 + i), 2 + i)

    agree(scenario)


@pytest.mark.parametrize("source", ["v.shape[0]", "k"])
def test_errors_about_types_are_as_in_eager_code(source) -> None:
    def scenario(stage):
        module = user_module(f"def f(v, k):\n    return v * 2 + ({source} + None)\n")
        f = stage.compile(module.f)
        for i in (0, 0, 1, 2, 1):
            stage.call(f, tj.ones(2 + i), 2 + i)

    agree(scenario)
