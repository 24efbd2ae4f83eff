"""The thread pool: splitting, helping, sleeping, many callers, forks, exit."""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time

import numpy as np
import pytest

from launch_tools import ADD, SLOW, kernel, moments_during
from process_tools import python
from tracejit.runtime import threads
from tracejit.runtime.launcher import (
    COARSE,
    RELEASE_GIL,
    Step,
    build_table,
    for_workers,
    pack_slots,
)

# Notes per index the worker, and the start of its range: what a test needs to see the splitting.
MARK = """
def rt_mark(who: "i64*", start: "i64*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    for i in range(lo, hi):
        who[i] = worker
        start[i] = lo
    return 0
"""
SLOW_MARK = """
def rt_slow_mark(x: "i64*", who: "i64*", n: "i64", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    for i in range(lo, hi):
        for j in range(n):
            x[i] = (x[i] * 31 + j) ^ (x[i] >> 7)
        who[i] = worker
    return 0
"""


@pytest.fixture(scope="module")
def mark() -> int:
    return kernel(MARK)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 16])
@pytest.mark.parametrize("flags", [0, COARSE])
def test_every_index_runs_exactly_once(add: int, count: int, flags: int) -> None:
    before = threads.get_num_threads()
    threads.set_num_threads(count)
    generator = random.Random(count)
    try:
        for _ in range(60):
            n, grain = generator.randrange(1, 5000), generator.choice([1, 3, 64, 1000])
            x = np.zeros(n, dtype=np.int64)
            step = Step(add, [(0, 0), (0, 0), (-1, 1)], (1, 0), grain, flags)
            assert build_table([step] * 5).run_slots(0, 5, x.ctypes.data, n) == 0
            assert (x == 5).all()
    finally:
        threads.set_num_threads(before)


@pytest.mark.parametrize(
    ("flags", "chunks"), [(0, 16), (COARSE, 4)], ids=["four per thread", "one per thread"]
)
def test_chunks_are_multiples_of_the_grain(
    mark: int, four_threads, flags: int, chunks: int
) -> None:
    n, grain = 64_000, 100
    who, start = np.full(n, -1), np.full(n, -1)
    table = build_table([Step(mark, [(0, 0), (1, 0)], (-1, n), grain, flags)])
    assert table.run_slots(0, 1, who.ctypes.data, start.ctypes.data) == 0
    starts = np.unique(start)
    assert starts.tolist() == list(range(0, n, n // chunks))
    assert set(who.tolist()) <= {0, 1, 2, 3}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("flags", [0, COARSE])
@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_no_more_workers_take_part_than_have_memory(four_threads, flags: int, most: int) -> None:
    slow_mark = kernel(SLOW_MARK)
    x, who = np.zeros(64, dtype=np.int64), np.full(64, -1)
    step = Step(slow_mark, [(0, 0), (1, 0), (-1, 30_000)], (-1, 64), 1, flags | for_workers(most))
    whole = Step(slow_mark, [(0, 0), (1, 0), (-1, 30_000)], (-1, 64), 1, flags)
    table = build_table([step, whole])
    met: set[int] = set()
    for _ in range(20):
        before, who[:] = x.copy(), -1
        assert table.run_slots(0, 1, x.ctypes.data, who.ctypes.data) == 0
        assert (x != before).all()
        assert 0 <= who.min() <= who.max() < most
        met |= set(who.tolist())
        assert table.run_slots(1, 2, x.ctypes.data, who.ctypes.data) == 0
        assert 0 <= who.min() <= who.max() < 4
    assert len(met) > 1 or most == 1


def test_a_range_within_the_grain_stays_on_the_caller(mark: int, four_threads) -> None:
    who, start = np.full(100, -1), np.full(100, -1)
    table = build_table([Step(mark, [(0, 0), (1, 0)], (-1, 100), 100)])
    assert table.run_slots(0, 1, who.ctypes.data, start.ctypes.data) == 0
    assert not who.any()
    assert not start.any()


def test_other_threads_take_part(four_threads) -> None:
    slow_mark = kernel(SLOW_MARK)
    x, who = np.zeros(64, dtype=np.int64), np.full(64, -1)
    table = build_table([Step(slow_mark, [(0, 0), (1, 0), (-1, 300_000)], (-1, 64), 1)])
    for _ in range(20):  # one is enough unless the machine is busy
        assert table.run_slots(0, 1, x.ctypes.data, who.ctypes.data) == 0
        if len(set(who.tolist())) > 1:
            return
    pytest.fail("twenty long steps ran on one thread")


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no CPU sets here")
def test_woken_workers_stay_off_the_callers_cpu(add: int) -> None:
    allowed = os.sched_getaffinity(0)
    before = threads.get_num_threads()
    x = np.zeros(4096, dtype=np.int64)
    table = build_table([Step(add, [(0, 0), (0, 0), (-1, 1)], (-1, 4096), 16)])
    try:
        for count in {2, len(allowed), len(allowed) + 1} - {1}:
            threads.set_num_threads(1)
            threads.set_num_threads(count)
            assert table.run_slots(0, 1, x.ctypes.data) == 0
            time.sleep(0.01)  # now they sleep
            assert table.run_slots(0, 1, x.ctypes.data) == 0
            assert threads._pool is not None
            masks = [os.sched_getaffinity(w.native_id or 0) for w in threads._pool.workers]
            placed = count <= len(allowed)
            assert {len(allowed - mask) for mask in masks} == {1 if placed else 0}
            assert all(mask <= allowed and mask == masks[0] for mask in masks)
        assert os.sched_getaffinity(0) == allowed
    finally:
        threads.set_num_threads(before)


def test_the_gil_is_released_in_long_steps_only() -> None:
    slow = kernel(SLOW)
    x = np.zeros(1, dtype=np.int64)
    released = build_table([Step(slow, [(0, 0), (-1, 30_000_000)], (-1, 1), flags=RELEASE_GIL)])
    _, *between, _ = moments_during(lambda: released.run_slots(0, 1, x.ctypes.data))
    assert len(between) >= 3


def test_many_python_threads_launch_at_once(add: int, four_threads) -> None:
    table = build_table([Step(add, [(0, 0), (0, 0), (-1, 1)], (1, 0), 16)] * 20)
    failures: list[str] = []

    def work(seed: int) -> None:
        generator = random.Random(seed)
        for _ in range(100):
            n = generator.randrange(1, 3000)
            x = np.zeros(n, dtype=np.int64)
            if n % 2:
                code = table.run_slots(0, 20, x.ctypes.data, n)
            else:
                code = table.launch(0, 20, pack_slots([x.ctypes.data, n]))
            if code != 0 or not (x == 20).all():
                failures.append(f"seed {seed}, n {n}")

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not failures
    assert not any(worker.is_alive() for worker in workers)


def test_the_number_of_threads_can_change_during_launches(add: int) -> None:
    before = threads.get_num_threads()
    n = 4096
    x = np.zeros(n, dtype=np.int64)
    table = build_table([Step(add, [(0, 0), (0, 0), (-1, 1)], (-1, n), 16)] * 50)
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            for count in (2, 5, 1, 3):
                threads.set_num_threads(count)

    changer = threading.Thread(target=change)
    changer.start()
    try:
        for _ in range(60):
            assert table.run_slots(0, 50, x.ctypes.data) == 0
    finally:
        stop.set()
        changer.join()
        threads.set_num_threads(before)
    assert (x == 3000).all()


def test_sleeping_workers_wake_up(add: int, four_threads) -> None:
    n = 1 << 16
    x = np.zeros(n, dtype=np.int64)
    table = build_table([Step(add, [(0, 0), (0, 0), (-1, 1)], (-1, n), 64)])
    for round_ in range(1, 20):
        time.sleep(0.002)
        assert table.run_slots(0, 1, x.ctypes.data) == 0
        assert (x == round_).all()


def test_an_idle_pool_uses_no_cpu(add: int, four_threads) -> None:
    x = np.zeros(1 << 16, dtype=np.int64)
    table = build_table([Step(add, [(0, 0), (0, 0), (-1, 1)], (-1, len(x)), 64)])
    assert table.run_slots(0, 1, x.ctypes.data) == 0
    time.sleep(0.05)
    begin = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - begin < 0.05


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "2", None])
def test_a_senseless_number_of_threads_is_refused(bad: object) -> None:
    before = threads.get_num_threads()
    with pytest.raises(ValueError, match="positive integer"):
        threads.set_num_threads(bad)  # type: ignore[arg-type]
    assert threads.get_num_threads() == before


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return python("-X", "faulthandler", "-c", code, **environment)


