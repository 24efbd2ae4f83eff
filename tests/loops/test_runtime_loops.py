"""Loops in programs: counts, arguments that move on, threads, failures, the GIL."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable

import numpy as np
import pytest

from launch_tools import FAIL, SLOW, all_ways, kernel, moments_during
from tracejit.extents import Extents, hint
from tracejit.runtime import threads
from tracejit.runtime.launcher import (
    RELEASE_GIL,
    SERIAL,
    Loop,
    Step,
    build_table,
    failure,
    rows,
    table_words,
)

NEXT = """
def rt_next(x: "i64*", item: "i64*", y: "i64*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    for i in range(lo, hi):
        y[i] = x[i] * 3 + item[0]
    return 0
"""


@pytest.mark.parametrize("count", [-2, 0, 1, 2, 7, 8])
@pytest.mark.parametrize("from_slot", [True, False], ids=["slot", "constant"])
def test_arguments_move_on_from_iteration_to_iteration(
    add: int, count: int, from_slot: bool
) -> None:
    # The arrays move on by two elements, the amount goes 5, 2 - 1000, -1, -4 - 1000, ...
    increments = [(16, 0), (16, 0), (-3, -1000)]
    step = Step(add, [(0, 8), (0, 8), (-1, 5)], (-1, 2), increments=increments)
    table = build_table([Loop((1, -1) if from_slot else (-1, count), (step,))])
    x = np.zeros(20, dtype=np.int64)
    expected = np.zeros(20, dtype=np.int64)
    for i in range(count):
        expected[1 + 2 * i : 3 + 2 * i] += 5 - 3 * i - i % 2 * 1000
    for way in all_ways(table, [x.ctypes.data, count + 1]):
        x[:] = 0
        assert way() == 0
        assert x.tolist() == expected.tolist()


@pytest.mark.parametrize("count", [0, 1, 2, 5, 6])
def test_buffers_take_turns(add: int, count: int) -> None:
    n, width = 3, 24
    state, items = np.array([1, 2, 3, 0, 0, 0]), np.arange(10, 20)
    seen = np.zeros((count, n), dtype=np.int64)
    advance = Step(
        kernel(NEXT),
        [(0, 0), (1, 0), (0, width)],
        (-1, n),
        increments=[(0, width), (8, 0), (0, -width)],
    )
    collect = Step(
        add, [(0, width), (2, 0), (-1, 0)], (-1, n), increments=[(0, -width), (width, 0), (0, 0)]
    )
    table = build_table([Loop((3, 0), (advance, collect))])
    slots = [x.ctypes.data for x in (state, items, seen)]
    assert table.run_slots(0, 3, *slots, count) == 0
    x, expected = [1, 2, 3], []
    for i in range(count):
        x = [v * 3 + 10 + i for v in x]
        expected.append(x)
    assert seen.tolist() == expected
    assert state.reshape(2, n)[count % 2].tolist() == x


def test_steps_and_loops_are_numbered_by_rows(add: int) -> None:
    def plus(amount: int) -> Step:
        # What the increments say must count for nothing outside the loop, before and after it.
        return Step(add, [(0, 0), (0, 0), (-1, amount)], (-1, 1), increments=[(0, 0)] * 3)

    def more(amount: int) -> Step:
        return Step(
            add, [(0, 0), (0, 0), (-1, amount)], (-1, 1), increments=[(0, 0)] * 2 + [(1, 9)]
        )

    items = [
        more(1),
        Loop((-1, 3), (plus(10), plus(100))),
        Loop((-1, 5), ()),
        more(1000),
        Loop((1, 0), (plus(1),)),
        Loop((-1, 2), (plus(10_000),)),
        more(100_000),
    ]
    assert [rows(item) for item in items] == [1, 3, 1, 1, 2, 2, 1]
    table = build_table(items)
    assert table.n_steps == 11
    x = np.zeros(1, dtype=np.int64)
    for first, last, total in [
        (0, 11, 121_331),
        (0, 1, 1),
        (1, 4, 330),
        (1, 6, 1330),
        (4, 5, 0),
        (6, 10, 20_000),
        (10, 11, 100_000),
    ]:
        x[0] = 0
        assert table.run_slots(first, last, x.ctypes.data, 0) == 0
        assert x[0] == total


def test_a_failure_in_an_iteration_ends_the_program(add: int) -> None:
    x, y = np.zeros(10, dtype=np.int64), np.zeros(2, dtype=np.int64)
    x[6], x[8] = 42, 43
    count = Step(add, [(1, 0), (1, 0), (-1, 1)], (-1, 1))
    check = Step(kernel(FAIL), [(0, 0)], (-1, 1), increments=[(8, 0)])
    table = build_table([count, Loop((-1, 10), (count, check, count)), count])
    for way in all_ways(table, [x.ctypes.data, y.ctypes.data]):
        y[:] = 0
        assert failure(way()) == (3, 42)
        assert y.tolist() == [1 + 6 * 2 + 1, 0]


def test_steps_in_loops_are_spread_over_threads(add: int) -> None:
    before = threads.get_num_threads()
    n, count = 5000, 25
    one = Step(add, [(0, 0), (0, 0), (-1, 1)], (-1, 1))
    many = Step(add, [(0, 0), (0, 0), (-1, 1)], (1, 0), 64, increments=[(0, 0)] * 2 + [(1, 0)])
    table = build_table([Loop((-1, count), (one, many, one))])
    x = np.zeros(n, dtype=np.int64)
    try:
        for way in all_ways(table, [x.ctypes.data, n]):
            threads.set_num_threads(1)  # so that the loop has to ask for the pool
            threads.set_num_threads(2)
            x[:] = 0
            assert way() == 0
            assert threads._pool is not None
            total = count * (count + 1) // 2
            assert x[0] == total + 2 * count
            assert (x[1:] == total).all()
    finally:
        threads.set_num_threads(before)


def test_the_pool_starts_for_a_step_after_a_loop(add: int) -> None:
    before = threads.get_num_threads()
    one = Step(add, [(0, 0), (0, 0), (-1, 1)], (-1, 1))
    many = Step(add, [(0, 0), (0, 0), (-1, 1)], (-1, 1000), 10)
    table = build_table([Loop((-1, 3), (one,)), many])
    x = np.zeros(1000, dtype=np.int64)
    try:
        threads.set_num_threads(1)
        threads.set_num_threads(2)
        assert table.run_slots(0, 2, x.ctypes.data) == 0
        assert threads._pool is None
        assert table.run_slots(0, 3, x.ctypes.data) == 0
        assert threads._pool is not None
        assert (x[0], x[1:].tolist()) == (7, [1] * 999)
    finally:
        threads.set_num_threads(before)


def test_a_loop_goes_on_when_its_pool_stops(add: int) -> None:
    before = threads.get_num_threads()
    n, count = 2048, 400
    step = Step(add, [(0, 0), (0, 0), (-1, 0)], (-1, n), 16, increments=[(0, 0)] * 2 + [(1, 0)])
    table = build_table([Loop((-1, count), (step,))])
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            for threads_now in (2, 3):
                threads.set_num_threads(threads_now)

    changer = threading.Thread(target=change)
    changer.start()
    try:
        for _ in range(60):
            x = np.zeros(n, dtype=np.int64)
            assert table.run_slots(0, 2, x.ctypes.data) == 0
            assert (x == count * (count - 1) // 2).all()
    finally:
        stop.set()
        changer.join()
        threads.set_num_threads(before)


def test_one_table_loops_in_many_threads_at_once(add: int, four_threads) -> None:
    step = Step(add, [(0, 0), (0, 0), (-1, 1)], (1, 0), 100, increments=[(0, 0)] * 2 + [(0, 2)])
    table = build_table([Loop((2, 0), (step, step))])
    failures: list[str] = []

    def work(seed: int) -> None:
        generator = random.Random(seed)
        for _ in range(50):
            n, count = generator.randrange(1, 300), generator.randrange(3000)
            x = np.zeros(n, dtype=np.int64)
            code = table.run_slots(0, 3, x.ctypes.data, n, count)
            if code != 0 or not (x == 2 * (count + 2 * (count // 2))).all():
                failures.append(f"seed {seed}, n {n}, count {count}")

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not failures


def others_run_during(call: Callable[[], int]) -> bool:
    """Does another Python thread get to run in the middle of a call?"""
    moments = moments_during(call)
    longest = max(after - before for before, after in itertools.pairwise(moments))
    return longest < (moments[-1] - moments[0]) / 2


@pytest.mark.parametrize(
    ("count", "extent", "grain", "flags", "released"),
    [
        (2000, 1, SERIAL, 0, True),
        (513, 1, SERIAL, 0, True),  # of two steps
        (400, 10, 2000, 0, True),
        (100, 1, SERIAL, RELEASE_GIL, True),
        (400, 10, 8000, 0, False),
    ],
    ids=["many iterations", "just over 1024 calls", "long together", "asked to", "short"],
)
def test_the_gil_is_released_in_long_loops(
    count: int, extent: int, grain: int, flags: int, released: bool
) -> None:
    x = np.zeros(extent, dtype=np.int64)
    turns = 20_000_000 // (count * extent)
    step = Step(kernel(SLOW), [(0, 0), (-1, turns)], (-1, extent), grain)
    table = build_table([Loop((1, 0), (step, Step(1, [], (-1, 0))), flags)])
    slots = (x.ctypes.data, count)
    # More than once: on a busy machine either thread may have to wait for a CPU.
    assert any(
        others_run_during(lambda: table.run_slots(0, 3, *slots)) == released for _ in "12345"
    )


def test_symbolic_sizes_stay_symbolic_in_loops(add: int) -> None:
    sizes = Extents()
    n = sizes.symbol(6)

    def words(n: int) -> list[int]:
        step = Step(add, [(0, n), (0, 0), (-1, n)], (-1, n), 2 * n, increments=[(n * 8, -n)] * 3)
        return table_words([step, Loop((-1, n - 1), (step, step)), step])

    with sizes.deciding() as decisions:
        symbolic = words(n)
    assert decisions == []
    assert [hint(word) for word in symbolic] == words(6)
    assert sum(type(word) is type(n) for word in symbolic) == 1 + 4 * (2 + 2) + 2 * 6
