"""Loops whose rounds are settled go on in compiled code in the recorded run, and leave Python as if it had run them."""

from __future__ import annotations

import signal
import sys
import threading

import numpy as np
import pytest

import tracejit as tj
from tracejit.frames import set_variables, variables_of
from tracejit.trace.rounds import finishing
from while_rolled import ROLLED
from while_straight import STRAIGHT


@pytest.fixture
def finished(monkeypatch):
    """The numbers of rounds that loops went on for, which begins as soon as it can."""
    found = []
    run = finishing._run

    def noted(*things):
        ends, count, outcome = run(*things)
        found.append(count)
        return ends, count, outcome

    monkeypatch.setattr(finishing, "_run", noted)
    monkeypatch.setattr(finishing, "LEAST", 1e-9)
    monkeypatch.setattr(finishing, "PATIENCE", 1e15)
    return found


def _start(rounds):
    return tj.tensor([2.0**rounds * 0.75, 0.0])


def _parts(result):
    return result if isinstance(result, tuple) else (result,)


def _same(f, rounds, finished, times=1):
    """Is the first call what Python gives, and did compiled code do its last rounds?"""
    before = len(finished)
    expected, found = f(_start(rounds)), tj.compile(f)(_start(rounds))
    for x, y in zip(_parts(expected), _parts(found), strict=True):
        assert type(x) is type(y)
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
    assert len(finished) - before == times
    return found


def halved(x):
    while x.sum() > 1:
        x = x / 2
    return x


def counted(x, most=50):
    n = 0
    while n < most and x.sum() > 1:
        x = x / 2
        n += 1
    return x * 3


def broken_off(x):
    for _ in range(500):
        y = x * 0.5
        if (x - y).abs().max() < 1e-3:
            break
        x = y
    return x, y


def kept(x):
    change, rounds = 2.0, 0
    while change > 1e-3:
        before, x = x, x * 0.5
        change = (before - x).abs().max().item()
        rounds += 1
    return x


def inner(x):
    def small(y):
        return y.sum() < 1

    while not small(x):
        x = x * 0.5
    return x


@pytest.mark.parametrize("f", [halved, counted, broken_off, kept, inner], ids=lambda f: f.__name__)
def test_the_first_call_is_what_python_gives(f, finished):
    _same(f, 90, finished)
    assert finished[-1] > 30


def test_a_counter_ends_it_where_the_truth_would_have_it_go_on(finished):
    _same(counted, 120, finished)
    assert 30 < finished[0] < 50


def test_ranges_are_run_to_their_end_by_python(finished):
    def f(x):
        for _ in range(60):
            if x.sum() < 1:
                break
            x = x / 2
        return x

    _same(f, 120, finished)


def test_later_calls_are_compiled(finished):
    compiled = tj.compile(counted)
    for rounds in (90, 3, 120, 40, 0, 90):
        found, expected = compiled(_start(rounds)), counted(_start(rounds))
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
    assert len(finished) == 1
    told = f"the first call; {finished[0]} rounds of a loop were run by compiled code"
    assert told in str(compiled.explain())
    assert compiled.stats.recordings <= 3
    assert any("until=" in str(graph) for graph in compiled.graphs)


def test_numbers_of_rounds_before_are_left_to_python(finished):
    def f(x):
        size = x.max()
        while True:
            before, x = size, x / 2
            size = x.max()
            if before.item() < 1:
                return x

    _same(f, 60, finished, times=0)


def test_whoever_holds_a_tensor_of_a_round_keeps_it(finished):
    def f(x):
        last = [x]
        while x.sum() > 1:
            x = x / 2
            last[0] = x
        return x

    _same(f, 60, finished, times=0)  # it is in a list, which has to change as well

    held = []

    class Holder:
        def __lt__(self, y):
            held.append(y)
            return (y > 1).any()

    holder = Holder()

    def g(x):
        while holder < x:
            x = x / 2
        return x

    expected = g(_start(60))
    seen, held[:] = [float(x[0]) for x in held], []
    found = tj.compile(g)(_start(60))
    np.testing.assert_array_equal(expected.numpy(), found.numpy())
    assert [float(x[0]) for x in held] == seen


