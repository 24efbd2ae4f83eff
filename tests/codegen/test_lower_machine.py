"""What comes out of the kernel language: vector code, stand-alone objects, no licence beyond the one asked for."""

from __future__ import annotations

import platform
import re
import struct
import sys
import threading

import llvmlite.binding as binding
import numpy as np
import pytest

from kernel_tools import ADD, DOT, GATHER, MAXIMUM, SOFTMAX, compiled, kernel, rng
from process_tools import python
from tracejit.codegen import llvm as codegen
from tracejit.codegen.lower import lower as lowering
from tracejit.codegen.lower.halves import half_functions
from tracejit.codegen.lower.lower import lower
from tracejit.codegen.lower.module import Library

x86 = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="reads x86 assembly")


def test_only_accumulations_may_be_reassociated() -> None:
    text = lower(DOT, "k")
    flagged = [
        line for line in text.splitlines() if re.search(r"\b(reassoc|fast|nnan|ninf|nsz)\b", line)
    ]
    assert len(flagged) == 1
    assert "fadd reassoc float" in flagged[0]
    assert "contract" not in text
    softmax = codegen.llvm_ir(SOFTMAX, "k")
    assert not re.search(r"\b(ninf|contract|arcp|afn|fast)\b", softmax)
    # a running maximum keeps either of two equal zeros, as its order is free
    signless = [line for line in softmax.splitlines() if re.search(r"\bnsz\b", line)]
    assert signless
    assert all(re.search("maximum|maxnum|= phi nsz", line) for line in signless)
    # lanes are folded as if none were NaN, and the result is taken only if none is
    numbers = [line for line in softmax.splitlines() if re.search(r"\bnnan\b", line)]
    assert all("maxnum" in line for line in numbers)
    assert bool(numbers) == ("fcmp uno" in softmax)


@x86
@pytest.mark.skipif("+avx2" not in codegen.target_description(), reason="expects wide vectors")
@pytest.mark.parametrize(
    "source", [ADD, SOFTMAX, DOT, MAXIMUM], ids=["add", "softmax", "dot", "max"]
)
@pytest.mark.parametrize("thorough", [False, True])
def test_loops_become_vector_code(source: str, thorough: bool) -> None:
    text = codegen.assembly(source, "k", thorough=thorough)
    wide = "zmm" if codegen.vector_bits() == 512 else "ymm"
    arithmetic = [line for line in text.splitlines() if re.search(r"v(add|max|mul)ps", line)]
    assert any(wide in line for line in arithmetic)


def interleaved(body: str) -> list[int]:
    text = lower(kernel('x: "f32*", out: "f32*"', body), "k")
    return [int(n) for n in re.findall(r'interleave.count", i32 (\d+)', text)]


def test_iterations_that_evaluate_polynomials_are_interleaved_more() -> None:
    loop = "for i in range(lo, hi):\n    out[i] = {}\nreturn 0"
    assert interleaved(loop.format("x[i] * x[i]")) == [2]
    assert interleaved(loop.format("exp_f32(x[i])")) == [4]
    long = "x[i]" + " * x[i]" * 200
    assert interleaved(loop.format(long)) == [1]
    assert interleaved(loop.format(f"exp_f32({long})")) == [2]
    rows = "for r in range(lo, hi):\n    s = float32(0)\n    for i in range(r):\n        {}\n    out[r] = s\nreturn 0"
    assert interleaved(rows.format("s += exp_f32(x[i])")) == [4]
    assert interleaved(rows.format("s += x[i]")) == [4]
    assert interleaved(rows.format(f"s += exp_f32({long})")) == [2]
    assert interleaved(rows.format("out[i] = exp_f32(x[i])")) == [1]


@pytest.mark.parametrize("name", ["erf", "tanh", "expm1"])
def test_powers_of_two_made_of_bits_need_no_rounding(name: str) -> None:
    body = f"for i in range(lo, hi):\n    out[i] = {name}_f32(x[i])\nreturn 0"
    assert "llvm.rint" not in lower(kernel('x: "f32*", out: "f32*"', body), "k")


