"""PTX becomes machine code for three generations of GPUs, without spills. Needs an assembler, but no GPU."""

from __future__ import annotations

import cuda_programs as programs
import graph_tools as tools
import pytest
from ptx_text import assert_sound
from test_cuda_ops import OPS, OTHERS, graph_of

from tracejit import dtypes
from tracejit.codegen.cuda import cubin as cuda_cubin
from tracejit.codegen.cuda.cubin import AssemblerError, assemble, assembler
from tracejit.codegen.cuda.ptx import ptx
from tracejit.ops.table import Op
from tracejit.testing import samples

ARCHITECTURES = ("sm_75", "sm_80", "sm_90")
FILL = """
def fill(out: "f32*", n: "i64") -> "i32":
    threads(128)
    for i in range(block() * 128 + thread(), n, blocks() * 128):
        out[i] = float32(1.5)
    return 0
"""
needs_assembler = pytest.mark.skipif(
    assembler() is None,
    reason="no assembler of GPU code: pip install nvidia-nvjitlink, or put ptxas on the search path",
)


@needs_assembler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_cubin_is_an_elf_file_for_its_architecture(architecture: str) -> None:
    code = assemble(ptx(FILL, "fill", architecture), architecture)
    assert code[:4] == b"\x7fELF"
    assert int.from_bytes(code[18:20], "little") == 190  # EM_CUDA
    assert b"fill" in code


@needs_assembler
def test_blocks_are_run_together_only_as_far_as_registers_go() -> None:
    """Eight blocks leave 32 registers of a thread; what takes more is asked for less, and not spilled."""
    terms = " + ".join(f"part[{i}] * part[{(i * 7 + 3) % 40}]" for i in range(40))
    source = f"""
def many(out: "f32*", x: "f32*", n: "i64") -> "i32":
    threads(256, 8)
    part = local_f32(40)
    for k in range(40):
        part[k] = x[n * k + thread()]
    barrier()
    out[thread()] = {terms}
    return 0
"""
    text = ptx(source, "many", "sm_90")
    assert ".minnctapersm 8" in text
    taken = cuda_cubin.resources(text, "sm_90")
    assert taken.spilled_bytes == 0
    assert taken.registers > 32


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_kernel_may_have_very_many_parameters(architecture: str) -> None:
    """4,352 bytes are the most before PTX 8.1."""

    def text(count: int) -> str:
        names = [f"x{i}" for i in range(count)]
        listed = ", ".join(f'{name}: "f64"' for name in names)
        lines = "\n".join(f"    total = total + {name}" for name in names)
        source = f"""
def many(out: "f64*", {listed}) -> "i32":
    threads(128)
    total = float64(0)
{lines}
    out[thread()] = total
    return 0
"""
        return ptx(source, "many", architecture)

    few, many = text(543), text(544)
    assert ".version 8.1" not in few
    assert ".version 8.1" in many
    if assembler() is not None:
        assemble(few, architecture)
        assemble(many, architecture)


@pytest.mark.thorough
@pytest.mark.slow
@needs_assembler
@pytest.mark.parametrize("name", [*programs.PROGRAMS, *programs.OPTIMIZERS])
def test_kernels_of_programs_assemble_without_spills(name: str) -> None:
    graphs = programs.graphs(name) if name in programs.PROGRAMS else (programs.update_graph(name),)
    for graph in graphs:
        for source, launch in tools.launches(
            tools.prepare(graph, programs.inputs_of(graph))
        ).items():
            for architecture in ARCHITECTURES:
                text = tools.ptx_of(source, launch.name, architecture)
                assert_sound(text, source)
                found = tools.takes(text, architecture)
                assert found.stack_bytes == found.spilled_bytes == 0, (launch.name, found)
                assert found.registers <= 255


@pytest.mark.thorough
@pytest.mark.slow
@needs_assembler
@pytest.mark.parametrize("op", [*OPS, *OTHERS], ids=lambda op: op.name)
def test_kernels_of_ops_assemble_without_spills(op: Op) -> None:
    """Every op in single and in half precision, as a kernel or read by one, four elements at a time where it can be."""
    cases = [
        case
        for dtype in (dtypes.float32, dtypes.float16)
        for case in samples.cases(op, dtype)
        if case.label.startswith(("((37,)", "sample0"))
    ]
    graph, arrays = graph_of(cases, doubled=op in OTHERS)
    assert tools.kernels_of(tools.prepare(graph, arrays))
    for source, launch in tools.launches(tools.prepare(graph, arrays)).items():
        for architecture in ARCHITECTURES:
            found = tools.takes(tools.ptx_of(source, launch.name, architecture), architecture)
            assert found.stack_bytes == found.spilled_bytes == 0, (launch.name, found)


@needs_assembler
def test_what_an_assembler_refuses_is_said_in_its_words() -> None:
    text = ptx(FILL, "fill", "sm_90")
    with pytest.raises(AssemblerError, match="addx"):
        assemble(text.replace("add.s64", "addx.s64"), "sm_90")
    with pytest.raises(AssemblerError, match="sm_12"):
        assemble(text, "sm_12")


def test_without_an_assembler_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cuda_cubin, "assembler", lambda: None)
    with pytest.raises(AssemblerError, match="pip install nvidia-nvjitlink"):
        assemble("", "sm_90")
