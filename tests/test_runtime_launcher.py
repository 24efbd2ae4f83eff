"""The launcher and the thread pool: arguments, ranges, errors, threads, forks."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from tracejit.codegen.llvm import compile_source
from tracejit.runtime import launcher, threads
from tracejit.runtime.launcher import COARSE, RELEASE_GIL, Step, build_table, failure, pack_slots
from tracejit.runtime.loader import load_object

ADD = """
def rt_add(x: "i64*", y: "i64*", amount: "i64", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    for i in range(lo, hi):
        y[i] = x[i] + amount
    return 0
"""
# Notes per index the worker, and per call its range: what a test needs to see the splitting.
MARK = """
def rt_mark(who: "i64*", start: "i64*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    for i in range(lo, hi):
        who[i] = worker
        start[i] = lo
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
    name = source.split("(")[0].split()[1]
    return load_object(compile_source(source, name), name)


@pytest.fixture(scope="module")
def add() -> int:
    return kernel(ADD)


@pytest.fixture(scope="module")
def mark() -> int:
    return kernel(MARK)


@pytest.fixture
def four_threads():
    before = threads.get_num_threads()
    threads.set_num_threads(4)
    yield
    threads.set_num_threads(before)


def all_ways(table: launcher.Table, slots: list[int]):
    n = table.n_steps
    yield lambda: table.run(0, n, pack_slots(slots))
    yield lambda: table.run_slots(0, n, *slots)
    yield lambda: table.launch(0, n, pack_slots(slots))


def test_constants_slots_and_offsets_reach_the_kernel(add: int) -> None:
    x, y = np.arange(10), np.zeros(10, dtype=np.int64)
    step = Step(add, [(0, 16), (1, 0), (-1, 5)], (2, -2))
    table = build_table([step])
    assert (table.n_steps, table.n_slots) == (1, 3)
    for way in all_ways(table, [x.ctypes.data, y.ctypes.data, 6]):
        y[:] = 0
        assert way() == 0
        assert y.tolist() == [7, 8, 9, 10, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("extent", [0, -3])
def test_an_empty_range_calls_nothing(extent: int) -> None:
    # The function is not a function: calling it would end the process.
    table = build_table([Step(1, [], (-1, extent)), Step(1, [], (0, 0))])
    assert table.run_slots(0, 2, extent) == 0


def test_steps_run_in_order_and_ranges_of_them_can_be_chosen(add: int) -> None:
    x = np.zeros(4, dtype=np.int64)
    a = x.ctypes.data
    table = build_table([Step(add, [(0, 0), (0, 0), (-1, 10**k)], (-1, 4)) for k in range(4)])
    assert table.run_slots(1, 3, a) == 0
    assert x.tolist() == [110] * 4
    assert table.run_slots(0, 0, a) == table.run_slots(4, 4, a) == 0
    assert table.run_slots(0, 4, a) == 0
    assert x.tolist() == [1221] * 4


def test_negative_and_unsigned_values_are_bit_patterns(add: int) -> None:
    x = np.zeros(2, dtype=np.int64)
    table = build_table([Step(add, [(0, 0), (0, 0), (-1, (1 << 64) - 7)], (-1, 2))])
    assert table.run_slots(0, 1, x.ctypes.data) == 0
    assert x.tolist() == [-7, -7]
    table = build_table([Step(add, [(0, 0), (0, 0), (1, 0)], (-1, 2))])
    assert table.run_slots(0, 1, x.ctypes.data, -1) == 0
    assert x.tolist() == [-8, -8]


def test_a_failing_kernel_ends_the_program(add: int) -> None:
    fail = kernel(FAIL)
    x, y = np.array([0, 0, 42, 43]), np.zeros(4, dtype=np.int64)
    steps = [
        Step(add, [(1, 0), (1, 0), (-1, 1)], (-1, 4)),
        Step(fail, [(0, 0)], (-1, 4)),
        Step(add, [(1, 0), (1, 0), (-1, 1)], (-1, 4)),
    ]
    table = build_table(steps)
    for way in all_ways(table, [x.ctypes.data, y.ctypes.data]):
        y[:] = 0
        assert failure(way()) == (1, 42)
        assert y.tolist() == [1, 1, 1, 1]


def test_the_lowest_failing_chunk_decides_the_code(four_threads) -> None:
    fail = kernel(FAIL)
    table = build_table([Step(fail, [(0, 0)], (1, 0), grain=1)])
    generator = random.Random(1)
    for _ in range(200):
        n = generator.randrange(2, 400)
        x = np.zeros(n, dtype=np.int64)
        places = sorted({generator.randrange(n) for _ in range(3)})
        x[places] = [place + 1 for place in places]
        assert failure(table.run_slots(0, 1, x.ctypes.data, n)) == (0, places[0] + 1)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((0, 1, b""), ValueError),
        ((0, 1, bytes(8)), ValueError),
        ((0, 2, bytes(16)), ValueError),
        ((-1, 1, bytes(16)), ValueError),
        ((1, 0, bytes(16)), ValueError),
        ((0, 1, "text"), TypeError),
        ((0, 1), TypeError),
        ((0, 1, bytes(16), 3), TypeError),
        (("a", 1, bytes(16)), TypeError),
        ((0, None, bytes(16)), TypeError),
        ((0, 1 << 70, bytes(16)), OverflowError),
    ],
)
def test_misuse_of_run_raises(add: int, arguments: tuple, error: type[Exception]) -> None:
    table = build_table([Step(add, [(0, 0), (0, 0), (-1, 0)], (1, 0))])
    with pytest.raises(error):
        table.run(*arguments)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), ValueError),
        ((0,), ValueError),
        ((0, 1), ValueError),
        ((0, 1, 5), ValueError),
        ((0, 9, 5, 0), ValueError),
        ((0, 1, 5, 0.5), TypeError),
        ((0, 1, 5, 1 << 64), OverflowError),
    ],
)
def test_misuse_of_run_slots_raises(add: int, arguments: tuple, error: type[Exception]) -> None:
    table = build_table([Step(add, [(0, 0), (0, 0), (-1, 0)], (1, 0))])
    with pytest.raises(error):
        table.run_slots(*arguments)


