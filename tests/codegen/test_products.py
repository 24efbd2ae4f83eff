"""Matrix products by code of our own: against NumPy on every kind of machine this one can be, and however divided."""

from __future__ import annotations

import ctypes
import itertools
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracejit as tj
from tracejit.codegen.identity import features
from tracejit.codegen.llvm import assembly_of, vector_code
from tracejit.codegen.products.gemm_text import STRIPS_BYTES, TERMS, gemm_text
from tracejit.codegen.products.vector_kind import Kind, declarations
from tracejit.codegen.products.vector_machine import Machine, multiplies_pairs
from tracejit.runtime import blas
from tracejit.runtime.ahead import Ahead
from tracejit.runtime.machine_code.loader import load_object
from tracejit.runtime.machine_code.vector_modules import VectorModule, address, missing
from tracejit.runtime.products import product_module

MACHINES = [
    machine
    for machine, needed in (
        (Machine(64, 8, 3), {"avx512f", "avx512vl"}),
        (Machine(32, 4, 3), {"avx2", "fma"}),
    )
    if needed <= features()
]
DTYPES = {"f32": np.float32, "f64": np.float64}
#: What products are made of on which machine; pairs of bfloat16 need instructions of their own.
KINDS = [(machine, dtype) for machine in MACHINES for dtype in DTYPES]
if multiplies_pairs():
    DTYPES["bf16"] = tj.bfloat16.np
    KINDS.append((Machine(64, 8, 3), "bf16"))
pytestmark = pytest.mark.skipif(not MACHINES, reason="no vectors with masks")


@cache
def native(dtype, machine):
    code = load_object(vector_code(gemm_text(dtype, machine)), "tracejit_product")
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(code)


def multiply(function, a, b, c):
    """c = a @ b by a function with BLAS's signature; the operands may be turned, and parts of larger matrices."""
    (m, k), n = a.shape, b.shape[1]

    def lying(x):
        size = x.itemsize
        turned = x.strides[0] == size and x.strides[1] != size
        return (x.strides[1] if turned else x.strides[0]) // size, turned

    (lda, ta), (ldb, tb), (ldc, _) = lying(a), lying(b), lying(c)
    words = [ctypes.c_int64(word) for word in (n, m, k, ldb, lda, ldc)]
    letters = [ctypes.c_char(b"T" if turned else b"N") for turned in (tb, ta)]
    n_, m_, k_, ldb_, lda_, ldc_ = (ctypes.addressof(word) for word in words)
    tb_, ta_ = (ctypes.addressof(letter) for letter in letters)
    places = (tb_, ta_, n_, m_, k_, None, b.ctypes.data, ldb_, a.ctypes.data, lda_, None)
    function(*places, c.ctypes.data, ldc_)


def part(rng, rows, columns, dtype, turned):
    """A matrix of random numbers among nans that must not be read."""
    shape = (columns, rows) if turned else (rows, columns)
    whole = np.full((shape[0] + 2, shape[1] + 3), np.nan, dtype)
    whole[1:-1, 1:-2] = rng.standard_normal(shape)
    inside = whole[1:-1, 1:-2]
    return inside.T if turned else inside


def check(function, m, n, k, dtype, turned_a, turned_b, rng):
    a, b = part(rng, m, k, dtype, turned_a), part(rng, k, n, dtype, turned_b)
    results = max(dtype, np.float32, key=lambda kind: np.dtype(kind).itemsize)
    whole = np.full((m + 2, n + 3), np.nan, results)
    c = whole[1:-1, 1:-2]
    multiply(function, a, b, c)
    exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
    bound = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    assert np.all(np.abs(c - exact) <= (k + 1) * np.finfo(results).eps * bound)
    whole[1:-1, 1:-2] = np.nan
    assert np.isnan(whole).all(), "written beside the result"


SIZES = (
    *((1, 1, 1), (3, 5, 7), (8, 48, 16), (9, 49, 17), (64, 10, 300), (17, 33, TERMS + 1)),
    *((100, 100, 2 * TERMS + 3), (40, 1, 5), (1, 70, 40), (65, 400, 130), (130, 24, 1)),
    *(
        (20, 1300, TERMS + 8),
        (130, 330, TERMS + 8),
    ),  # strips that are copied: one at a time, several
)


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("machine", "dtype"), KINDS, ids=str)
@pytest.mark.parametrize(("turned_a", "turned_b"), list(itertools.product((False, True), repeat=2)))
def test_products_of_every_layout(dtype, machine, turned_a, turned_b, rng) -> None:
    for m, n, k in SIZES:
        check(native(dtype, machine), m, n, k, DTYPES[dtype], turned_a, turned_b, rng)


@pytest.mark.skipif(not KINDS, reason="no vectors with masks")
@settings(max_examples=120, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 140)] * 3),
    turned=st.tuples(st.booleans(), st.booleans()),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**32 - 1),
)
def test_products_of_any_size(sizes, turned, kind, seed) -> None:
    machine, dtype = kind
    rng = np.random.default_rng(seed)
    check(native(dtype, machine), *sizes, DTYPES[dtype], *turned, rng)


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_more_strips_than_fit_the_cache(machine, rng) -> None:
    columns = STRIPS_BYTES // (TERMS * 4) * 2 + 5
    for turned_a, turned_b in itertools.product((False, True), repeat=2):
        check(native("f32", machine), 70, columns, TERMS, np.float32, turned_a, turned_b, rng)


