"""compile(): what clocks say is read by every call, and measures the time that its program takes."""

from __future__ import annotations

import contextlib
import io
import logging
import time
import timeit
from collections.abc import Callable
from time import monotonic_ns
from time import time as now
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn
from tracejit.trace.numbers.clocks import Clock, tell, told_afterwards
from tracejit.trace.numbers.numbers import Number

CALLS = 12


def called(function: Callable[..., Any], *args: Any, least: int = CALLS - 3) -> list[Any]:
    """What many calls of a function return, most of which are compiled ones."""
    f = tj.compile(function)
    found = [f(*args) for _ in range(CALLS)]
    assert f.stats.compiled_calls >= least, f.explain()
    return found


@pytest.mark.parametrize(
    "clock",
    [
        time.time,
        time.perf_counter,
        time.monotonic,
        time.process_time,
        time.perf_counter_ns,
        timeit.default_timer,
    ],
)
def test_every_call_reads_the_clock(clock: Any) -> None:
    namespace = {"clock": clock}
    exec("def f(x):\n    return x * 2, clock()", namespace)
    f = tj.compile(namespace["f"])
    found = []
    for _ in range(CALLS):
        before = clock()
        value = f(tj.ones(2))[1]
        assert before <= value <= clock()
        assert type(value) is type(before)
        found.append(value)
    assert found == sorted(found)
    assert f.stats.compiled_calls == CALLS - 1, f.explain()
    assert namespace["clock"] is clock


def test_clocks_by_other_names() -> None:
    readers = [time.perf_counter]

    def function(x: Any) -> Any:
        return x.sum(), now(), monotonic_ns(), readers[0](), timeit.default_timer()

    for _, *times in zip(range(3), called(function, tj.ones(2)), strict=False):
        assert [type(t) for t in times[0][1:]] == [float, int, float, float]


def test_what_is_measured_is_the_time_of_the_program() -> None:
    def function(x: Any) -> Any:
        begin = time.perf_counter()
        for _ in range(4):
            x = x @ x / 512
        return x, time.perf_counter() - begin

    x = tj.ones(512, 512)
    f = tj.compile(function)
    for _ in range(4):
        f(x)
    begin = time.perf_counter()
    _, took = f(x)
    whole = time.perf_counter() - begin
    assert f.stats.compiled_calls == 4
    assert whole / 2 < took < whole


def test_a_step_that_measures_itself() -> None:
    class Meter:
        def __init__(self) -> None:
            self.last = self.total = 0.0
            self.count = 0

        def update(self, value: float) -> None:
            self.last = value
            self.total += value
            self.count += 1

    net, meter, speeds = nn.Linear(3, 1), Meter(), []
    optimizer = tj.optim.SGD(net.parameters(), lr=0.1)

    @tj.compile
    def step(x: Any) -> Any:
        begin = time.time()
        loss = net(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.update(time.time() - begin)
        speeds.append(len(x) / (time.time() - begin))
        return {"loss": loss.item(), "time": meter.last, "at": begin}

    for k in range(CALLS):
        before = meter.total
        found = step(tj.ones(2, 3))
        assert abs(meter.total - before - found["time"]) < 1e-9
        assert abs(found["at"] - time.time()) < 60
        assert (meter.count, len(speeds)) == (k + 1, k + 1)
    assert all(speed > 0 for speed in speeds)
    assert step.stats.compiled_calls >= CALLS - 4, step.explain()


def test_text_with_times() -> None:
    handler = logging.StreamHandler(io.StringIO())
    log = logging.getLogger("test_clocks")
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.INFO)

    def function(x: Any) -> Any:
        begin = time.perf_counter()
        y = x.sum()
        print(f"{y.item():.1f} in {time.perf_counter() - begin:.0f} s")
        log.info("%.1f in %.0f s", y.item(), time.perf_counter() - begin)
        return y

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        called(function, tj.ones(2))
    assert out.getvalue() == handler.stream.getvalue() == "2.0 in 0 s\n" * CALLS


