"""Traps: the world outside: clocks, environment, other random generators, files, printing, warnings, logging."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import logging
import os
import random
import secrets
import sys
import threading
import time
import uuid
import warnings

import numpy as np
import pytest

import tracejit as tj
from tracejit.trace.state.purity import outside_builtin
from trap_tools import play, same, user_module


def x(*values: float, grad: bool = True):
    return tj.tensor(list(values) or [1.0, -2.0, 3.0], requires_grad=grad)


def check_either(scenario, reason: str | None = None):
    eager, found = play(scenario, False), play(scenario, True)
    for (label, a), (_, b) in zip(eager.seen, found.seen, strict=True):
        assert same(a, b), f"{label}: eager {a}, compiled {b}"
    f = found.functions[0]
    assert reason is None or any(reason in r for r in f.reasons), (f.reasons, f.stats)
    return f


CLOCK = [0.0]

#: Draws, and the reason to run eagerly of those that are not followed.
DRAWS = {
    "random.random()": None,
    "random.gauss(0, 1)": None,
    "random.choice([1.0, 2.0, 3.0, 4.0, 5.0])": None,
    "float(random.randrange(1000))": None,
    "own.random()": None,
    "np.random.rand()": None,
    "np.random.normal()": None,
    "float(np.random.randint(1000))": None,
    "state.normal()": None,
    "rng.normal()": None,
    "float(rng.integers(1000))": "random",
    "float(shuffled()[0])": "random",
}


def shuffled():
    values = list(range(50))
    random.shuffle(values)
    return values


@pytest.mark.parametrize("read", DRAWS)
def test_random_numbers_of_others(read: str) -> None:
    def scenario(stage):
        random.seed(3)
        np.random.seed(3)
        space = {
            "random": random,
            "np": np,
            "own": random.Random(5),
            "state": np.random.RandomState(5),
            "rng": np.random.default_rng(5),
            "shuffled": shuffled,
        }
        exec(f"def f(v): return v * {read}", space)
        f = stage.compile(space["f"])
        for _ in range(6):
            stage.call(f, x())
        stage.note("next", (random.random(), np.random.rand(), space["rng"].normal()))

    f = check_either(scenario, DRAWS[read])
    assert (f.stats.compiled_calls >= 3) is (DRAWS[read] is None)


def test_random_numbers_on_one_branch_only() -> None:
    def scenario(stage):
        random.seed(3)
        f = stage.compile(lambda v: v * 2 if v.sum() > 0 else v * random.random())
        for sign in (1.0, 1.0, -1.0, -1.0, 1.0, -1.0, 1.0):
            stage.call(f, x(sign, sign))

    f = check_either(scenario, None)
    assert f.stats.compiled_calls >= 5


#: Values that differ at every call: eager and compiled cannot agree on them, but each call must bring new ones.
CLOCKS = [
    "time.time()",
    "time.perf_counter()",
    "time.monotonic_ns() / 1e3",
    "perf_counter()",
    "time.process_time_ns() * 1.0",
    "datetime.datetime.now().timestamp()",
    "uuid.uuid4().int / 1e30",
    "secrets.randbelow(10 ** 12) * 1.0",
    "int.from_bytes(os.urandom(6), 'little') * 1.0",
    "random.SystemRandom().random()",
    "float(np.random.default_rng().normal())",
    "float(next(clock))",
    "delayed().get('t')",
]
#: Clocks that compiled calls read themselves.
FOLLOWED = ("time.", "perf_counter()", "delayed()")


def delayed():
    return {"t": time.perf_counter()}


def ticking():
    while True:
        yield time.perf_counter()


@pytest.mark.parametrize("read", CLOCKS)
def test_clocks_and_entropy(read: str) -> None:
    space = {
        "time": time,
        "perf_counter": time.perf_counter,
        "datetime": dt,
        "uuid": uuid,
        "secrets": secrets,
        "os": os,
        "random": random,
        "np": np,
        "clock": ticking(),
        "delayed": delayed,
        "tj": tj,
    }
    exec(f"def f(v): return v * 0 + tj.full((), {read}, dtype=tj.float64)", space)
    f = tj.compile(space["f"])
    seen = set()
    for _ in range(6):
        seen.add(f(tj.zeros((), dtype=tj.float64)).item())
        time.sleep(0.001)
    assert len(seen) == 6, f.explain()
    assert f.stats.compiled_calls == (5 if read.startswith(FOLLOWED) else 0)
    if read.startswith(FOLLOWED):
        return
    assert f.reasons
    with pytest.raises(tj.errors.CaptureError):
        tj.compile(space["f"], strict=True)(tj.zeros((), dtype=tj.float64))


@pytest.mark.parametrize(
    "read",
    [
        "os.environ['TRAP_SCALE']",
        "os.environ.get('TRAP_SCALE', '1')",
        "os.getenv('TRAP_SCALE', '1')",
        "env.get('TRAP_' + 'SCALE', '1')",
        "getenv('TRAP_SCALE')",
        "('2' if 'TRAP_SCALE' in os.environ else '1')",
    ],
)
def test_environment_variables(read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def scenario(stage):
        space = {"os": os, "env": os.environ, "getenv": os.getenv}
        exec(f"def f(v): return v * float({read})", space)
        f = stage.compile(space["f"])
        for value in ("2", "2", "3", "3", "2"):
            monkeypatch.setenv("TRAP_SCALE", value)
            stage.call(f, x())

    f = check_either(scenario)
    assert f.stats.compiled_calls >= 2 or f.reasons


def test_printing() -> None:
    def scenario(stage):
        def f(v):
            print("called with", len(v))
            return v * 2

        g = stage.compile(f)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            for _ in range(4):
                stage.call(g, x())
        stage.note("printed", out.getvalue())

    assert check_either(scenario).stats.compiled_calls >= 2


@pytest.mark.parametrize(
    "write",
    ["sys.stdout.write('a')", "sys.stderr.write('a')", "os.write(pipe[1], b'a')", "out.write('a')"],
)
def test_writing(write: str) -> None:
    def scenario(stage):
        pipe = os.pipe()
        out = io.StringIO()
        space = {"sys": sys, "os": os, "pipe": pipe, "out": out}
        exec(f"def f(v):\n    {write}\n    return v * 2", space)
        f = stage.compile(space["f"])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            for _ in range(4):
                stage.call(f, x())
        stage.note("text", out.getvalue())
        os.close(pipe[1])
        stage.note("piped", os.read(pipe[0], 100))
        os.close(pipe[0])

    check_either(scenario)


def test_files(tmp_path) -> None:
    def scenario(stage):
        path = tmp_path / "scale.txt"

        def f(v):
            return v * float(path.read_text())

        def g(v):
            with open(path) as file:
                return v * float(file.read())

        f, g = stage.compile(f), stage.compile(g)
        for value in ("2", "2", "3", "3"):
            path.write_text(value)
            stage.call(f, x())
            stage.call(g, x())

    check_either(scenario)


def test_logging_and_warnings() -> None:
    def scenario(stage):
        records = []
        log = logging.getLogger("trap")
        handler = logging.Handler()
        handler.emit = lambda r: records.append(r.getMessage())
        log.addHandler(handler)
        log.setLevel(logging.INFO)

        def f(v):
            log.info("size %d", len(v))
            log.debug("not shown")
            return v * 2

        def g(v):
            warnings.warn("careful", UserWarning, stacklevel=2)
            return v * 3

        f, g = stage.compile(f), stage.compile(g)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(4):
                stage.call(f, x())
                stage.call(g, x())
        log.removeHandler(handler)
        stage.note("records", records)
        stage.note("warnings", len([c for c in caught if "careful" in str(c.message)]))

    check_either(scenario)


def test_level_of_a_logger() -> None:
    def scenario(stage):
        log = logging.getLogger("trap.level")
        log.setLevel(logging.WARNING)
        f = stage.compile(lambda v: v * 2 if log.isEnabledFor(logging.INFO) else v * 3)
        for level in (logging.WARNING, logging.WARNING, logging.INFO, logging.INFO):
            log.setLevel(level)
            log.isEnabledFor(logging.INFO)
            stage.call(f, x())

    check_either(scenario)


def test_name_of_the_thread() -> None:
    def scenario(stage):
        f = stage.compile(lambda v: v * len(threading.current_thread().name))
        for name in ("ab", "ab", "abcd", "abcd"):
            thread = threading.Thread(target=stage.call, args=(f, x()), name=name)
            thread.start()
            thread.join()

    check_either(scenario)


def test_recursion_limit_and_other_settings() -> None:
    def scenario(stage):
        f = stage.compile(lambda v: v * sys.getrecursionlimit())
        before = sys.getrecursionlimit()
        for limit in (before, before, before + 100, before + 100):
            sys.setrecursionlimit(limit)
            stage.call(f, x())
        sys.setrecursionlimit(before)

    check_either(scenario)


def test_working_directory(tmp_path, monkeypatch) -> None:
    def scenario(stage):
        f = stage.compile(lambda v: v * len(os.getcwd()))
        for place in (tmp_path, tmp_path, tmp_path.parent, tmp_path.parent):
            monkeypatch.chdir(place)
            stage.call(f, x())

    check_either(scenario)


@pytest.mark.parametrize("position", range(4))
def test_calls_between_operations_are_watched(position: int) -> None:
    """Operations themselves are not watched: what is called before, between and after them is."""

    lines = ["u = v * 2", "u = (u + v).exp()", "u = u.sum() + v"]
    lines.insert(position, "w = time.perf_counter() * 1e6 % 1e3")
    f = tj.compile(
        user_module("\n    ".join(["def f(v):", *lines, "return u * 0 + w"]), time=time).f
    )
    seen = [float(f(x()).sum()) for _ in range(4)]
    assert len(set(seen)) == 4
    assert sys.getprofile() is None


def test_an_operation_that_fails_leaves_the_watch_as_it_was() -> None:
    def f(v):
        with contextlib.suppress(RuntimeError):
            v @ tj.ones(7, 7)
        return v * (time.perf_counter() * 1e6 % 1e3)

    g = tj.compile(f)
    seen = [float(g(x()).sum()) for _ in range(4)]
    assert len(set(seen)) == 4
    assert sys.getprofile() is None


def test_profilers_still_see_their_events() -> None:
    import cProfile

    def f(v):
        return v * len("abc")

    g = tj.compile(f)
    profile = cProfile.Profile()
    profile.enable()
    g(x())
    g(x())
    profile.disable()
    names = {entry.code.co_name for entry in profile.getstats() if hasattr(entry.code, "co_name")}
    assert {"f", "record"} <= names
    events = []
    sys.setprofile(lambda frame, event, arg: events.append(event))
    try:
        tj.compile(f)(x())
        assert sys.getprofile() is not None
    finally:
        sys.setprofile(None)
    assert "call" in events


def test_loggers_are_called_where_their_level_is_on() -> None:
    logger = logging.getLogger("trap of a logger")
    written = io.StringIO()
    logger.addHandler(logging.StreamHandler(written))

    def f(v, warn):
        if warn:
            logger.warning("called with %s", v.shape)
        return v * (2 if logger.level < logging.ERROR else 3)

    run = tj.compile(f)
    try:
        assert [run(tj.ones(1), False).item() for _ in range(3)] == [2.0, 2.0, 2.0]
        assert run.stats.compiled_calls == 2
        logger.setLevel(logging.CRITICAL)
        assert [run(tj.ones(1), False).item() for _ in range(2)] == [3.0, 3.0]
        compiled = run.stats.compiled_calls
        assert [run(tj.ones(1), True).item() for _ in range(3)] == [3.0, 3.0, 3.0]
        assert run.stats.compiled_calls == compiled + 2  # that level is off
        logger.setLevel(logging.WARNING)
        assert [run(tj.ones(1), True).item() for _ in range(3)] == [2.0, 2.0, 2.0]
        assert run.stats.compiled_calls == compiled + 4
        assert written.getvalue() == "called with tracejit.Size([1])\n" * 3
    finally:
        logger.handlers.clear()
        logger.setLevel(logging.NOTSET)


def test_functions_of_scipy_that_only_compute() -> None:
    from scipy.optimize._minpack import _hybrd
    from scipy.signal._sigtools import _linear_filter

    assert outside_builtin(_linear_filter) is None
    assert outside_builtin(_hybrd) == "scipy.optimize._minpack._hybrd"  # calls what it is given
