"""Traps: names a function reads and writes. Each scenario runs eagerly and compiled and must observe the same."""

from __future__ import annotations

import contextvars
import functools
import sys
import threading
import types

import numpy as np
import pytest

import tracejit as tj
from trap_names import check_values, x
from trap_tools import check, user_module


def test_builtin_covered() -> None:
    def scenario(stage):
        user = user_module("def f(x): return x * len([1, 2])")
        f = stage.compile(user.f)
        stage.call(f, x())
        stage.call(f, x())
        user.len = lambda v: 7
        stage.call(f, x())
        del user.len
        stage.call(f, x())

    check(scenario, compiled=2)


def test_name_of_an_imported_module(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    def scenario(stage):
        lib = user_module("rate = 2.0\ndef act(x): return x * rate", "trap_lib")
        monkeypatch.setitem(sys.modules, "trap_lib", lib)
        user = user_module(
            "import trap_lib\ndef f(x):\n    from trap_lib import act\n    return act(x) + trap_lib.rate"
        )
        f = stage.compile(user.f)
        stage.call(f, x())
        stage.call(f, x())
        lib.rate = 3.0
        stage.call(f, x())
        lib.act = lambda v: v - 1
        stage.call(f, x())
        stage.call(f, x())

    check(scenario, compiled=2)


def test_what_is_put_on_tensors_need_not_be_hashable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tj.Tensor, "registry", {"a": []}, raising=False)
    assert tj.Tensor.__annotations__ == {}  # which CPython makes, and keeps, when it is asked for

    def scenario(stage):
        f = stage.compile(user_module("def f(x): return x * 2").f)
        for _ in range(3):
            stage.call(f, x())

    check(scenario, compiled=2)


