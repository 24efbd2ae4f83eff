"""Kernels that are there soon, and careful code put in their place: the same bits, in all threads and processes."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import tracejit as tj
from kernel_tools import kernel
from process_tools import printed
from tracejit.codegen import llvm, quick
from tracejit.codegen.replaceable import cell_of, made_replaceable, replace, unpacked
from tracejit.runtime.behind import Worker
from tracejit.runtime.machine_code import kernels
from tracejit.runtime.machine_code.loader import load_object
from tracejit.runtime.machine_code.store import KernelStore

FUNCTIONS = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "tanh",
    "sigmoid",
    "sin",
    "cos",
    "erf",
    "sqrt",
]
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 88.8, -104.0, 3e38, 0.5]
hastens = pytest.mark.skipif(
    not llvm._widening(), reason="all code is careful at once where LLVM chooses the vectors"
)


@pytest.fixture(autouse=True)
def options(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is once the native runtime is there, and outside of tests."""
    monkeypatch.setattr(quick._options, "allowed", True)
    monkeypatch.setattr(tj.config, "improves", True)


def text(function: str, scalar: str = "f32") -> str:
    body = f"for i in range(lo, hi):\n    out[i] = {function}_{scalar}(x[i])\nreturn 0"
    return kernel(f'x: "{scalar}*", out: "{scalar}*"', body)


def function_at(address: int) -> Callable[[np.ndarray, np.ndarray, int], int]:
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, *[ctypes.c_int64] * 3)(address)

    def call(x: np.ndarray, out: np.ndarray, tasks: int) -> int:
        words = np.array([x.ctypes.data, out.ctypes.data], np.int64)
        return int(entry(words.ctypes.data, 0, tasks, 0))

    return call


