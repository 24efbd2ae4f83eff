"""Traps: names a function reads and writes. Each scenario runs eagerly and compiled and must observe the same."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn
from trap_names import check_values, x
from trap_tools import agree, check, user_module


def test_global_changed() -> None:
    def scenario(stage):
        user = user_module("scale = 2.0\ndef f(x): return x * x * scale")
        f = stage.compile(user.f)
        for user.scale in (2.0, 2.0, 3.0, 3.0, 2.0, True, 1, -0.0, 2.0):
            stage.call(f, x())

    check(scenario, compiled=3, recorded=6)


def test_global_function_rebound() -> None:
    def scenario(stage):
        user = user_module("def h(x): return x * x\ndef f(x): return h(x) + 1")
        f = stage.compile(user.f)
        plain = user.h
        for user.h in (plain, plain, lambda v: v * 3, plain, tj.exp, tj.exp):
            stage.call(f, x())

    check(scenario, compiled=3, recorded=3)


def test_global_deleted_and_back() -> None:
    def scenario(stage):
        user = user_module("scale = 2.0\ndef f(x): return x * scale")
        f = stage.compile(user.f)
        for _ in range(3):
            stage.call(f, x())
        del user.scale
        stage.call(f, x())
        user.scale = 4.0
        stage.call(f, x())

    check(scenario, compiled=2)


def test_global_counter_written_inside() -> None:
    def scenario(stage):
        user = user_module("n = 0\ndef f(x):\n    global n\n    n += 1\n    return x * n")
        f = stage.compile(user.f)
        for _ in range(6):
            stage.call(f, x())
            stage.note("n", user.n)

    check(scenario, compiled=4)


def test_closure_variable_changed() -> None:
    def scenario(stage):
        scale = 2.0

        def f(v):
            return v * scale

        g = stage.compile(f)
        for scale in (2.0, 2.0, 5.0, 2.0, 5.0):  # noqa: B007  (read through the closure)
            stage.call(g, x())

    check(scenario, compiled=3, recorded=2)


def test_nested_closures_and_nonlocal_counter() -> None:
    def scenario(stage):
        def outer(k):
            count = 0

            def middle(v):
                def inner(w):
                    nonlocal count
                    count += 1
                    return w * k + count

                return inner(v)

            return middle, lambda: count

        f, count = outer(3.0)
        g = stage.compile(f)
        for _ in range(5):
            stage.call(g, x())
            stage.note("count", count())

    check(scenario, compiled=3)


def test_functions_made_inside() -> None:
    def scenario(stage):
        def f(v):
            def adder(k):
                def add(w):
                    return w + k

                return add

            steps = [adder(i) for i in range(3)]
            for step in steps:
                v = step(v) * 2
            return v

        g = stage.compile(f)
        for _ in range(3):
            stage.call(g, x())

    check(scenario, compiled=2)


def test_default_argument_mutated() -> None:
    def scenario(stage):
        def f(v, scales=[2.0], *, options={"shift": 1.0}):  # noqa: B006
            return v * scales[0] + options["shift"]

        g = stage.compile(f)
        for value in (2.0, 2.0, 3.0):
            f.__defaults__[0][0] = value
            stage.call(g, x())
        f.__kwdefaults__["options"]["shift"] = -1.0
        stage.call(g, x())
        f.__defaults__ = ([7.0],)
        stage.call(g, x())
        stage.call(g, x())

    check(scenario, compiled=2)


def test_default_list_grows_inside() -> None:
    def scenario(stage):
        def f(v, seen=[]):  # noqa: B006
            seen.append(len(seen))
            return v * len(seen)

        g = stage.compile(f)
        for _ in range(5):
            stage.call(g, x())
        stage.note("seen", f.__defaults__[0])

    check(scenario, reason="default of 'seen'")


def test_default_tensor_replaced_and_changed() -> None:
    def scenario(stage):
        def f(v, w=tj.ones(3)):  # noqa: B008
            return v * w

        g = stage.compile(f)
        stage.call(g, x())
        stage.call(g, x())
        f.__defaults__[0].mul_(3)
        stage.call(g, x())
        f.__defaults__ = (tj.full((3,), 5.0),)
        stage.call(g, x())
        stage.call(g, x())

    check(scenario, compiled=3, recorded=2)


def test_function_attributes() -> None:
    def scenario(stage):
        user = user_module("def f(x): return x * f.scale\nf.scale = 2.0")
        plain = user.f
        f = stage.compile(plain)
        for plain.scale in (2.0, 2.0, 3.0, 2.0):
            stage.call(f, x())

    check(scenario, compiled=2)


def test_function_attribute_counter() -> None:
    def scenario(stage):
        user = user_module(
            "def h(x):\n    h.calls += 1\n    return x * h.calls\nh.calls = 0\ndef f(x): return h(x) + 1"
        )
        f = stage.compile(user.f)
        for _ in range(5):
            stage.call(f, x())
            stage.note("calls", user.h.calls)

    check(scenario, compiled=3)


def test_code_replaced() -> None:
    def scenario(stage):
        user = user_module("def h(x): return x * 2\ndef f(x): return h(x)")
        f = stage.compile(user.f)
        stage.call(f, x())
        stage.call(f, x())
        user.h.__code__ = (lambda v: v * 3).__code__
        stage.call(f, x())
        stage.call(f, x())

    check(scenario, compiled=2)


@pytest.mark.parametrize(
    "read",
    [
        "globals()['scale']",
        "eval('scale')",
        "vars(sys.modules[__name__])['scale']",
        "sys.modules[__name__].scale",
        "getattr(sys.modules[__name__], 'sc' + 'ale')",
        "f.__globals__['scale']",
        "importlib.import_module(__name__).scale",
        "__import__(__name__).scale",
        "operator.attrgetter('scale')(sys.modules[__name__])",
        "inspect.currentframe().f_globals['scale']",
    ],
)
def test_global_read_in_roundabout_ways(read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    def scenario(stage):
        user = user_module(
            f"import importlib, inspect, operator, sys\nscale = 2.0\ndef f(x): return x * {read}",
            "roundabout_user",
        )
        monkeypatch.setitem(sys.modules, "roundabout_user", user)
        f = stage.compile(user.f)
        for user.scale in (2.0, 2.0, 3.0, 3.0, 2.0):
            stage.call(f, x())

    stage = check_values(scenario)
    assert stage.stats.compiled_calls >= 2 or stage.reasons


@pytest.mark.parametrize(
    "read",
    [
        lambda holder, text, number: getattr(holder, "w{}".format(number)),  # noqa: UP032
        lambda holder, text, number: getattr(holder, "".join([text[0], "1"])),
        lambda holder, text, number: getattr(holder, "W1".lower()),
        lambda holder, text, number: getattr(holder, "none", getattr(holder, text)),
        lambda holder, text, number: getattr(holder, "w1" if number else "w0"),
        lambda holder, text, number: reduce(getattr, "w1".split("."), holder),  # noqa: SIM905
        lambda holder, text, number: operator.methodcaller("get" + text)(holder),
    ],
)
def test_names_made_from_texts(read: Callable[[Any, str, int], float]) -> None:
    class Holder:
        def __init__(self) -> None:
            self.w1 = 2.0

        def getw1(self) -> float:
            return self.w1

    holder = Holder()
    f = tj.compile(lambda x: x * read(holder, "w" + str(1), 1))
    for value in (2.0, 2.0, 5.0, 5.0, 7.0):
        holder.w1 = value
        assert f(tj.ones(2)).tolist() == [value] * 2


def test_attributes_named_like_keywords() -> None:
    class Options:
        pass

    options = Options()
    setattr(Options, "class", 3.0)
    f = tj.compile(lambda x, name: x * getattr(options, name))
    assert [f(tj.ones(1), "class").item() for _ in range(3)] == [3.0, 3.0, 3.0]
    setattr(options, "class", 5.0)
    assert f(tj.ones(1), "class").item() == 5.0
    assert f.stats.compiled_calls == 2


def test_function_of_numbers_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where numbers vary, ``math`` leads elsewhere while a function is recorded."""

    def scenario(stage):
        user = user_module("import math\ndef f(x, s): return x * math.sqrt(s)")
        f = stage.compile(user.f)
        for i in range(9):
            with monkeypatch.context() as patch:
                if i in (3, 4, 5):
                    patch.setattr("math.sqrt", lambda s: s + 10)
                stage.call(f, x(), 4.0 + i)

    check(scenario)


