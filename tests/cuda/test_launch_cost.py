"""What queueing a program costs the host, against a driver whose launch does nothing."""

from __future__ import annotations

import time

import pytest

from tracejit.codegen.cuda.launch import Aligned, Launch
from tracejit.codegen.kernel import Number
from tracejit.codegen.llvm import object_code
from tracejit.runtime.cuda.launches import launch_steps
from tracejit.runtime.launcher import Table, build_table
from tracejit.runtime.machine_code.loader import load_object

#: Microseconds: what is promised for a program and for each of its kernels, times what a busy machine may add.
PROGRAM, KERNEL, BUSY = 2.0, 0.1, 3.0
_STUB = """
define i32 @empty_launch(ptr %f, i32 %a, i32 %b, i32 %c, i32 %d, i32 %e, i32 %g, i32 %s, ptr %t, ptr %p, ptr %x) {
  ret i32 0
}
"""


def program(kernels: int, forms: int) -> Table:
    """Kernels of six parameters, in one form or in an aligned and another one."""
    address = load_object(object_code(_STUB), "empty_launch")
    parameters = tuple(Number(i) for i in range(6))
    aligned = tuple(Aligned(i, 16) for i in range(3))
    choices = [Launch("k", "", parameters, 4, aligned)] if forms == 2 else []
    choices.append(Launch("k", "", parameters, 4))
    steps = [
        step
        for _ in range(kernels)
        for step in launch_steps(choices, [1] * forms, lambda p: (1, p.bits * 64), (0, 0), address)
    ]
    return build_table(steps)


def microseconds(table: Table) -> float:
    """The best of several timings of one call."""
    run, rows, best = table.run_slots, table.n_steps, float("inf")
    for _ in range(10):
        start = time.process_time()
        for _ in range(500):
            run(0, rows, 7, 4096)
        best = min(best, (time.process_time() - start) / 500)
    return best * 1e6


@pytest.mark.parametrize("forms", [1, 2])
def test_a_program_is_queued_in_one_cheap_call(forms: int) -> None:
    one, many = microseconds(program(1, forms)), microseconds(program(51, forms))
    assert one < BUSY * PROGRAM
    assert (many - one) / 50 < BUSY * KERNEL