def test_short_kernels_of_elementary_functions_get_thorough_code_generation() -> None:
    heads = 'x: "f32*", out: "f32*"'
    exp = kernel(heads, "for i in range(lo, hi):\n    out[i] = exp_f32(x[i])\nreturn 0")
    kernels = [(exp, True), (SOFTMAX, True)]
    if binding.llvm_version_info[0] >= 22:  # LLVM 20 generates the same code for some either way
        kernels += [(source, codegen._widening() != 512) for source in (ADD, MAXIMUM)]
    for source, same in kernels:
        quick = codegen.assembly(source, "k")
        assert (quick == codegen.assembly(source, "k", thorough=True)) is same


@x86
@pytest.mark.parametrize("thorough", [False, True])
def test_products_and_sums_are_fused_only_where_the_text_says_so(thorough: bool) -> None:
    heads = 'x: "f32*", y: "f32*", out: "f32*"'
    loop = "for i in range(lo, hi):\n    out[i] = {}\nreturn 0"
    separate = kernel(heads, loop.format("x[i] * y[i] + out[i]"))
    for source in (separate, DOT):
        assert "vfm" not in codegen.assembly(source, "k", thorough=thorough)
    fused = kernel(heads, loop.format("fma_f32(x[i], y[i], out[i])"))
    host_fuses = "+fma" in codegen.target_description()
    assert ("vfmadd" in codegen.assembly(fused, "k", thorough=thorough)) is host_fuses


@x86
@pytest.mark.skipif("+avx2" not in codegen.target_description(), reason="expects wide vectors")
def test_many_pointers_do_not_stop_vectorisation() -> None:
    names = [f"p{i}" for i in range(11)]
    outs = [f"q{i}" for i in range(6)]
    heads = ", ".join(f'{name}: "f32*"' for name in names + outs)
    total = " + ".join(f"{name}[i]" for name in names)
    body = "\n".join(
        f"    {out}[i] = s * {name}[i]" for out, name in zip(outs, names, strict=False)
    )
    source = kernel(heads, f"for i in range(lo, hi):\n    s = {total}\n{body}\nreturn 0")
    wide = "zmm" if codegen.vector_bits() == 512 else "ymm"
    assert wide in codegen.assembly(source, "k")
    assert "noalias" in lower(source, "k")
    assert "noalias" not in lower(source, "k", noalias=False)
    arrays = [rng(i).standard_normal(100).astype("f4") for i in range(11)]
    results = [np.zeros(100, "f4") for _ in outs]
    assert compiled(source)(*arrays, *results, 0, 100, 0) == 0
    s = arrays[0]
    for array in arrays[1:]:
        s = s + array
    for array, result in zip(arrays, results, strict=False):
        assert np.array_equal(result, s * array)


def test_running_maximum_keeps_nan_and_infinities() -> None:
    x = rng().standard_normal((4, 1000)).astype("f4")
    x[1, 999], x[2, 5], x[3] = np.nan, np.inf, -np.inf
    out = np.zeros(4, "f4")
    compiled(MAXIMUM)(x, out, 1000, 0, 4, 0)
    assert np.array_equal(out, x.max(1), equal_nan=True)


def test_sums_are_close_to_exact_and_empty_sums_are_zero() -> None:
    x, y = rng().standard_normal((2, 3, 5000)).astype("f4")
    out = np.full(3, np.nan, "f4")
    run = compiled(DOT)
    run(x, y, out, 5000, 0, 3, 0)
    exact = (x.astype("f8") * y).sum(1)
    np.testing.assert_allclose(out, exact, atol=5000 * 6e-8 * 4)
    run(x, y, out, 0, 0, 3, 0)
    assert out.tolist() == [0.0, 0.0, 0.0]


