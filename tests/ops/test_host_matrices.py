"""Matrices taken apart in their own precision: the parts make up the matrix, and errors are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.ops import host_matrices
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


@pytest.mark.parametrize("kind", "fdFD")
@pytest.mark.parametrize("shape", SHAPES)
def test_parts_make_up_the_matrix(shape: tuple[int, ...], kind: str, layout: Any) -> None:
    rng, n = np.random.default_rng(0), shape[-1]
    a = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if kind in "FD" else 0)
    h = layout((a @ adjoint(a) / n + np.eye(n)).astype(kind))
    a = layout(a.astype(kind))
    b = rng.standard_normal((*shape[:-1], 7)).astype(kind)
    close = {"rtol": 2e-3, "atol": 2e-4} if kind in "fF" else {"rtol": 1e-9, "atol": 1e-10}
    low = HOST.cholesky(h)
    q, r = HOST.qr(a[..., : n - 1]) if n > LEAST else HOST.qr(a)
    u, s, vh = HOST.svd(a)
    w, v = HOST.eigh(h)
    for found, wanted in [
        (low @ adjoint(low), h),
        (HOST.inv(h) @ h, np.broadcast_to(np.eye(n), shape)),
        (h @ HOST.solve(h, b), b),
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
