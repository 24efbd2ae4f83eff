"""The simulator itself: kernels written by hand, right ones and ones with every fault it exists to catch."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import simulator
from simulator_memory import COMMON, Memory, SimulatorError

Array = Any


def kernel(parameters: str, body: str, threads: int = 64) -> str:
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    return f'def k({parameters}) -> "i32":\n    threads({threads})\n{lines}\n    return 0\n'


def run(
    source: str, *arguments: Any, grid: int = 1, threads: int = 64, order: Any = simulator.forward
) -> None:
    simulator.launch(source, "k", grid, threads, arguments, order)


def floats(count: int, written: bool = True) -> Memory:
    return Memory(np.arange(count, dtype=np.float32), written=written)


REVERSE = kernel(
    'x: "f32*", out: "f32*"',
    """
tile = shared_f32(64)
tile[thread()] = x[block() * 64 + thread()]
barrier()
out[block() * 64 + thread()] = tile[63 - thread()]
""",
)
SUM = kernel(
    'x: "f32*", out: "f32*"',
    """
total = x[thread()]
for step in range(5):
    total += shuffle_xor(total, 16 >> step)
if thread() & 31 == 0:
    out[thread() >> 5] = total
""",
)


@pytest.mark.parametrize("order", [simulator.forward, simulator.backward, simulator.shuffled(3)])
def test_barriers_and_shared_memory(order: simulator.Order) -> None:
    x, out = floats(192), floats(192, written=False)
    run(REVERSE, x, out, grid=3, order=order)
    assert out.array.tolist() == x.array.reshape(3, 64)[:, ::-1].ravel().tolist()


def test_shuffles_reach_every_lane() -> None:
    out = floats(2, written=False)
    run(SUM, floats(64), out)
    assert out.array.tolist() == [sum(range(32)), sum(range(32, 64))]


def test_scalars_are_those_of_the_kernel_language() -> None:
    source = kernel(
        'x: "f32*", out: "f32*", n: "i32*"',
        "out[thread()] = exp_f32(x[thread()])\nn[thread()] = int32(x[thread()])",
    )
    x = Memory(np.linspace(-5, 3e10, 64).astype(np.float32))
    out, n = floats(64, written=False), Memory(np.zeros(64, np.int32), written=False)
    run(source, x, out, n)
    from tracejit.scalar_math.library import evaluate

    assert out.array.tobytes() == evaluate("exp_f32", x.array).tobytes()
    assert n.array[-1] == -(2**31)


def test_pointers_into_the_middle_of_memory() -> None:
    source = kernel('x: "f32*", out: "f32*"', "out[thread()] = x[thread() - 3]")
    out = floats(64, written=False)
    run(source, floats(70).at(3), out)
    assert out.array.tolist() == list(range(64))


MEET = kernel('x: "f32*", out: "f32*"', "barrier()\nout[thread()] = x[thread()]")
FAULTS = {
    "missing barrier": (
        REVERSE.replace("    barrier()\n", ""),
        "race: shared element|read before it is written",
    ),
    "missing second barrier": (
        REVERSE.replace("    out[", "    tile[thread()] = tile[63 - thread()]\n    out["),
        "race: shared element",
    ),
    "barrier in a branch": (
        MEET.replace("    barrier()\n", "    if thread() < 32:\n        barrier()\n"),
        "warps of block 0 part",
    ),
    "barrier for half a warp": (
        MEET.replace("    barrier()\n", "    if thread() < 16:\n        barrier()\n"),
        "threads of a warp part",
    ),
    "different barriers": (
        MEET.replace(
            "    barrier()\n",
            "    if thread() < 32:\n        barrier()\n    else:\n        barrier()\n",
        ),
        "warps of block 0 part",
    ),
    "exit before a barrier": (
        MEET.replace("    barrier()\n", "    if thread() == 5:\n        return 0\n    barrier()\n"),
        "threads of a warp part",
    ),
    "load out of bounds": (
        REVERSE.replace("x[block() * 64", "x[1 + block() * 64"),
        "element 64 is out of bounds",
    ),
    "negative index": (
        REVERSE.replace("x[block() * 64", "x[block() * 64 - 1"),
        "element -1 is out of bounds",
    ),
    "store out of bounds": (
        REVERSE.replace("out[block() * 64", "out[1 + block() * 64"),
        "element 64 is out of bounds",
    ),
    "shared memory out of bounds": (
        REVERSE.replace("tile[63 -", "tile[64 -"),
        "shared element 64 is out of bounds",
    ),
    "unwritten shared memory": (
        REVERSE.replace("shared_f32(64)", "shared_f32(65)").replace("tile[63 -", "tile[64 -"),
        "shared element 64 is read before it is written",
    ),
    "one element for all": (
        REVERSE.replace("out[block() * 64 + thread()]", "out[0]"),
        "element 0 is written by two threads",
    ),
    "read of another thread's result": (
        REVERSE.replace("out[block() * 64 + thread()] =", "out[thread()] = out[63 - thread()] +"),
        "read before it is written|while another thread",
    ),
    "wrong type": (
        REVERSE.replace("= tile[63", "= float64(1) * tile[63"),
        "float64 is stored in memory of float32",
    ),
    "wrong block size": (
        REVERSE.replace("threads(64)", "threads(128)"),
        "needs blocks of 128 threads, not 64",
    ),
    "shuffle in half a warp": (
        SUM.replace(
            "    for step",
            "    if thread() < 16:\n        total += shuffle_xor(total, 1)\n    for step",
        ),
        "threads of a warp part",
    ),
    "unwritten array of a thread": (
        kernel('x: "f32*", out: "f32*"', "part = local_f32(4)\nout[thread()] = part[1]"),
        "thread's array is read before it is written",
    ),
    "array of a thread out of bounds": (
        kernel('x: "f32*", out: "f32*"', "part = local_f32(4)\npart[4] = x[thread()]"),
        "element 4 of a thread's array is out of bounds",
    ),
    "misaligned load": (
        kernel('x: "f32*", out: "f32*"', "part = local_f32(4)\nload4(x, 2, part, 0)"),
        "misaligned vector access at element 2",
    ),
    "misaligned store": (
        kernel(
            'x: "f32*", out: "f32*"',
            "part = local_f32(4)\nload4(x, 0, part, 0)\nstore4(out, 1, part, 0)",
        ),
        "misaligned vector access at element 1",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_caught(fault: str) -> None:
    source, message = FAULTS[fault]
    with pytest.raises(SimulatorError, match=message):
        run(source, floats(64), floats(64, written=False))


def test_an_address_that_is_off_is_misaligned() -> None:
    source = kernel(
        'x: "f32*", out: "f32*"',
        "part = local_f32(4)\nload4(x, thread() * 4, part, 0)\nout[thread()] = part[3]",
    )
    out = floats(64, written=False)
    run(source, floats(256), out)
    assert out.array.tolist() == list(range(3, 256, 4))
    with pytest.raises(SimulatorError, match="misaligned"):
        run(source, Memory(np.zeros(256, np.float32), misaligned=4), floats(64, written=False))


def test_a_race_shows_under_another_order_of_warps() -> None:
    """Also without the check of who touched what: the result depends on the order."""
    source = REVERSE.replace("    barrier()\n", "").replace("tile = shared_f32(64)", "")
    source = source.replace("tile[", "scratch[").replace(
        'out: "f32*"', 'out: "f32*", scratch: "f32*"'
    )
    results = []
    for order in (simulator.forward, simulator.backward):
        scratch = Memory(np.zeros(64, np.float32), kind=COMMON)
        scratch.writer = scratch.reader = _Unwatched(64)
        out = floats(64, written=False)
        run(source, floats(64), out, scratch, order=order)
        results.append(out.array.tolist())
    assert results[0] != results[1]


class _Unwatched(np.ndarray):
    """Forgets who touched what."""

    def __new__(cls, count: int) -> _Unwatched:
        return np.full(count, -1).view(cls)

    def __setitem__(self, index: Any, value: Any) -> None:
        pass


def test_common_words_may_be_set_by_all() -> None:
    source = kernel('status: "i32*"', "status[0] = int32(1)")
    status = Memory(np.zeros(1, np.int32), kind=COMMON)
    run(source, status)
    assert status.array.tolist() == [1]
    with pytest.raises(SimulatorError, match="written by two threads"):
        run(source, Memory(np.zeros(1, np.int32)))


def test_lines_are_named() -> None:
    source = MEET.replace("    barrier()\n", "    if thread() < 32:\n        barrier()\n")
    line = 1 + source.splitlines().index("        barrier()")
    with pytest.raises(SimulatorError, match=re.escape(f"barrier in line {line}")):
        run(source, floats(64), floats(64, written=False))
