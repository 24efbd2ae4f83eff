"""Quick code generation: what rounds carry stays in registers, and other users of LLVM see no change."""

from __future__ import annotations

import re

import pytest

from kernel_tools import kernel
from process_tools import printed
from tracejit.codegen import llvm, quick
from tracejit.codegen.llvm_threads import compiler

pytestmark = pytest.mark.skipif(
    llvm._widening() < 512, reason="all code is careful where the CPU has no AVX-512"
)

SUMS = kernel(
    'n: "i64", x: "f32*", out: "f32*"',
    """
for row in range(lo, hi):
    acc = float32(0)
    for i in range(n):
        acc += x[row * n + i]
    out[row] = acc
return 0""",
)


def assembly_by_both(source: str) -> tuple[str, str]:
    """Quick code of a kernel, by a machine of level 0, and before options of the process may be set."""
    found = []
    lowered = llvm._lower(source, "k", True, llvm._widening())
    before = quick._options.allowed
    for allowed in (True, False):
        quick._options.allowed = allowed
        try:
            with compiler() as made:
                module = llvm._optimized(lowered.widened, lowered.text, made)
                machine = quick.quick_machine(made, module)
                assert machine is (made.at_level(0) if allowed else made.machine)
                found.append(str(machine.emit_assembly(module)))
        finally:
            quick._options.allowed = before
    return found[0], found[1]


def inner_loops(assembly: str) -> list[list[str]]:
    """The vector instructions of blocks that jump back to themselves."""
    found, label, block = [], "", []
    for line in assembly.splitlines():
        started = re.match(r"(\.LBB\w+):", line)
        if started:
            label, block = started[1], []
        elif re.match(r"\tj[a-z]+\t" + re.escape(label) + "$", line) and label:
            found.append([x for x in block if x.startswith("\tv")])
        else:
            block.append(line)
    return found


def test_what_rounds_carry_stays_in_registers() -> None:
    by_level, by_mark = assembly_by_both(SUMS)
    loops = [loop for loop in inner_loops(by_level) if any("vaddps" in line for line in loop)]
    assert loops
    assert not [line for loop in loops for line in loop if "%rsp" in line or "%rbp" in line]
    marked = [loop for loop in inner_loops(by_mark) if any("vaddps" in line for line in loop)]
    assert loops == marked  # the same instructions, sooner


def test_vectors_of_narrow_numbers_are_left_to_careful_code() -> None:
    with compiler() as made:
        module = made.parse(
            "define <4 x i16> @f(<4 x i16> %x) {\n"
            "  %y = shufflevector <4 x i16> %x, <4 x i16> poison, <4 x i32> <i32 3, i32 2, i32 1, i32 0>\n"
            "  ret <4 x i16> %y\n}"
        )
        assert quick.quick_machine(made, module) is None


def test_machines_of_other_levels_make_the_code_they_made() -> None:
    """In a process of its own: before and after the option of the process is set."""
    script = f"""
from tracejit.codegen import llvm, quick
quick._options.allowed = False
source = {SUMS!r}
before = llvm.assembly(source, "k", thorough=True)
quick.allow_options()
assert quick._registers_at_all_levels() and quick._options.set
assert llvm.assembly(source, "k", thorough=True) == before
assert llvm.assembly(source, "k") != before
print("alike")
"""
    assert printed(script) == "alike\n"