def same_bits(source: str, x: np.ndarray, out: np.ndarray, tasks: int) -> None:
    """What is there first and careful code give the same, bit by bit."""
    results = []
    first = llvm.prepared(source, "k")()
    for code in ((unpacked(first) or (first,))[0], llvm.compile_source(source, "k")):
        out.fill(7)
        assert function_at(load_object(code, "k"))(x, out, tasks) == 0
        results.append(out.tobytes())
    assert results[0] == results[1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("scalar", ["f32", "f64"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_both_codes_compute_the_same_bits(function: str, scalar: str) -> None:
    dtype = np.float32 if scalar == "f32" else np.float64
    with np.errstate(all="ignore"):
        values = np.concatenate([np.linspace(-20, 20, 1003), SPECIAL]).astype(dtype)
    source = text(function, scalar)
    same_bits(source, values, np.empty_like(values), values.size)


@pytest.mark.parametrize("fold", ["acc + x[row * 77 + i]", "maximum_f64(acc, x[row * 77 + i])"])
def test_both_codes_fold_rows_in_the_same_order(fold: str) -> None:
    body = f"""
for row in range(lo, hi):
    acc = float64(0)
    for i in range(77):
        acc = {fold}
    out[row] = acc
return 0"""
    source = kernel('x: "f64*", out: "f64*"', body)
    values = np.random.default_rng(0).normal(size=(13, 77))
    values[3, 5], values[4, 70] = np.nan, np.inf
    same_bits(source, values, np.empty(13), 13)


@hastens
def test_calls_go_where_the_cell_says() -> None:
    source = text("exp")
    careful = llvm.compile_source(source, "k")
    assert unpacked(careful) is None
    first, module = both(source)
    assert llvm.compile_text(module) == careful
    address, other = load_object(first, "k"), load_object(text_of_ones(), "ones")
    cell = load_object(first, cell_of("k"))
    before = ctypes.c_void_p.from_address(cell).value
    call, x, out = function_at(address), np.zeros(5, np.float32), np.zeros(5, np.float32)
    try:
        replace(cell, other)
        assert call(x, out, x.size) == 7
        replace(cell, load_object(careful, "k"))
        assert call(x, out, x.size) == 0
        assert out.tolist() == [1.0] * 5
    finally:
        replace(cell, before)


def both(source: str) -> tuple[bytes, str]:
    """The object code that is there first, and the module that careful code is made from."""
    found = unpacked(llvm.prepared(source, "k")())
    assert found is not None
    return found


def text_of_ones() -> bytes:
    return llvm.object_code(
        "define i32 @ones(ptr %args, i64 %lo, i64 %hi, i64 %worker) { ret i32 7 }"
    )


@pytest.mark.parametrize(
    ("source", "in_lanes"),
    [
        (
            kernel(
                'x: "f32*", out: "f32*"', "for i in range(lo, hi):\n    out[i] = x[i]\nreturn 0"
            ),
            True,
        ),
        (
            kernel(
                'x: "i64*", out: "f32*"',
                "for i in range(lo, hi):\n    out[x[i]] = exp_f32(out[i])\nreturn 0",
            ),
            False,
        ),
    ],
    ids=["no function", "not vector code"],
)
def test_what_gains_nothing_is_compiled_once(source: str, in_lanes: bool) -> None:
    """With AVX2 alone, careful code of all that is vector code is better."""
    careful = llvm.compile_source(source, "k")
    if in_lanes and llvm._widening() == 256:
        first, module = both(source)
        assert llvm.compile_text(module) == careful != first
    else:
        assert llvm.prepared(source, "k")() == careful


def test_a_module_without_the_function_is_refused() -> None:
    with pytest.raises(ValueError, match="does not define f once"):
        made_replaceable("define i32 @g() { ret i32 0 }", "f")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[KernelStore]:
    """A process that has compiled nothing yet: what other tests left to be done is not waited for."""
    store, behind = KernelStore(None), Worker()
    monkeypatch.setattr(kernels, "kernel_store", lambda: store)
    monkeypatch.setattr(kernels, "_addresses", {})
    monkeypatch.setattr(kernels, "worker", lambda: behind)
    yield store
    behind.stop()


def waited(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


@hastens
def test_careful_code_comes_when_nobody_waits(alone: KernelStore) -> None:
    f = tj.compile(lambda x: (x * 1.25).exp().tanh() + 0.375, strict=True)
    x = tj.linspace(-3.0, 3.0, 1001)
    with tj.no_grad():
        found = [f(x) for _ in range(3)]
        firsts = [key for key in kernels._addresses if kernels._first(key) in alone._memory]
        compiled = kernels.COUNTS.compiled
        assert firsts
        assert waited(lambda: all(key in alone._memory for key in firsts))
        found += [f(x) for _ in range(3)]
    assert kernels.COUNTS.compiled == compiled
    assert all(tj.equal(found[1], y) for y in found[2:])
    assert f.stats.compiled_calls == 5


LONG = {
    "layer norm and softmax": lambda x: tj.softmax(tj.nn.functional.layer_norm(x, (96,)), -1).sum(
        0
    ),
    "logarithms of sums": lambda x: (tj.logsumexp(x, -1), (x - x.mean(0)).square().sum(0).sqrt()),
    "extremes and sums": lambda x: (x.amax(-1), x.sum(-1), x.var(-1), x.prod(-1), x.amin(0)),
    "stencil": lambda x: (x[1:-1, 1:-1] * 4 - x[:-2, 1:-1] - x[2:, 1:-1]).tanh().mean(-1),
}


@hastens
@pytest.mark.parametrize("name", LONG)
def test_long_kernels_begin_with_less(alone: KernelStore, name: str) -> None:
    """LLVM works on them for longest: first quick code of few passes, then careful code with the same bits."""
    f = tj.compile(LONG[name], strict=True)
    x = tj.randn(70, 96, generator=tj.Generator().manual_seed(3))
    with tj.no_grad():
        found = [f(x) for _ in range(3)]
        firsts = [key for key in kernels._addresses if kernels._first(key) in alone._memory]
        assert firsts
        assert waited(lambda: all(key in alone._memory for key in firsts))
        found += [f(x) for _ in range(2)]
    for later in found[2:]:
        pairs = (
            zip(later, found[1], strict=True) if isinstance(later, tuple) else [(later, found[1])]
        )
        assert all(tj.equal(a, b) for a, b in pairs)


@hastens
def test_threads_may_be_inside_while_it_comes() -> None:
    first, module = both(text("tanh"))
    careful = llvm.compile_text(module)
    call, cell = function_at(load_object(first, "k")), load_object(first, cell_of("k"))
    begin = ctypes.c_void_p.from_address(cell).value
    x = np.linspace(-9, 9, 4001, dtype=np.float32)
    expected = np.empty_like(x)
    call(x, expected, x.size)
    wrong: list[int] = []

    def run() -> None:
        out = np.empty_like(x)
        right = (call(x, out, x.size) == 0 and np.array_equal(out, expected) for _ in range(300))
        wrong.append(list(right).count(False))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        replace(cell, load_object(careful, "k"))
        replace(cell, begin)
    assert wrong == [0, 0, 0]


@hastens
def test_where_careful_code_fails_calls_stay_where_they_are(
    alone: KernelStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(llvm, "compile_text", lambda _: 1 / 0)
    f = tj.compile(lambda x: (x * 1.75).exp() + 0.625, strict=True)
    x = tj.linspace(-3.0, 3.0, 101)
    with tj.no_grad():
        y = [f(x) for _ in range(2)][1]
        assert waited(lambda: "a job behind the program failed" in caplog.text)
        assert tj.equal(f(x), y)


SCRIPT = """
import sys, time
import tracejit as tj
from tracejit.runtime.machine_code import kernels
from tracejit.runtime.behind import Worker
from tracejit.runtime.behind import worker
f, x = tj.compile(lambda x: (x * 2.5).exp() - 0.125, strict=True), tj.linspace(-2.0, 2.0, 999)
with tj.no_grad():
    y = [f(x) for _ in range(3)][2]
end = time.monotonic() + float(sys.argv[1])
while worker()._idle_jobs and time.monotonic() < end:
    time.sleep(0.02)
worker().stop()
llvm = sys.modules.get("tracejit.codegen.llvm")
print(kernels.COUNTS.compiled, llvm.COMPILATIONS.count if llvm else 0, y.sum().item())
"""


@hastens
def test_another_process_finds_the_best_there_is(tmp_path: Path) -> None:
    """One that ends at once leaves the first code; one that stays makes it better; the next needs no LLVM."""
    found = [
        printed(SCRIPT, patience, TRACEJIT_CACHE_DIR=str(tmp_path)).split()
        for patience in ("0", "30", "30")
    ]
    compiled, runs, values = zip(*found, strict=True)
    assert [int(c) > 0 for c in compiled] == [True, False, False]
    assert int(runs[1]) > 0
    assert int(runs[2]) == 0
    assert len(set(values)) == 1
