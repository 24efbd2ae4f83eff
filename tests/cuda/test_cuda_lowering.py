"""Device kernel text to PTX: what the language refuses, how often it is the same, what the text becomes."""

from __future__ import annotations

import threading

import pytest
from ptx_text import opcodes
from test_simulator import REVERSE, SUM, kernel

from tracejit.codegen import llvm
from tracejit.codegen.cuda.lower import cuda_llvm_ir
from tracejit.codegen.cuda.ptx import ARCHITECTURES, UnsupportedArchitectureError, ptx
from tracejit.codegen.lower.types import LoweringError

REFUSED = {
    "no block size": (REVERSE.replace("    threads(64)\n", ""), "how many threads a block has"),
    "odd block size": (REVERSE.replace("threads(64)", "threads(48)"), "multiple of 32"),
    "huge block": (REVERSE.replace("threads(64)", "threads(2048)"), "at most 1024"),
    "size of an array": (REVERSE.replace("shared_f32(64)", "shared_f32(block())"), "is a literal"),
    "array twice": (
        REVERSE.replace("    barrier()", "    tile = shared_f32(8)\n    barrier()"),
        "assigned once",
    ),
    "bool array": (REVERSE.replace("shared_f32", "shared_b1"), "shared_b1"),
    "arguments of a barrier": (REVERSE.replace("barrier()", "barrier(1)"), "barrier takes"),
    "shuffle of a pointer": (
        SUM.replace("shuffle_xor(total,", "shuffle_xor(x,"),
        "shuffle_xor takes",
    ),
    "result of a barrier": (REVERSE.replace("barrier()", "y = barrier()"), "barrier"),
    "types of a vector": (
        kernel('x: "f32*"', "part = local_f64(4)\nload4(x, 0, part, 0)"),
        "load4 takes",
    ),
    "unknown name": (REVERSE.replace("barrier()", "fence()"), "not part of the kernel language"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_text_outside_the_language_is_refused(case: str) -> None:
    source, message = REFUSED[case]
    with pytest.raises(LoweringError, match=message):
        ptx(source, "k")


def test_unknown_architectures_are_refused() -> None:
    for name in ("sm_70", "sm_9000", "gfx90a", ""):
        with pytest.raises(UnsupportedArchitectureError, match="sm_75"):
            ptx(REVERSE, "k", name)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_gets_the_oldest_version_that_knows_it(architecture: str) -> None:
    text = ptx(REVERSE, "k", architecture)
    version = ARCHITECTURES[architecture]
    assert text.startswith(f".version {version // 10}.{version % 10}\n.target {architecture}\n")
    assert text.count(".entry") == 1
    assert ".reqntid 64" in text


def test_equal_text_gives_equal_ptx_from_any_thread() -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(ptx(SUM, "k"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1


def test_host_code_does_not_change() -> None:
    """Registering another target must not be seen by kernels of the host."""
    source = (
        'def k(x: "f32*", lo: "i64", hi: "i64", worker: "i64") -> "i32":\n'
        "    for i in range(lo, hi):\n        x[i] = exp_f32(x[i])\n    return 0\n"
    )
    before = llvm.assembly(source, "k")
    ptx(REVERSE, "k")
    assert llvm.assembly(source, "k") == before


def test_sums_keep_the_order_of_the_text() -> None:
    assert "reassoc" not in cuda_llvm_ir(SUM, "k")


def test_arithmetic_is_not_fused() -> None:
    source = kernel(
        'x: "f32*", y: "f64*"',
        """
i = thread()
x[i] = x[i] * x[i] + x[i]
y[i] = y[i] * y[i] - y[i]
""",
    )
    for architecture in ARCHITECTURES:
        found = opcodes(ptx(source, "k", architecture))
        assert not [o for o in found if o.startswith(("fma", "mad"))]
        assert {"mul.rn.f32", "add.rn.f32", "mul.rn.f64", "sub.rn.f64"} <= set(found)


def test_divisions_and_roots_are_correctly_rounded() -> None:
    source = kernel(
        'x: "f32*", y: "f64*"',
        """
i = thread()
x[i] = sqrt_f32(x[i]) / x[i + 64]
y[i] = sqrt_f64(y[i]) / y[i + 64]
""",
    )
    for architecture in ARCHITECTURES:
        found = set(opcodes(ptx(source, "k", architecture)))
        assert {"sqrt.rn.f32", "div.rn.f32", "sqrt.rn.f64", "div.rn.f64"} <= found


def test_maxima_of_a_reduction_keep_nan() -> None:
    source = kernel(
        'x: "f32*", out: "f32*"',
        """
m = x[thread()]
for step in range(5):
    m = maximum_f32(m, shuffle_xor(m, 16 >> step))
out[thread()] = m
""",
    )
    assert "max.NaN.f32" in opcodes(ptx(source, "k", "sm_80"))
    assert "max.NaN.f32" not in opcodes(ptx(source, "k", "sm_75"))