@pytest.mark.parametrize(
    ("owner", "name"),
    [(tj.Tensor, "relu"), (tj.Tensor, "__mul__"), (tj.Tensor, "sum"), (nn.Module, "__call__")],
)
def test_method_of_a_class_of_the_package_replaced(
    owner, name, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scenario(stage):
        model = nn.Linear(3, 3)
        nn.init.constant_(model.weight, 0.5)
        nn.init.constant_(model.bias, 0.25)
        before = getattr(owner, name)
        f = stage.compile(lambda v: (model(v) * v).relu().sum())
        for i in range(9):
            with monkeypatch.context() as patch:
                if i in (3, 4, 5):
                    patch.setattr(owner, name, lambda *given: before(*given) + 1)
                stage.call(f, x())

    check(scenario, compiled=5)


@pytest.mark.parametrize("kind", ["forward_pre", "forward", "full_backward_pre", "full_backward"])
def test_hook_of_all_modules(kind) -> None:
    register = getattr(nn.modules.module, f"register_module_{kind}_hook")
    hooks = {
        "forward_pre": lambda module, args: (args[0] * 3,),
        "forward": lambda module, args, result: result * 3,
        "full_backward_pre": lambda module, grads: (grads[0] * 3,),
        "full_backward": lambda module, grads, outer: (grads[0] * 3,),
    }

    def scenario(stage):
        model = nn.Linear(3, 3)
        nn.init.constant_(model.weight, 0.5)
        nn.init.constant_(model.bias, 0.25)
        f = stage.compile(lambda v: model(v).square())
        for i in range(9):
            if i == 3:
                handle = register(hooks[kind])
            if i == 6:
                handle.remove()
            stage.call(f, x())

    assert agree(scenario).stats.compiled_calls >= 3


def test_settings_that_code_asks_for() -> None:
    def scenario(stage):
        before = tj.get_num_threads()
        user = user_module(
            "def f(x): return x * tj.get_num_threads() + len(tj.get_float32_matmul_precision())"
        )
        f = stage.compile(user.f)
        for i in range(6):
            tj.set_num_threads(1 + i % 2)
            tj.set_float32_matmul_precision(("high", "highest")[i // 3])
            stage.call(f, x())
        tj.set_num_threads(before)

    check(scenario, reason="get_")