def test_launch_through_ctypes_checks_its_arguments(add: int) -> None:
    table = build_table([Step(add, [(0, 0), (0, 0), (-1, 0)], (1, 0))])
    with pytest.raises(ValueError, match="not in the program"):
        table.launch(0, 2, bytes(16))
    with pytest.raises(ValueError, match="fewer slot values"):
        table.launch(0, 1, bytes(8))


@pytest.mark.parametrize(
    "step",
    [Step(0, [], (-1, 1)), Step(1, [], (-1, 1), grain=0), Step(1, [(-2, 0)], (-1, 1))],
)
def test_a_senseless_step_is_refused(step: Step) -> None:
    with pytest.raises(ValueError, match="step 0"):
        build_table([step])


def test_the_bound_function_keeps_the_table_alive(add: int) -> None:
    x = np.zeros(3, dtype=np.int64)
    runs = [
        build_table([Step(add, [(0, 0), (0, 0), (-1, 1)], (-1, 3))] * 500).run_slots
        for _ in range(50)
    ]
    filler = [np.full(6000, -1) for _ in range(50)]
    for run in runs:
        assert run(0, 500, x.ctypes.data) == 0
    assert x.tolist() == [25_000] * 3
    assert len(filler) == 50


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


def test_a_range_within_the_grain_stays_on_the_caller(mark: int, four_threads) -> None:
    who, start = np.full(100, -1), np.full(100, -1)
    table = build_table([Step(mark, [(0, 0), (1, 0)], (-1, 100), 100)])
    assert table.run_slots(0, 1, who.ctypes.data, start.ctypes.data) == 0
    assert not who.any()
    assert not start.any()


def test_other_threads_take_part(mark: int, four_threads) -> None:
    slow = kernel(SLOW)
    x = np.zeros(64, dtype=np.int64)
    who, start = np.full(1 << 20, -1), np.full(1 << 20, -1)
    table = build_table(
        [
            Step(slow, [(0, 0), (-1, 200_000)], (-1, 64), 1),
            Step(mark, [(1, 0), (2, 0)], (-1, 1 << 20), 1),
        ]
    )
    for _ in range(20):
        assert table.run_slots(0, 2, x.ctypes.data, who.ctypes.data, start.ctypes.data) == 0
        if len(set(who.tolist())) > 1:
            return
    pytest.fail("twenty long steps ran on one thread")


def test_the_gil_is_released_in_long_steps_only() -> None:
    slow = kernel(SLOW)
    x = np.zeros(1, dtype=np.int64)
    released = build_table([Step(slow, [(0, 0), (-1, 30_000_000)], (-1, 1), flags=RELEASE_GIL)])
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
    released.run_slots(0, 1, x.ctypes.data)
    end = time.perf_counter()
    done.set()
    thread.join()
    assert sum(begin < moment < end for moment in seen) >= 3


def test_many_python_threads_launch_at_once(add: int, four_threads) -> None:
    table = build_table([Step(add, [(0, 0), (0, 0), (-1, 1)], (1, 0), 16)] * 20)
    failures: list[str] = []

    def work(seed: int) -> None:
        generator = random.Random(seed)
        for _ in range(100):
            n = generator.randrange(1, 3000)
            x = np.zeros(n, dtype=np.int64)
            way = generator.choice(list(all_ways(table, [x.ctypes.data, n])))
            if way() != 0 or not (x == 20).all():
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
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


PRELUDE = f"""
import os, numpy as np, threading
from tracejit.codegen.llvm import compile_source
from tracejit.runtime import threads
from tracejit.runtime.launcher import Step, build_table
from tracejit.runtime.loader import load_object
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


@pytest.mark.parametrize(
    ("text", "expected"), [("3", 3), ("1", 1), ("1000", 256), ("", None), ("many", None)]
)
def test_the_environment_sets_the_number_of_threads(text: str, expected: int | None) -> None:
    code = "from tracejit.runtime import threads; print(threads.get_num_threads())"
    result = run_python(code, TRACEJIT_NUM_THREADS=text)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert result.stdout.strip() == str(expected or usable)
    assert ("not a positive integer" in result.stderr) == (text == "many")


def test_a_warm_process_compiles_nothing_for_the_launcher(tmp_path) -> None:
    code = """
from tracejit.runtime.native import native
from tracejit.runtime.store import kernel_store
native()
print(kernel_store().info().hits, kernel_store().info().misses)
"""
    cold = run_python(code, TRACEJIT_CACHE_DIR=str(tmp_path))
    warm = run_python(code, TRACEJIT_CACHE_DIR=str(tmp_path))
    assert (cold.stdout, warm.stdout) == ("0 1\n", "1 0\n"), cold.stderr + warm.stderr
