"""Traps: functions of pure modules that look at the world or change it, and functions that code in C calls."""

from __future__ import annotations

import calendar
import contextlib
import decimal
import gc
import io
import os
import os.path as osp
import pprint
import random
import statistics
import typing
import weakref
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from os import environ, getenv
from os.path import exists, expandvars
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from trap_tools import agree, check, play, user_module

NAMES: dict[str, Any] = {
    "calendar": calendar,
    "decimal": decimal,
    "Decimal": Decimal,
    "environ": environ,
    "exists": exists,
    "expandvars": expandvars,
    "gc": gc,
    "getenv": getenv,
    "np": np,
    "normal": statistics.NormalDist(),
    "osp": osp,
    "partial": partial,
    "pprint": pprint,
    "read_variable": getenv,
    "reveal_type": typing.reveal_type if hasattr(typing, "reveal_type") else print,
}


def function_of(expression: str, **more: Any) -> Callable[[Any], Any]:
    """A function of a tensor, of a module of its own."""
    source = f"def f(v):\n    return {expression}\n"
    found: Callable[[Any], Any] = user_module(source, **NAMES, **more).f
    return found


@pytest.mark.parametrize("ask", ["exists(name)", "osp.isfile(name)", "osp.exists(name)"])
def test_whether_there_is_a_file(ask: str, tmp_path: Path) -> None:
    def scenario(stage: Any) -> None:
        path = tmp_path / str(stage.compiling)
        f = stage.compile(function_of(f"v * 2 if {ask} else v", name=str(path)))
        for k in range(6):
            if k == 3:
                path.touch()
            stage.call(f, tj.ones(2) * k)

    agree(scenario)


def test_the_folder_that_names_of_files_begin_in(tmp_path: Path) -> None:
    def scenario(stage: Any) -> None:
        f = stage.compile(function_of("v * len(osp.abspath('a'))"))
        for k in range(6):
            with contextlib.chdir(tmp_path if k > 2 else "/"):
                stage.call(f, tj.ones(2) * k)

    agree(scenario)