def test_what_is_written_to_is_written_to(finished):
    def f(x, grid):
        inside = grid[1:-1]
        while x.sum() > 1:
            x = x * 0.5
            grid[1:-1] += x.sum() * 1e-3
            grid[:1] = grid[1:2] * 0.25
        return x, inside.sum(), grid * 2

    made = []
    for function in (f, tj.compile(f)):
        grid = tj.linspace(0, 1, 8, dtype=tj.float64)
        results = function(_start(60), grid)
        made.append([*results, grid])
    for x, y in zip(*made, strict=True):
        np.testing.assert_allclose(y.numpy(), x.numpy(), rtol=1e-6)
    assert made[0][-1]._version == made[1][-1]._version > 100
    assert len(finished) == 1


def test_buffers_that_take_turns_are_left_to_python(finished):
    def f(x):
        a, b = x.clone(), tj.zeros(2)
        while a.sum() > 1:
            b.copy_(a * 0.5)
            a, b = b, a
        return a, b

    _same(f, 61, finished, times=0)


def test_errors_of_the_compiler_leave_rounds_to_python(monkeypatch, finished):
    def fails(*things):
        raise RuntimeError("no")

    monkeypatch.setattr(finishing, "program_plan", fails)
    _same(halved, 60, finished, times=0)


def test_compiling_is_not_waited_for_longer_than_it_is_worth(monkeypatch, finished):
    monkeypatch.setattr(finishing, "PATIENCE", -1.0)
    _same(halved, 60, finished, times=0)


@pytest.mark.parametrize("how", ["determinism", "defers", "background"])
def test_where_compiled_code_may_not_serve_the_first_call(how, finished, monkeypatch):
    options = {}
    if how == "determinism":
        tj.use_deterministic_algorithms(True)
    elif how == "defers":
        monkeypatch.setattr(tj.config, "defers", False)
    else:
        options["mode"] = "background"
    try:
        compiled = tj.compile(halved, **options)
        for _ in range(3):
            np.testing.assert_array_equal(compiled(_start(60)).numpy(), halved(_start(60)).numpy())
    finally:
        tj.use_deterministic_algorithms(False)
    assert finished == []


def test_it_takes_work_before_a_loop_is_compiled(monkeypatch):
    counts = []
    run = finishing._run
    monkeypatch.setattr(finishing, "_run", lambda *x: counts.append(x) or run(*x))
    tj.compile(halved)(_start(40))
    assert not counts
    tj.compile(lambda x: halved(x))(tj.tensor([1e300, 0.0], dtype=tj.float64))
    assert len(counts) == 1


def test_interrupts_end_a_loop_that_would_not_end(finished):
    def endless(x):
        while (x > 0).all():
            x = x * 1.0
        return x

    ended = threading.Event()

    def interrupt():
        while not ended.wait(0.5):  # one that comes while a callback runs is lost
            signal.raise_signal(signal.SIGINT)

    compiled, other = tj.compile(endless), threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            try:
                compiled(tj.ones(4))
            finally:
                ended.set()
        other.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert finished == []  # it did not come to its end


@pytest.mark.sampled(4)
@pytest.mark.parametrize("f", [*ROLLED, *STRAIGHT], ids=lambda f: f.__name__)
def test_loops_of_all_kinds(f, finished):
    for scale in (1e6, 40.0, 0.5):
        results = []
        for function in (f, tj.compile(f)):
            with np.errstate(all="ignore"):
                results.append(_parts(function(tj.linspace(0.5, 1.5, 6, dtype=tj.float64) * scale)))
        for x, y in zip(*results, strict=True):
            np.testing.assert_allclose(np.asarray(y), np.asarray(x), rtol=1e-12)


def test_frames_take_what_is_set():
    def f():
        a, b = 1, "x"
        set_variables(sys._getframe(), {"a": 7})
        return a, b

    assert f() == (7, "x")


def test_variables_stay_when_a_profiler_looks_at_them():
    def f(given):
        kept = [given]
        abs(-1)
        return kept

    seen = []

    def profiler(frame, event, argument):
        if frame.f_code is f.__code__:
            seen.append(variables_of(frame).get("given"))

    sys.setprofile(profiler)
    try:
        assert f(3) == [3]
    finally:
        sys.setprofile(None)
    assert set(seen) == {3}