@pytest.mark.parametrize("limit", [1000.0, -1.0])
def test_times_that_decide(limit: float) -> None:
    def function(x: Any) -> Any:
        begin = time.monotonic()
        for _ in range(20):
            x = x + 1
            if time.monotonic() - begin > limit:
                break
        return x

    found = called(function, tj.zeros(1))
    assert {x.item() for x in found} == {20.0 if limit > 0 else 1.0}


def test_times_that_are_operands_of_tensors() -> None:
    for x in called(lambda x: x * 0 + time.time(), tj.zeros((), dtype=tj.float64)):
        assert abs(x.item() - time.time()) < 60


@pytest.mark.parametrize(
    "use",
    [
        "str(time.time())",
        "time.strftime('%H', time.gmtime(time.time()))",
        "hash(time.time())",
        "__import__('datetime').timedelta(seconds=time.time())",
        "{time.time(): 1}",
    ],
)
def test_times_that_are_seen_are_no_constants(use: str) -> None:
    namespace = {"time": time}
    exec(f"def f(x):\n    return x * 2, {use}", namespace)
    f = tj.compile(namespace["f"])
    seen = []
    for _ in range(4):
        x, value = f(tj.ones(1))
        assert x.item() == 2
        seen.append(repr(value))
        time.sleep(0.002)
    assert len(set(seen)) == (1 if "%H" in use else 4)
    assert f.stats.compiled_calls == 0


def test_verified_calls_read_no_clocks() -> None:
    f = tj.compile(lambda x: (x * 2, time.time()), verify=True)
    for _ in range(4):
        assert abs(f(tj.ones(1))[1] - time.time()) < 60
    assert any("time.time" in reason for reason in f.reasons)


def clock(after: bool) -> Number:
    return Number("call", float, (), "", Clock(time.perf_counter, after))


def test_what_may_end_in_an_error_is_computed_before() -> None:
    early, late = clock(False), clock(True)
    took = Number("sub", float, (late, early))
    speed, other = Number("truediv", float, (8, took)), Number("argument", float)
    mixed = Number("mul", float, (took, other))
    assert told_afterwards([early, late, took, speed], ()) == [late, took, speed]
    assert told_afterwards([early, late, took, mixed], ()) == [late, took, mixed]
    for unsafe in (
        Number("truediv", float, (8, mixed)),
        Number("floordiv", float, (took, 2.0)),
        Number("pow", float, (took, 2.0)),
        Number("truediv", float, (8, Number("sub", float, (early, other)))),
    ):
        numbers = [early, other, late, took, mixed, unsafe]
        found = told_afterwards(numbers, ())
        assert unsafe not in found, unsafe.name
        assert not [x for x in unsafe.operands if x in found]
    assert told_afterwards([early, late, took, speed], [took]) == []


def test_a_clock_that_stands_still_is_read_again() -> None:
    ticks = iter([1.0, 1.0, 1.0, 3.0])
    early, late = clock(False), Number("call", float, (), "", Clock(lambda: next(ticks), True))
    took = Number("sub", float, (late, early))
    known: dict[Any, Any] = {early: 1.0}
    tell([late, took, Number("truediv", float, (8, took))], known)
    assert known[took] == 2.0
    assert [*known.values()][-1] == 4.0


def test_what_programs_keep_is_not_asked_for_its_hash() -> None:
    class Unhashable:
        def __hash__(self) -> int:
            raise AssertionError("a recording asks for the hash of an object")

    kept = [memoryview(bytearray(4)), Unhashable()]

    def step(x: tj.Tensor) -> tj.Tensor:
        began = time.perf_counter()
        return x * len(kept) + (time.perf_counter() >= began)

    f = tj.compile(step)
    for _ in range(3):
        assert f(tj.ones(2)).tolist() == [3.0, 3.0]
