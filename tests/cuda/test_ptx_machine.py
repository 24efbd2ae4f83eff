"""The machine that executes PTX: hand-written kernels compiled by LLVM, and the faults it must refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import ptx_instructions
import ptx_machine
import pytest
from ptx_machine import MachineError
from simulator_memory import Memory
from test_simulator import REVERSE, SUM, kernel

from tracejit.codegen.cuda.ptx import ptx

Array = Any


def run(source: str, *arguments: Any, grid: int = 1, threads: int = 64, change: Any = None) -> None:
    text = ptx(source, "k", "sm_80")
    ptx_machine.launch(text if change is None else change(text), grid, threads, *arguments)


def test_barriers_shared_memory_and_shuffles() -> None:
    x, out = np.arange(192, dtype=np.float32), np.zeros(192, np.float32)
    run(REVERSE, x, out, grid=3)
    assert out.tolist() == x.reshape(3, 64)[:, ::-1].ravel().tolist()
    out = np.zeros(2, np.float32)
    run(SUM, np.arange(64, dtype=np.float32), out)
    assert out.tolist() == [sum(range(32)), sum(range(32, 64))]


def test_branches_and_loops_part_and_meet() -> None:
    """Collatz: every thread takes its own way."""
    source = kernel(
        'x: "i64*", out: "i64*"',
        """
n = x[thread()]
count = 0
while n != 1:
    if n & 1 == 0:
        n = n >> 1
    else:
        n = 3 * n + 1
    count = count + 1
out[thread()] = count
""",
    )
    x, out = np.arange(1, 65), np.zeros(64, np.int64)
    run(source, x, out)

    def steps(n: int) -> int:
        return 0 if n == 1 else 1 + steps(n // 2 if n % 2 == 0 else 3 * n + 1)

    assert out.tolist() == [steps(n) for n in range(1, 65)]


def test_memory_is_guarded() -> None:
    x, short = np.zeros(64, np.float32), np.zeros(63, np.float32)
    with pytest.raises(MachineError, match="out of bounds"):
        run(REVERSE, x, short)
    with pytest.raises(MachineError, match="out of bounds"):
        run(REVERSE, Memory(np.zeros(70, np.float32), 7), x)
    source = kernel(
        'x: "f32*", out: "f32*"',
        "part = local_f32(4)\nload4(x, thread() * 4, part, 0)\n"
        "out[thread()] = part[0] + part[1] + part[2] + part[3]",
    )
    with pytest.raises(MachineError, match="misaligned access of 16 bytes"):
        run(source, Memory(np.zeros(260, np.float32), misaligned=4), x)


def test_blocks_have_the_size_the_kernel_asks_for() -> None:
    x = np.zeros(64, np.float32)
    with pytest.raises(MachineError, match="blocks of 64 threads, not 32"):
        run(REVERSE, x, x.copy(), threads=32)


def test_divergent_barriers_and_shuffles_are_refused() -> None:
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    half = "    if thread() < 32:\n        barrier()\n"
    with pytest.raises(MachineError, match="wait at a barrier that others never reach"):
        run(REVERSE.replace("    barrier()\n", half), x, out)
    guarded = "    if thread() < 16:\n        total += shuffle_xor(total, 1)\n    for step"
    with pytest.raises(MachineError, match="not all threads of a warp"):
        run(SUM.replace("    for step", guarded), x, out)


def test_shared_memory_must_be_written_first() -> None:
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    source = REVERSE.replace(
        "tile[thread()] = x[block() * 64 + thread()]",
        "if thread() < 60:\n        tile[thread()] = x[thread()]",
    )
    with pytest.raises(MachineError, match="before it is written"):
        run(source, x, out)


def test_what_has_no_meaning_here_is_refused() -> None:
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    source = kernel(
        'x: "f32*", out: "f32*"',
        "out[thread()] = sqrt_f32(x[thread()]) / (x[thread()] + x[thread()])",
    )
    run(source, x, out)
    assert (out == 0.5).all()
    for precise, loose in (
        ("sqrt.rn", "sqrt.approx"),
        ("div.rn", "div.full"),
        ("add.rn", "add.rn.ftz"),
        ("add.rn", "add"),
    ):
        with pytest.raises(ptx_instructions.UnknownInstructionError):
            run(source, x, out, change=lambda text, a=precise, b=loose: text.replace(a, b))
