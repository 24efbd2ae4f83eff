"""Numbers that vary, in Python state that several threads read."""

from __future__ import annotations

import threading
import types

import numpy as np

import tracejit as tj


class Holder:
    """A number in an attribute."""

    def __init__(self) -> None:
        self.rate = 0.1


def close(ours, theirs) -> bool:
    return np.allclose(ours.tolist(), theirs.tolist(), rtol=1e-6)


def test_threads_see_numbers_while_a_function_is_recorded() -> None:
    holder, seen, stop = Holder(), [], threading.Event()

    def reader() -> None:
        while not stop.is_set():
            value = holder.rate * 2
            seen.append(type(value) is float)

    def function(x):
        for _ in range(20):
            x = x * holder.rate
        return x

    thread = threading.Thread(target=reader)
    thread.start()
    try:
        for _ in range(5):
            f = tj.compile(function)
            for i in range(6):
                holder.rate = 1.0 + i
                assert close(f(tj.ones(2)), function(tj.ones(2)))
    finally:
        stop.set()
        thread.join()
    assert seen
    assert all(seen)


def test_a_thread_keeps_values_of_numbers_that_it_met_in_a_recording() -> None:
    """It reads the number while another thread records, and puts it into its result when that is over."""
    holder, met, over = Holder(), threading.Event(), threading.Event()
    found = {}

    def function(x):
        me = threading.current_thread().name
        rate = holder.rate
        if me == "beside":
            met.set()
            over.wait(10)
        elif me == "recording":
            waiter = threading.Thread(target=beside, name="beside")
            waiter.start()
            met.wait(10)
            found["waiter"] = waiter
        return x * rate, types.SimpleNamespace(rate=rate, pair=(rate, [rate])), rate

    def beside() -> None:
        found["result"] = f(tj.ones(2))

    f = tj.compile(function)
    for holder.rate in (1.0, 2.0, 3.0):
        f(tj.ones(2))
    recording = threading.Thread(target=lambda: f(tj.ones(3)), name="recording")
    recording.start()
    recording.join()
    over.set()
    found["waiter"].join()
    _, kept, rate = found["result"]
    assert [type(v) for v in (rate, kept.rate, kept.pair[0], kept.pair[1][0])] == [float] * 4
    assert type(holder.rate) is float


def test_many_threads_share_an_attribute() -> None:
    holder, errors = Holder(), []
    holder.rate = 2.0

    def work(number: int) -> None:
        f = tj.compile(lambda x: x * holder.rate + number)
        expected = ([2.0 + number] * 2, [3.0 + number] * 2)
        errors.extend(1 for _ in range(30) if f(tj.ones(2)).tolist() not in expected)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for i in range(200):
        holder.rate = 2.0 + i % 2
    for thread in threads:
        thread.join()
    assert not errors
    assert type(holder.rate) is float


def test_threads_of_the_package_are_in_nobodys_way() -> None:
    """Workers for large kernels and the thread behind the program run no user code."""
    behind = tj.compile(lambda x: x + 1, mode="background")
    behind(tj.ones(2))
    behind(tj.ones(2))
    behind.wait(60.0)

    def f(x, n):
        return x * float(n)

    g = tj.compile(f)
    for k in range(6):
        assert g(tj.ones(2), tj.tensor(1.5 + k)).tolist() == [1.5 + k] * 2
    assert g.stats.recordings == 2, g.explain()
