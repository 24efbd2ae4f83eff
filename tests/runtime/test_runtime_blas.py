"""Matrix products as steps, against NumPy: shapes, strides, batches, specials, and BLAS's threads."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import replace

import numpy as np
import pytest

from process_tools import printed
from tracejit.runtime import blas, threads
from tracejit.runtime.blas import Gemm, find_blas, gemm_step
from tracejit.runtime.blas_ir import BAD_STRIDE
from tracejit.runtime.launcher import SERIAL, build_table, failure, pack_slots
from tracejit.runtime.native.launcher_ir import CONTEXT
from tracejit.runtime.native.native import context

pytestmark = pytest.mark.skipif(find_blas() is None, reason="no BLAS in this Python")

NAMES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}


def rows(matrix: np.ndarray) -> tuple[int, bool]:
    """Row stride and whether the matrix is the transpose of a row-major one."""
    r, c = (stride // matrix.itemsize for stride in matrix.strides[-2:])
    transposed = c != 1 and matrix.shape[-1] > 1
    return (c, True) if transposed else (r, False)


def describe(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Gemm:
    (lda, trans_a), (ldb, trans_b), (ldc, _) = rows(a), rows(b), rows(c)

    def batch_stride(x: np.ndarray) -> int:
        return x.strides[0] // x.itemsize if x.ndim == 3 else 0

    return Gemm(
        NAMES[a.dtype],
        a.ctypes.data,
        b.ctypes.data,
        c.ctypes.data,
        m=c.shape[-2],
        n=c.shape[-1],
        k=a.shape[-1],
        lda=lda,
        ldb=ldb,
        ldc=ldc,
        trans_a=trans_a,
        trans_b=trans_b,
        batch=c.shape[0] if c.ndim == 3 else 1,
        stride_a=batch_stride(a),
        stride_b=batch_stride(b),
        stride_c=batch_stride(c),
    )


def run(gemm: Gemm) -> int:
    step = gemm_step(gemm)
    assert step is not None
    return build_table([step]).run(0, 1, b"")


def close(actual: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    expected = np.matmul(a.astype(np.float64), b.astype(np.float64))
    size = np.matmul(np.abs(a).astype(np.float64), np.abs(b).astype(np.float64))
    # Backward error of a sum of k products: k units in the last place of the absolute sum.
    bound = (a.shape[-1] + 2) * np.finfo(a.dtype).eps * size
    assert np.all(np.abs(actual - expected) <= bound)


@pytest.fixture(params=[1, 2, 3])
def thread_count(request: pytest.FixtureRequest):
    before = threads.get_num_threads()
    threads.set_num_threads(request.param)
    yield request.param
    threads.set_num_threads(before)


SHAPES = [(1, 1, 1), (3, 8, 4), (17, 1, 33), (1, 300, 200), (400, 1, 300), (64, 64, 64)]
SHAPES += [(129, 67, 255), (5, 2000, 90), (2000, 5, 90)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_products_of_every_layout(dtype, m, n, k, thread_count, rng) -> None:
    for turn_a, turn_b in itertools.product([False, True], repeat=2):
        a = rng.standard_normal((k, m) if turn_a else (m, k)).astype(dtype)
        b = rng.standard_normal((n, k) if turn_b else (k, n)).astype(dtype)
        a, b = (a.T if turn_a else a), (b.T if turn_b else b)
        c = np.full((m, n), np.nan, dtype)
        assert run(describe(a, b, c)) == 0
        close(c, a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("batch", "m", "n", "k"), [(5, 3, 4, 6), (3, 100, 70, 90), (40, 32, 32, 32)]
)
def test_batches(dtype, batch, m, n, k, thread_count, rng) -> None:
    a = rng.standard_normal((batch, m, k)).astype(dtype)
    b = rng.standard_normal((batch, n, k)).astype(dtype).swapaxes(1, 2)
    c = np.full((batch, m, n), np.nan, dtype)
    assert run(describe(a, b, c)) == 0
    close(c, a, b)
    shared = np.broadcast_to(b[:1], b.shape)
    assert run(describe(a, shared, c)) == 0
    close(c, a, shared)


def test_parts_of_larger_matrices(thread_count, rng) -> None:
    big = rng.standard_normal((300, 400))
    a, b = big[10:110, 5:85], big[200:280, 100:350]
    whole = np.full((120, 300), np.nan)
    c = whole[7:107, 20:270]
    assert run(describe(a, b, c)) == 0
    close(c, a, b)
    c[:] = np.nan
    assert np.isnan(whole).all()  # nothing outside the part was written


def test_numpys_blas_multiplies_vectors() -> None:
    found = find_blas()
    assert found is not None
    assert all(found.gemv.values())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 65, 33), (65, 1, 33), (1, 1, 70), (1, 9, 1), (9, 1, 1)]
)
@pytest.mark.parametrize("batch", [1, 3])
def test_vectors_among_other_numbers(dtype, m, n, k, batch, thread_count, rng) -> None:
    """Rows and columns of larger arrays, as they lie: what is beside them is neither read nor written."""
    for turn_a, turn_b in itertools.product([False, True], repeat=2):
        whole = [np.full((batch, 90, 80), np.nan, dtype) for _ in range(3)]
        sides = [(k, m) if turn_a else (m, k), (n, k) if turn_b else (k, n), (m, n)]
        a, b, c = (x[:, 4 : 4 + r, 5 : 5 + s] for x, (r, s) in zip(whole, sides, strict=True))
        a[:], b[:] = rng.standard_normal(a.shape), rng.standard_normal(b.shape)
        a.flat[0] = -0.0
        gemm = Gemm(
            NAMES[np.dtype(dtype)],
            *(x.ctypes.data for x in (a, b, c)),
            *(m, n, k, 80, 80, 80, turn_a, turn_b, batch),
            *(90 * 80, 90 * 80, 90 * 80),
        )
        assert run(gemm) == 0
        close(c, a.swapaxes(1, 2) if turn_a else a, b.swapaxes(1, 2) if turn_b else b)
        c[:] = np.nan
        assert np.isnan(whole[2]).all()


@pytest.mark.parametrize(("m", "n"), [(1, 20), (20, 1)])
def test_what_is_not_finite_comes_through_vectors(m: int, n: int, thread_count) -> None:
    for number in (np.nan, np.inf, -np.inf):
        a, b, c = np.zeros((m, 7)), np.ones((7, n)), np.full((m, n), np.nan)
        (a if n == 1 else b)[:, 3] = number  # 0 * inf is no zero
        (b if n == 1 else a)[...] = 0.0
        assert run(describe(a, b, c)) == 0
        with np.errstate(invalid="ignore"):
            assert np.array_equal(c, a @ b, equal_nan=True)
        assert np.isnan(c).any()


@pytest.mark.parametrize("batch", [1, 4])
def test_an_empty_sum_is_zero(batch: int, thread_count) -> None:
    a, b = np.zeros((batch, 50, 0)), np.zeros((batch, 0, 60))
    whole = np.full((batch, 50, 70), np.nan)
    c = whole[:, :, :60]
    assert run(describe(a, b, c)) == 0
    assert (c == 0).all()
    assert np.isnan(whole[:, :, 60:]).all()


@pytest.mark.parametrize(("m", "n", "k", "batch"), [(0, 5, 3, 1), (5, 0, 3, 2), (4, 4, 4, 0)])
def test_nothing_to_compute(m: int, n: int, k: int, batch: int) -> None:
    # Null addresses: any access would end the process.
    assert run(Gemm("f32", 0, 0, 0, m, n, k, k, n, n, batch=batch)) == 0


def test_special_values_reach_the_result(rng) -> None:
    a, b = rng.standard_normal((40, 30)), rng.standard_normal((30, 50))
    a[3, 4], a[5, 6], b[7, 8] = np.nan, np.inf, -np.inf
    c = np.empty((40, 50))
    assert run(describe(a, b, c)) == 0
    with np.errstate(invalid="ignore"):
        expected = a @ b
    assert np.array_equal(np.isnan(c), np.isnan(expected))
    assert np.array_equal(np.isinf(c), np.isinf(expected))


def test_overlapping_rows_are_refused(rng) -> None:
    a, b, c = rng.standard_normal((4, 3)), rng.standard_normal((3, 5)), np.zeros((4, 5))
    good = describe(a, b, c)
    assert run(good) == 0
    for bad in (replace(good, lda=2), replace(good, ldb=0), replace(good, ldc=4)):
        assert failure(run(bad)) == (0, BAD_STRIDE)
    single = describe(a[:1], b, c[:1])
    assert run(replace(single, lda=0, ldc=0)) == 0  # one row has no stride
    close(c[:1], a[:1], b)


def test_addresses_and_strides_may_come_from_slots(rng) -> None:
    a, b, c = rng.standard_normal((6, 7)), rng.standard_normal((7, 8)), np.zeros((6, 8))
    gemm = replace(describe(a, b, c), a=(0, 0), b=(1, -16), c=(2, 0), lda=(3, 0))
    step = gemm_step(gemm)
    assert step is not None
    slots = pack_slots([a.ctypes.data, b.ctypes.data + 16, c.ctypes.data, 7])
    assert build_table([step]).run(0, 1, slots) == 0
    close(c, a, b)


def test_what_has_no_blas_is_left_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    gemm = Gemm("f32", 0, 0, 0, 2, 2, 2, 2, 2, 2)
    assert gemm_step(gemm) is not None
    assert gemm_step(replace(gemm, dtype="i32")) is None
    with pytest.raises(ValueError, match="negative"):
        gemm_step(replace(gemm, k=-1))
    found = find_blas()
    assert found is not None
    monkeypatch.setattr(blas, "find_blas", lambda: replace(found, max_size=1))
    assert gemm_step(gemm) is None
    monkeypatch.setattr(blas, "find_blas", lambda: replace(found, controlled=False))
    step = gemm_step(replace(gemm, m=5000))
    assert step is not None
    assert (step.grain, step.flags & 4) == (SERIAL, 0)
    monkeypatch.setattr(blas, "find_blas", lambda: None)
    assert gemm_step(gemm) is None


def test_the_public_route_to_scipys_blas_gives_the_same(rng, monkeypatch) -> None:
    found = blas._from_cython_blas()
    assert found is not None
    monkeypatch.setattr(blas, "find_blas", lambda: found)
    a, b, c = rng.standard_normal((60, 70)), rng.standard_normal((70, 80)), np.zeros((60, 80))
    assert run(describe(a, b, c)) == 0
    close(c, a, b)


def test_the_threads_of_blas_are_restored(thread_count, rng) -> None:
    found = find_blas()
    assert found is not None
    if not found.controlled:
        pytest.skip("this BLAS offers no control of its threads")
    get, set_ = (
        ctypes.CFUNCTYPE(result, *arguments)(context[CONTEXT[word]])
        for word, result, arguments in (
            ("blas_get_threads", ctypes.c_int, ()),
            ("blas_set_threads", None, (ctypes.c_int,)),
        )
    )
    before = get()
    a, b, c = (rng.standard_normal((200, 200)) for _ in range(3))
    table = build_table([gemm_step(describe(a, b, c))] * 3)
    try:
        for count in (2, 1):
            set_(count)
            held = get()
            assert table.run(0, 3, b"") == 0
            assert get() == held
            assert failure(run(replace(describe(a, b, c), lda=1)))[1] == BAD_STRIDE
            assert get() == held
    finally:
        set_(before)


def test_finding_blas_imports_no_scipy() -> None:
    code = """
import sys
from tracejit.runtime.blas import find_blas
found = find_blas()
print(found.origin, any(name.startswith("scipy") for name in sys.modules))
"""
    origin, imported = printed(code).split()
    assert imported == "False" or origin == "scipy.linalg.cython_blas"
