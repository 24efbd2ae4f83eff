"""Matrices taken apart in their own precision: the parts make up the matrix, and errors are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import host_ops
from tracejit.ops import contraction, host_matrices, values_alone
from tracejit.ops.host_matrices import LEAST, linalg

HOST = linalg(np.eye(2))
SHAPES = [(LEAST, LEAST), (65, 65), (3, 50, 50), (2, 2, 49, 49)]
LAYOUTS = {
    "rows": np.ascontiguousarray,
    "columns": lambda x: np.ascontiguousarray(np.swapaxes(x, -1, -2)).swapaxes(-1, -2),
    "gaps": lambda x: np.repeat(x, 2, -1)[..., ::2],
}


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x.conj(), -1, -2)


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> Any:
    return LAYOUTS[request.param]


@pytest.mark.sampled(18)
@pytest.mark.parametrize("kind", "fdFD")
@pytest.mark.parametrize("shape", SHAPES)
def test_parts_make_up_the_matrix(shape: tuple[int, ...], kind: str, layout: Any) -> None:
    rng, n = np.random.default_rng(0), shape[-1]
    a = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if kind in "FD" else 0)
    h = layout((a @ adjoint(a) / n + np.eye(n)).astype(kind))
    a = layout(a.astype(kind))
    b = rng.standard_normal((*shape[:-1], 7)).astype(kind)
    many = layout(rng.standard_normal((*shape[:-1], 9)).astype(kind))
    exchanged = layout((a / n + np.roll(np.eye(n), 3, 0)).astype(kind))  # of which rows are
    close = {"rtol": 2e-3, "atol": 2e-4} if kind in "fF" else {"rtol": 1e-9, "atol": 1e-10}
    low = HOST.cholesky(h)
    q, r = HOST.qr(a[..., : n - 1]) if n > LEAST else HOST.qr(a)
    u, s, vh = HOST.svd(a)
    w, v = HOST.eigh(h)
    for found, wanted in [
        (low @ adjoint(low), h),
        (HOST.inv(h) @ h, np.broadcast_to(np.eye(n), shape)),
        (h @ HOST.solve(h, b), b),
        (exchanged @ HOST.solve(exchanged, many), many),
        (q @ r, a[..., : r.shape[-1]]),
        (adjoint(q) @ q, np.broadcast_to(np.eye(r.shape[-1]), r.shape)),
        ((u * s[..., None, :]) @ vh, a),
        ((v * w[..., None, :]) @ adjoint(v), h),
    ]:
        np.testing.assert_allclose(found, wanted, **close)
    assert not np.triu(low, 1).any()
    assert not np.tril(r, -1).any()
    assert all(x.dtype == kind for x in (low, q, r, u, vh, v, HOST.inv(h), HOST.solve(h, b)))
    assert s.dtype == w.dtype == a.real.dtype
    for x in (h, a):
        for found, wanted in zip(HOST.slogdet(x), np.linalg.slogdet(x), strict=True):
            np.testing.assert_allclose(found, wanted, **close)
            assert np.asarray(found).dtype == np.asarray(wanted).dtype
    np.testing.assert_allclose(HOST.det(h), np.linalg.det(h), rtol=close["rtol"])


def test_what_has_no_parts_is_refused() -> None:
    zeros = np.zeros((LEAST, LEAST), np.float32)
    for name, words in (
        ("cholesky", "not positive definite"),
        ("inv", "Singular"),
        ("solve", "Singular"),
    ):
        with pytest.raises(np.linalg.LinAlgError, match=words):
            getattr(HOST, name)(*([zeros] if name != "solve" else [zeros, zeros]))
    assert HOST.slogdet(zeros) == (0.0, -np.inf)
    assert HOST.det(zeros) == 0.0
    x = np.eye(LEAST, dtype=np.float32)
    x[3, 3] = np.nan
    with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
        HOST.svd(x)
    assert np.isnan(HOST.inv(x)).any()
    for wrong in (tj.linalg.inv, tj.linalg.cholesky):
        with pytest.raises(RuntimeError, match="linalg"):
            wrong(tj.from_numpy(zeros))


@pytest.mark.parametrize("rows", [LEAST - 1, LEAST])
def test_numpy_serves_small_ones_and_where_there_is_no_library(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(0).standard_normal((rows, rows))
    want = np.linalg.inv(x)
    np.testing.assert_allclose(HOST.inv(x), want, rtol=1e-6)
    monkeypatch.setattr(host_matrices, "_library", lambda: None)
    assert np.array_equal(HOST.inv(x), want)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64])
@pytest.mark.parametrize(
    "shape", [(3, 3), (60, 60), (2, 50, 50), (20, 8, 8), (70, 40), (40, 70), (0, 0)]
)
def test_values_alone_are_those_beside_vectors(shape: tuple[int, ...], dtype: Any) -> None:
    x = tj.from_numpy(np.random.default_rng(0).standard_normal(shape)).to(dtype)
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype is tj.float32 else {"rtol": 1e-10, "atol": 1e-10}
    found, wanted = tj.linalg.svdvals(x), tj.linalg.svd(x, False).S
    assert found.spec == wanted.spec
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), **close)
    if shape[-1] != shape[-2]:
        return
    for triangle in "LU":
        found, wanted = tj.linalg.eigvalsh(x, triangle), tj.linalg.eigh(x, triangle).eigenvalues
        assert found.spec == wanted.spec
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), **close)


def test_values_that_want_a_gradient_come_with_vectors() -> None:
    x = tj.from_numpy(np.random.default_rng(0).standard_normal((2, 5, 3)))
    calls = []
    for function in (tj.linalg.svdvals, lambda x: tj.linalg.eigvalsh(x @ x.mT)):
        compiled = tj.compile(function, strict=True)
        for given in (x, x.clone().requires_grad_()):
            for _ in range(3):
                found = compiled(given)
            np.testing.assert_allclose(found.detach().numpy(), function(x).numpy(), 1e-10, 1e-12)
            calls.append(host_ops(compiled))
    assert calls[0] == {"singular_values"}
    assert calls[1] == {"singular_values", "svd_packed"}
    assert "eigenvalues_symmetric" in calls[2]
    assert "eigen_symmetric" in calls[3] - calls[2]


def test_values_alone_have_gradients_of_every_order() -> None:
    x = tj.from_numpy(np.random.default_rng(0).standard_normal((2, 4, 4))).requires_grad_()
    for function in (
        values_alone.singular_values,
        lambda x: values_alone.eigenvalues_symmetric(x + x.mT),
    ):
        assert tj.autograd.gradcheck(function, (x,))
        assert tj.autograd.gradgradcheck(function, (x,))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("shapes", [((50, 60), (60, 70)), ((2, 50, 60), (60, 7)), ((2, 3), (3, 2))])
def test_products_of_whole_numbers_wrap_as_before(shapes: Any, dtype: str) -> None:
    rng, info = np.random.default_rng(0), np.iinfo(dtype)
    for low, high in ((0, 9), (info.min // 2, info.max // 2), (info.min, info.min + 2)):
        x, y = (rng.integers(low, high, shape).astype(dtype) for shape in shapes)
        found = tj.from_numpy(x) @ tj.from_numpy(y)
        np.testing.assert_array_equal(found.numpy(), np.matmul(x, y))


def test_doubles_multiply_whole_numbers_only_where_nothing_is_rounded() -> None:
    x = np.full((40, 40), 1 << 23)
    assert contraction._as_doubles(x, x) is not None
    assert contraction._as_doubles(x, x * 4) is None
    assert contraction._as_doubles(-x * 4, x) is None
    assert contraction._as_doubles(x[:2, :2], x[:2, :2]) is None