@pytest.mark.parametrize(
    "name", ["F.relu", "tj.exp", "tj.Tensor.sin", "nn.Linear.forward", "F.linear"]
)
def test_function_of_the_library_replaced(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    holder, attribute = {
        "F.relu": (tj.nn.functional, "relu"),
        "tj.exp": (tj, "exp"),
        "tj.Tensor.sin": (tj.Tensor, "sin"),
        "nn.Linear.forward": (tj.nn.Linear, "forward"),
        "F.linear": (tj.nn.functional, "linear"),
    }[name]

    def scenario(stage):
        layer = tj.nn.Linear(3, 3)
        user = user_module(
            "def f(x): return layer(F.relu(x) + tj.exp(x) * x.sin()) + F.linear(x, layer.weight)",
            layer=layer,
        )
        f = stage.compile(user.f)
        stage.call(f, x())
        stage.call(f, x())
        with monkeypatch.context() as patch:
            patch.setattr(holder, attribute, lambda *a: a[-1] * 5 if len(a) < 3 else a[0] * 7)
            stage.call(f, x())
        stage.call(f, x())
        stage.call(f, x())

    check(scenario, compiled=2)


def test_context_variable() -> None:
    def scenario(stage):
        var = contextvars.ContextVar("trap", default=2.0)

        def f(v):
            return v * var.get()

        g = stage.compile(f)
        stage.call(g, x())
        stage.call(g, x())
        var.set(3.0)
        stage.call(g, x())
        stage.call(g, x())
        contextvars.Context().run(stage.call, g, x())

    check_values(scenario)


def test_thread_local_state() -> None:
    def scenario(stage):
        local = threading.local()
        local.scale = 2.0

        def f(v):
            return v * local.scale

        g = stage.compile(f)
        stage.call(g, x())
        stage.call(g, x())

        def other(scale):
            local.scale = scale
            stage.call(g, x())
            stage.call(g, x())

        for scale in (2.0, 3.0):
            thread = threading.Thread(target=other, args=(scale,))
            thread.start()
            thread.join()
        stage.call(g, x())
        local.scale = 4.0
        stage.call(g, x())

    check_values(scenario)


def test_cached_function() -> None:
    def scenario(stage):
        made = []

        @functools.lru_cache
        def table(n):
            made.append(n)
            return tj.arange(float(n)) + len(made)

        def f(v):
            return v * table(3)

        g = stage.compile(f)
        for step in range(6):
            stage.call(g, x())
            stage.note("made", list(made))
            if step == 3:
                table.cache_clear()

    check_values(scenario)


def test_cached_property() -> None:
    def scenario(stage):
        class Thing:
            scale = 2.0

            @functools.cached_property
            def value(self):
                return self.scale * 2

        thing = Thing()
        g = stage.compile(lambda v: v * thing.value)
        for _ in range(4):
            stage.call(g, x())
        thing.scale = 5.0  # the cached value stays
        stage.call(g, x())
        del thing.value
        stage.call(g, x())
        stage.call(g, x())
        stage.call(g, x())

    check_values(scenario)


def test_numpy_array_read() -> None:
    def scenario(stage):
        table = np.arange(4.0, dtype=np.float32)
        big = np.arange(50_000.0, dtype=np.float32)

        def f(v):
            return v * float(table[1]) + tj.tensor(table[:3]) * float(big[1234])

        g = stage.compile(f)
        stage.call(g, x())
        stage.call(g, x())
        table[1] = 7
        stage.call(g, x())
        big[1234] = 2
        stage.call(g, x())
        stage.call(g, x())

    check_values(scenario)


def test_array_wrapped_inside() -> None:
    def scenario(stage):
        table = np.arange(3.0, dtype=np.float32)
        g = stage.compile(lambda v: v * tj.from_numpy(table))
        for step in range(4):
            table[0] = step
            stage.call(g, x())

    check_values(scenario)


def test_context_variable_set_for_a_while() -> None:
    def scenario(stage):
        var = contextvars.ContextVar("trap", default=2.0)

        def f(v, stay):
            token = var.set(var.get() + 1)
            try:
                return v * var.get()
            finally:
                if not stay:
                    var.reset(token)

        run = stage.compile(f)
        for stay in (False, False, False, True, False, True, False):
            stage.call(run, x(), stay)
            stage.note("var", var.get())

    check(scenario, compiled=2)


def test_whether_a_module_is_loaded() -> None:
    def scenario(stage):
        user = user_module(
            "import sys\nnames = ['trap_a', 'trap_b']\n"
            "def f(x): return x * sum(k + 1 for k, name in enumerate(names) if name in sys.modules)"
        )
        f = stage.compile(user.f)
        try:
            for name in ("", "", "trap_a", "", "trap_b", ""):
                if name:
                    sys.modules[name] = types.ModuleType(name)
                stage.call(f, x())
            del sys.modules["trap_a"]
            stage.call(f, x())
            stage.call(f, x())
        finally:
            sys.modules.pop("trap_a", None)
            sys.modules.pop("trap_b", None)

    check(scenario, compiled=4)


def test_modules_of_the_standard_library_come_unasked() -> None:
    user = user_module("import sys\ndef f(x, name): return x * (2 if name in sys.modules else 3)")
    f = tj.compile(user.f)
    f(tj.ones(1), "nowhere")
    sys.modules.pop("this", None)
    sys.modules["this"] = types.ModuleType("this")
    try:
        assert [f(tj.ones(1), "nowhere").item() for _ in range(2)] == [3.0, 3.0]
    finally:
        del sys.modules["this"]
    assert f.stats.compiled_calls == 2


def test_names_imported_from_a_package_inside() -> None:
    package = types.ModuleType("trap_package")
    package.__path__ = []
    sys.modules["trap_package"] = package
    try:
        user = user_module("def f(x):\n    from trap_package import factor\n    return x * factor")
        f = tj.compile(user.f)
        package.factor = 2.0
        assert [f(tj.ones(1)).item() for _ in range(3)] == [2.0, 2.0, 2.0]
        package.factor = 3.0
        assert [f(tj.ones(1)).item() for _ in range(2)] == [3.0, 3.0]
        assert f.stats.compiled_calls >= 2, str(f.explain())
    finally:
        del sys.modules["trap_package"]


def test_a_module_imported_inside_for_the_first_time() -> None:
    user = user_module("def f(x):\n    from xml import sax\n    return x * len(sax.__name__)")
    for name in [n for n in sys.modules if n.startswith("xml.sax")]:
        del sys.modules[name]
    f = tj.compile(user.f)
    assert [f(tj.ones(1)).item() for _ in range(4)] == [7.0] * 4