@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize("turned", [False, True])
def test_results_do_not_depend_on_how_a_product_is_divided(machine, turned, rng) -> None:
    function = native("f32", machine)
    m, n, k = 90, 200, TERMS + 90
    a, b = part(rng, m, k, np.float32, turned), part(rng, k, n, np.float32, turned)
    whole, parts = np.empty((m, n), np.float32), np.empty((m, n), np.float32)
    multiply(function, a, b, whole)
    for cuts in ([0, 1, 18, 64, 90], [0, 45, 90]):
        parts[:] = np.nan
        for low, high in itertools.pairwise(cuts):
            multiply(function, a[low:high], b, parts[low:high])
        assert np.array_equal(whole, parts)
    for low, high in itertools.pairwise([0, 7, 64, 150, 200]):
        multiply(function, a, b[:, low:high], parts[:, low:high])
    assert np.array_equal(whole, parts)


@pytest.mark.parametrize(("machine", "dtype"), KINDS, ids=str)
def test_what_is_not_finite_stays_in_its_row_and_column(machine, dtype, rng) -> None:
    for turned in (False, True):
        a, b = (part(rng, 51, 51, DTYPES[dtype], turned) for _ in range(2))
        a[3, 4], b[7, 11], b[8, 13], b[50, 17] = np.inf, np.nan, -np.inf, np.inf
        c = np.full((51, 51), 7, np.float64 if dtype == "f64" else np.float32)
        multiply(native(dtype, machine), a, b, c)
        with np.errstate(invalid="ignore"):
            expected = a.astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(product_module("f32") is None, reason="BLAS is better on this machine")
def test_blocks_stay_in_registers() -> None:
    """The loop over terms has a product for every row and vector, and writes nothing."""
    text = assembly_of(gemm_text("f32", Machine(64, 8, 3)))
    block = text.split("block.3:", 1)[1].split(".Lfunc_end", 1)[0]
    loops = [part for part in block.split("\n.LBB") if part.count("vfmadd") == 24]
    assert len(loops) == 1
    assert not [line for line in loops[0].splitlines() if "vmov" in line and line.endswith(")")]


@pytest.mark.skipif(not multiplies_pairs(), reason="no instructions for pairs of bfloat16")
def test_blocks_of_pairs_stay_in_registers() -> None:
    """The loop over pairs has an instruction for every row and vector, and writes nothing."""
    text = assembly_of(gemm_text("bf16", Machine(64, 8, 3)))
    block = text.split("block.3:", 1)[1].split(".Lfunc_end", 1)[0]
    counts = [part.count("vdpbf16ps") for part in block.split("\n.LBB")]
    assert counts.count(24) == 2, "the loop, and the last term of an odd number"
    loop = next(part for part in block.split("\n.LBB") if part.count("vdpbf16ps") == 24)
    assert not [line for line in loop.splitlines() if "vmov" in line and line.endswith(")")]


@pytest.mark.skipif(product_module("f32") is None, reason="BLAS is better on this machine")
def test_compiled_products_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    found = blas.find_blas()
    assert found is not None
    if not found.vectors_only:
        pytest.skip(f"products are those of {found.origin}")
    monkeypatch.setattr(
        blas, "find_blas", lambda: found.__class__(**{**vars(found), "gemm": {"f32": 1}})
    )
    f = tj.compile(lambda x, y: x @ y, strict=True)
    x, y = tj.randn(40, 30), tj.randn(30, 50)
    with tj.no_grad():
        results = [f(x, y) for _ in range(3)]  # a call of address 1 would end the process
    assert tj.allclose(results[2], x @ y, atol=1e-5)
    assert f.stats.compiled_calls == 2


def test_a_module_that_is_compiled_ahead_is_taken_from_there() -> None:
    text = "define i64 @answer() { ret i64 42 } ; for this test alone"
    module = VectorModule("answer", text)
    waiting = missing([module, module])
    assert list(waiting) == [module.key]
    with Ahead(waiting) as ahead:
        found = address(module, ahead)
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(found)() == 42
    assert missing([module]) == {}


def test_mkl_is_asked_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The library pip installs is found, and one that cannot be loaded is passed over."""
    for name in ("libmkl_rt.so.2", "libmkl_rt.so.3"):
        (tmp_path / "lib").mkdir(exist_ok=True)
        (tmp_path / "lib" / name).write_bytes(b"not a library")
    monkeypatch.setattr(blas.sys, "prefix", str(tmp_path))
    assert [Path(p).name for p in blas._mkl_libraries()][:2] == ["libmkl_rt.so.3", "libmkl_rt.so.2"]
    assert blas._in_library("mkl", str(tmp_path / "lib" / "libmkl_rt.so.3"), blas.MKL) is None
    tried = []
    monkeypatch.setattr(blas, "_in_library", lambda origin, *_: tried.append(origin))
    monkeypatch.setattr(blas, "_from_cython_blas", lambda: None)
    assert blas.find_blas.__wrapped__() is None
    assert tried[0] == "mkl"
    assert "numpy" in tried


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_masked_loads_are_spelled_as_every_llvm_reads_them(dtype: str) -> None:
    """LLVM 22 also reads them without the alignment as an operand; code generation of LLVM 20 then ends the process."""
    text = declarations(Kind(dtype, Machine(64, 8, 3)))
    masked = [line for line in text.splitlines() if "@llvm.masked." in line]
    assert len(masked) == 2
    assert all("ptr, i32, <" in line for line in masked)
