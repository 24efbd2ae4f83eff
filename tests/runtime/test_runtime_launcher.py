"""The launcher: arguments, ranges of steps, errors, misuse."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from launch_tools import FAIL, all_ways, kernel
from process_tools import printed
from tracejit.runtime.launcher import Loop, Step, build_table, failure


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
    [
        Step(0, [], (-1, 1)),
        Step(1, [], (-1, 1), grain=0),
        Step(1, [(-2, 0)], (-1, 1)),
        Step(1, [(0, 0), (0, 0)], (-1, 1), increments=[(8, 0)]),
    ],
)
def test_a_senseless_step_is_refused(step: Step) -> None:
    with pytest.raises(ValueError, match="step 0"):
        build_table([step])
    with pytest.raises(ValueError, match="step 2"):
        build_table([Loop((-1, 1), (Step(1, [], (-1, 1)), step))])


def test_a_senseless_loop_is_refused() -> None:
    inner = Loop((-1, 1), ())
    with pytest.raises(ValueError, match="loop 0 has a loop within"):
        build_table([Loop((-1, 1), (inner,))])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="loop 1 refers to a negative slot"):
        build_table([inner, Loop((-2, 1), ())])


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


def test_a_warm_process_compiles_nothing_for_the_launcher(tmp_path: Path) -> None:
    code = """
from tracejit.runtime.native.native import native
from tracejit.runtime.machine_code.store import kernel_store
native()
print(kernel_store().info().hits, kernel_store().info().misses)
"""
    assert printed(code, TRACEJIT_CACHE_DIR=str(tmp_path)) == "0 1\n"
    assert printed(code, TRACEJIT_CACHE_DIR=str(tmp_path)) == "1 0\n"