@pytest.mark.parametrize(
    "read", ["expandvars('$SCALE_OF')", "read_variable('SCALE_OF')", "environ['SCALE_OF']"]
)
def test_the_environment_by_other_names(read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def scenario(stage: Any) -> None:
        f = stage.compile(function_of(f"v * float({read})"))
        for k in range(12):
            monkeypatch.setenv("SCALE_OF", str(k // 4))
            stage.call(f, tj.ones(2))

    check(scenario, compiled=8)


def test_what_distributions_of_python_draw() -> None:
    def scenario(stage: Any) -> None:
        random.seed(3)
        f = stage.compile(function_of("v * tj.tensor(normal.samples(2))"))
        for _ in range(6):
            stage.call(f, tj.ones(2))
        stage.note("next", random.random())

    agree(scenario)


@pytest.mark.parametrize("draw", ["stats.norm.rvs(size=2)", "uniform.rvs(size=2)"])
def test_what_scipy_draws(draw: str) -> None:
    stats = pytest.importorskip("scipy.stats")

    def scenario(stage: Any) -> None:
        f = stage.compile(
            function_of(f"v * tj.from_numpy({draw})", stats=stats, uniform=stats.uniform)
        )
        for _ in range(6):
            stage.call(f, tj.ones(2, dtype=tj.float64))
        stage.note("next", np.random.rand())

    agree(scenario)


@pytest.mark.parametrize(
    "show",
    [
        "pprint.pprint({'a': 1})",
        "calendar.prmonth(2020, 1)",
        "calendar.TextCalendar().prweek([(1, 2)], 2)",
        "list(map(print, 'ab'))",
        "partial(print, 'a')()",
        "sorted('ba', key=print) and None",
        "say('a', v.sum().item())",
    ],
)
def test_printing_by_other_ways(show: str) -> None:
    def scenario(stage: Any) -> None:
        out = io.StringIO()
        f = stage.compile(function_of(f"(v, {show})", say=partial(print, "!")))
        with contextlib.redirect_stdout(out), contextlib.suppress(TypeError):
            for k in range(6):
                f(tj.ones(2) * k)
        stage.note("printed", out.getvalue())

    agree(scenario)


@pytest.mark.parametrize("name", ["print", "say", "shout"])
def test_other_names_of_print_are_followed(name: str) -> None:
    def scenario(stage: Any) -> None:
        names = {"print": partial(print, flush=True), "say": print, "shout": partial(print, "!")}
        found = user_module(
            f"def f(v, k):\n    {name}(f'step {{k}}: {{v.sum().item():.2f}}')\n    return v * 2\n",
            **{name: names[name]},
        )
        f = stage.compile(found.f)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            for k in range(10):
                stage.call(f, tj.ones(2) * k, k)
        stage.note("printed", out.getvalue())
        stage.note("name", vars(found)[name] is names[name])

    tried = play(scenario, True).functions[0]
    agree(scenario)
    assert tried.stats.compiled_calls >= (6 if name == "print" else 0), tried.explain()


def test_functions_in_c_that_tell_the_time() -> None:
    import time

    f = tj.compile(function_of("(v, clock())", clock=partial(time.perf_counter)))
    assert len({f(tj.ones(2))[1] for _ in range(6)}) == 6


def test_garbage_is_collected_by_every_call() -> None:
    class Node:
        pass

    def scenario(stage: Any) -> None:
        gone: list[int] = []
        f = stage.compile(user_module("import gc\ndef f(v):\n    gc.collect()\n    return v\n").f)
        for k in range(6):
            node = Node()
            node.itself = node
            weakref.finalize(node, gone.append, k)
            del node
            stage.call(f, tj.ones(2))
            stage.note("gone", list(gone))

    check(scenario, compiled=5)


@pytest.mark.parametrize(
    ("change", "ask"),
    [("gc.disable()", "gc.isenabled()"), ("gc.freeze()", "gc.get_freeze_count()")],
)
def test_settings_of_the_collector(change: str, ask: str) -> None:
    def scenario(stage: Any) -> None:
        f = stage.compile(function_of(f"(v, {change})"))
        try:
            for _ in range(4):
                gc.enable()
                gc.unfreeze()
                f(tj.ones(2))
                stage.note("set", bool(eval(ask)))
        finally:
            gc.enable()
            gc.unfreeze()

    agree(scenario)


def test_the_context_of_decimal_numbers() -> None:
    def scenario(stage: Any) -> None:
        f = stage.compile(function_of("v * float(Decimal(1) / Decimal(3))"))
        with decimal.localcontext() as context:
            for k in range(12):
                context.prec = 1 + k // 4
                stage.call(f, tj.ones(2))

    check(scenario, compiled=8)


def test_settings_of_numpy_for_errors() -> None:
    def scenario(stage: Any) -> None:
        f = stage.compile(function_of("(v, np.seterr(divide='ignore'))"))
        g = stage.compile(function_of("v * (np.geterr()['over'] == 'warn')"))
        with np.errstate(all="warn"):
            for k in range(4):
                np.seterr(divide="warn", over="warn" if k % 2 else "ignore")
                f(tj.ones(2))
                stage.note("set", np.geterr()["divide"])
                stage.call(g, tj.ones(2))

    agree(scenario)


def test_settings_of_numpy_that_are_set_back() -> None:
    def scenario(stage: Any) -> None:
        source = "import os\ndef f(v):\n    with np.errstate(all='ignore'):\n        return v * np.sqrt(4.0)\n"
        f = stage.compile(user_module(source, np=np).f)
        for _ in range(4):
            stage.call(f, tj.ones(2))

    check(scenario, compiled=3)


def test_weak_references_to_what_is_gone() -> None:
    class Node:
        pass

    def scenario(stage: Any) -> None:
        gone = weakref.proxy(Node())
        f = stage.compile(function_of("v * 2 if len(v) < 3 else v * gone.scale", gone=gone))
        for _ in range(4):
            stage.call(f, tj.ones(2))
        stage.call(f, tj.ones(4))
        if stage.compiling:
            assert f.explain() is not None

    agree(scenario)


def test_what_types_are_said_to_be() -> None:
    def scenario(stage: Any) -> None:
        f = stage.compile(function_of("(v, reveal_type(3))"))
        out = io.StringIO()
        with contextlib.redirect_stderr(out), contextlib.redirect_stdout(out):
            for _ in range(4):
                f(tj.ones(2))
        stage.note("said", out.getvalue())

    agree(scenario)


def test_modules_stay_pure_that_only_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALE_OF", "2")
    f = tj.compile(function_of("v * float(environ['SCALE_OF']) * len(osp.join('a', 'b'))"))
    for _ in range(4):
        assert f(tj.ones(2)).tolist() == [6.0, 6.0]
    assert f.stats.compiled_calls == 3, f.explain()
    assert os.environ["SCALE_OF"] == "2"