def undefined_symbols(code: bytes) -> set[str]:
    """Names of the undefined symbols of a 64-bit little-endian ELF object."""
    (table_at,) = struct.unpack_from("<Q", code, 0x28)
    size, count = struct.unpack_from("<HH", code, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, table_at + size * k) for k in range(count)]
    found = set()
    for section in (s for s in sections if s[1] == 2):
        names_at = sections[section[6]][4]
        for at in range(section[4] + 24, section[4] + section[5], 24):
            name, _, _, index = struct.unpack_from("<IBBH", code, at)
            if index == 0:
                start = names_at + name
                found.add(code[start : code.index(b"\0", start)].decode())
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF objects")
def test_objects_stand_alone() -> None:
    copy = kernel('x: "f32*", out: "f32*"', "for i in range(lo, hi):\n    out[i] = x[i]\nreturn 0")
    every = kernel(
        'x: "f64*", out: "f64*"',
        "for i in range(lo, hi):\n    out[i] = sin_f64(x[i]) + pow_f64(x[i], erf_f64(x[i]))\nreturn 0",
    )
    allowed = {"memset", "memcpy", "memmove", "_GLOBAL_OFFSET_TABLE_"}
    for source in (ADD, SOFTMAX, DOT, GATHER, copy, every):
        assert undefined_symbols(codegen.compile_source(source, "k")) <= allowed
    rest = kernel(
        'x: "f64*", out: "f64*"',
        "for i in range(lo, hi):\n    out[i] = fmod_f64(x[i], float64(0.75))\nreturn 0",
    )
    assert undefined_symbols(codegen.compile_source(rest, "k")) <= {"fmod", *allowed}
    x, out = np.linspace(-9, 9, 37), np.zeros(37)
    compiled(rest)(x, out, 0, 37, 0)
    assert np.array_equal(out, np.fmod(x, 0.75))


def test_compilations_are_counted_and_threads_may_compile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class OfTheseThreads(codegen.Compilations):
        """The thread behind the program may be at work for other tests."""

        def add(self) -> None:
            if threading.current_thread() in threads:
                super().add()

    monkeypatch.setattr(codegen, "COMPILATIONS", OfTheseThreads())
    results: list[int] = []

    def work(seed: int) -> None:
        x, y = rng(seed).standard_normal((2, 64)).astype("f4")
        out = np.zeros(64, "f4")
        compiled(ADD)(x, y, out, 0, 64, 0)
        results.append(int(np.array_equal(out, x + y)))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [1] * 6
    assert codegen.COMPILATIONS.count == 6


def test_the_same_text_gives_the_same_object() -> None:
    assert codegen.compile_source(SOFTMAX, "k") == codegen.compile_source(SOFTMAX, "k")
    assert codegen.target_description() == codegen.target_description()


def test_sources_are_known_to_tracebacks() -> None:
    run = codegen.as_python(ADD, "k")
    with pytest.raises(IndexError) as caught:
        run(np.zeros(1, "f4"), np.zeros(1, "f4"), np.zeros(1, "f4"), 0, 2, 0)
    lines = [str(entry.statement).strip() for entry in caught.traceback]
    assert "out[i] = x[i] + y[i]" in lines


def test_importing_the_compiler_does_not_load_llvm_or_numba() -> None:
    script = (
        "import sys; import tracejit.codegen.llvm; "
        "sys.exit(any(m in sys.modules for m in ('llvmlite.binding', 'numba', 'scipy')))"
    )
    assert python("-c", script).returncode == 0


@pytest.mark.parametrize("capable", [True, False])
def test_halves_with_and_without_instructions(
    capable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = half_functions() if capable else {}
    if capable and not known:
        pytest.skip("this processor does not convert halves")
    monkeypatch.setattr(lowering, "LIBRARY", Library(known=known))
    source = kernel(
        'x: "f32*", h: "u16*", y: "f32*"',
        """
for i in range(lo, hi):
    h[i] = f16_from_f32(x[i])
    y[i] = f32_from_f16(h[i])
return 0
""",
    )
    found = "vcvtps2ph" in codegen.assembly(source, "k")
    assert found == (capable and platform.machine() in ("x86_64", "AMD64"))
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        x = np.concatenate([every, every * np.float32(1 + 2**-11), every * np.float32(1 + 2**-12)])
        wanted = x.astype(np.float16)
    halves, back = np.zeros(x.size, np.uint16), np.zeros_like(x)
    assert compiled(source)(x, halves, back, 0, x.size, 0) == 0
    np.testing.assert_array_equal(halves.view(np.float16), wanted)
    np.testing.assert_array_equal(back, wanted.astype(np.float32))