PRELUDE = f"""
import os, numpy as np, threading
from tracejit.codegen.llvm import compile_source
from tracejit.runtime import threads
from tracejit.runtime.launcher import Step, build_table
from tracejit.runtime.machine_code.loader import load_object
source = '''{ADD}'''
add = load_object(compile_source(source, "rt_add"), "rt_add")
x = np.zeros(1 << 16, dtype=np.int64)
table = build_table([Step(add, [(0, 0), (0, 0), (-1, 1)], (-1, len(x)), 64)] * 100)
def go():
    x[:] = 0
    assert table.run_slots(0, 100, x.ctypes.data) == 0
    assert (x == 100).all()
"""


def test_the_pool_is_rebuilt_after_a_fork() -> None:
    code = """
threads.set_num_threads(3)
go()
for _ in range(3):
    child = os.fork()
    if child == 0:
        go()
        names = {thread.name for thread in threading.enumerate()}
        os._exit(0 if "tracejit-worker-2" in names else 3)
    assert os.waitpid(child, 0)[1] == 0
    go()
print("done")
"""
    result = run_python(PRELUDE + code)
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr


def test_the_interpreter_exits_cleanly_with_a_pool_at_work() -> None:
    code = """
threads.set_num_threads(3)
go()
def forever():
    while True:
        go()
threading.Thread(target=forever, daemon=True).start()
"""
    result = run_python(PRELUDE + code)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("text", "expected"), [("3", 3), ("1", 1), ("1000", 256), ("", None), ("many", None)]
)
def test_the_environment_sets_the_number_of_threads(text: str, expected: int | None) -> None:
    code = "from tracejit.runtime import threads; print(threads.get_num_threads())"
    result = run_python(code, TRACEJIT_NUM_THREADS=text)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert result.stdout.strip() == str(expected or usable)
    assert ("not a positive integer" in result.stderr) == (text == "many")


TURN = """
def rt_turn(count: "i64*", turn: "i64*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    count[0] = count[0] + 1
    for i in range(lo, hi):
        turn[i] = count[0]
    return 0
"""


def test_every_other_job_begins_with_what_the_last_one_ended_with(four_threads) -> None:
    """What a thread touched last is in its caches."""
    count, turn = np.zeros(1, np.int64), np.zeros(4000, np.int64)
    step = Step(kernel(TURN), [(0, 0), (1, 0)], (-1, 4000), 10, for_workers(1))
    table = build_table([step])
    found = []
    for _ in range(4):
        count[:] = 0
        assert table.run_slots(0, 1, count.ctypes.data, turn.ctypes.data) == 0
        found.append(turn[::1000].tolist())
    assert sorted(found[0]) == [1, 2, 3, 4]
    assert found == [found[0], found[0][::-1]] * 2
