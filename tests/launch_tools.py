"""Small kernels and ways to launch them, for the tests of the launcher, its loops and the thread pool."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from tracejit.codegen.llvm import compile_source
from tracejit.runtime.launcher import Table, pack_slots
from tracejit.runtime.machine_code.loader import load_object

ADD = """
def rt_add(x: "i64*", y: "i64*", amount: "i64", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    for i in range(lo, hi):
        y[i] = x[i] + amount
    return 0
"""
FAIL = """
def rt_fail(x: "i64*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    for i in range(lo, hi):
        if x[i] != 0:
            return int32(x[i])
    return 0
"""
SLOW = """
def rt_slow(x: "i64*", n: "i64", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    for i in range(lo, hi):
        for j in range(n):
            x[i] = (x[i] * 31 + j) ^ (x[i] >> 7)
    return 0
"""


def kernel(source: str) -> int:
    """The address of the function that a source defines, compiled and loaded."""
    name = source.split("(")[0].split()[1]
    return load_object(compile_source(source, name), name)


def all_ways(table: Table, slots: list[int]) -> Iterator[Callable[[], int]]:
    """Calls of every entry of the launcher with the same slots."""
    n = table.n_steps
    yield lambda: table.run(0, n, pack_slots(slots))
    yield lambda: table.run_slots(0, n, *slots)
    yield lambda: table.launch(0, n, pack_slots(slots))


def moments_during(call: Callable[[], int]) -> list[float]:
    """When another Python thread got to run in the middle of a call that succeeds: start, moments, end."""
    seen: list[float] = []
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            seen.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=watch)
    thread.start()
    time.sleep(0.01)
    begin = time.perf_counter()
    assert call() == 0
    end = time.perf_counter()
    done.set()
    thread.join()
    return [begin, *(moment for moment in seen if begin < moment < end), end]
