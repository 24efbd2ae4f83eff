"""Quick code generation: what rounds carry stays in registers, and other users of LLVM see no change."""

from __future__ import annotations

import re

import llvmlite.binding as binding
import pytest

from kernel_tools import kernel
from process_tools import printed
from tracejit.codegen import llvm, quick
from tracejit.codegen.llvm_threads import compiler

pytestmark = pytest.mark.skipif(
    not llvm._widening(), reason="all code is careful where LLVM chooses the vectors"
)
stays = pytest.mark.skipif(llvm._widening() < 512, reason="careful code follows without AVX-512")

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


def quick_assembly(source: str, allowed: bool = True) -> str:
    """Quick code of a kernel, by a machine of level 0, or before options of the process may be set."""
    lowered = llvm._lower(source, "k", True, llvm._widening())
    before = quick._options.allowed
    quick._options.allowed = allowed
    try:
        with compiler() as made:
            module = llvm._optimized(lowered.widened, lowered.text, made)
            machine = quick.quick_machine(made, module, llvm._widening())
            assert machine is (made.at_level(0) if allowed else made.machine)
            return str(machine.emit_assembly(module))
    finally:
        quick._options.allowed = before


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


def sums(assembly: str) -> list[list[str]]:
    """The inner loops that add."""
    found = [x for x in inner_loops(assembly) if any("vaddps" in line for line in x)]
    assert found
    return found


def test_what_rounds_carry_stays_in_registers() -> None:
    loops = sums(quick_assembly(SUMS))
    assert not [line for loop in loops for line in loop if "%rsp" in line or "%rbp" in line]


@stays
def test_the_mark_has_the_same_instructions_later() -> None:
    assert sums(quick_assembly(SUMS)) == sums(quick_assembly(SUMS, allowed=False))


@pytest.mark.parametrize("allowed", [False, True])
def test_without_avx512_no_function_is_marked_for_a_machine_of_level_2(
    monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    monkeypatch.setattr(quick._options, "allowed", allowed)
    with compiler() as made:
        module = made.parse("define void @f() { ret void }")
        machine = quick.quick_machine(made, module, 256)
        tried = binding.llvm_version_info[0] == quick._LATEST
        assert (machine is made.at_level(0)) is (allowed and tried)
        assert (machine is None) is not (allowed and tried)
        assert ("optnone" in str(module)) is (machine is not None)


TURNED = """define <4 x i16> @f(<4 x i16> %x) {
  %y = shufflevector <4 x i16> %x, <4 x i16> poison, <4 x i32> <i32 3, i32 2, i32 1, i32 0>
  ret <4 x i16> %y
}"""


@pytest.mark.parametrize("allowed", [False, True])
def test_vectors_of_narrow_numbers_are_left_to_careful_code_but_for_level_0_without_avx512(
    monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    monkeypatch.setattr(quick._options, "allowed", allowed)
    with compiler() as made:
        assert quick.quick_machine(made, made.parse(TURNED), 512) is None
        machine = quick.quick_machine(made, made.parse(TURNED), 256)
        tried = allowed and binding.llvm_version_info[0] == quick._LATEST
        assert (machine is made.at_level(0)) is tried


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
if llvm._widening() == 512:
    assert llvm.assembly(source, "k") != before
print("alike")
"""
    assert printed(script) == "alike\n"
