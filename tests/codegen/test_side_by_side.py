"""Batches of small matrices: what kernels make of them side by side is what LAPACK makes of each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tracejit as tj
from tracejit.codegen.products.vector_machine import vector_machine
from tracejit.ops import packed, side_by_side
from tracejit.ops.side_by_side import LEAST, attempted

Array = np.ndarray
needs_vectors = pytest.mark.skipif(vector_machine() is None, reason="no vectors with masks")
KINDS = [np.float32, np.float64]
#: Batches that fill tiles and that do not, and rows and columns of their matrices.
SQUARES = [(16, 1), (33, 2), (40, 3), (19, 5), (64, 8), (17, 13), (16, 32)]
OBLONG = [(16, 3, 1), (21, 7, 4), (33, 12, 12), (16, 64, 16), (18, 200, 3)]


def draw(kind: type, *shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(kind)


def close(found: Array, wanted: Array, times: float = 1.0) -> None:
    """Up to rounding in the precision of ``found``, of the largest number of each matrix."""
    assert found.shape == wanted.shape
    rest = tuple(range(1, found.ndim))
    size = np.abs(wanted).max(axis=rest, keepdims=True) + np.finfo(found.dtype).tiny
    apart = np.abs(found.astype(np.float64) - wanted) / size
    assert float(apart.max()) <= times * 64 * np.finfo(found.dtype).eps


def condition(x: Array) -> float:
    return float(np.linalg.cond(x.astype(np.float64)).max())


def moderate(kind: type, count: int, n: int) -> Array:
    """Matrices that are far from singular, whose pivots are not on the diagonal."""
    x = draw(kind, count, n, n) / (3 * np.sqrt(n)) + np.eye(n)
    return x[:, np.random.default_rng(n).permutation(n)].astype(kind)


@needs_vectors
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "n"), SQUARES)
def test_systems_and_determinants(kind: type, count: int, n: int) -> None:
    x, b = moderate(kind, count, n), draw(kind, count, n, 3)
    wide, times = x.astype(np.float64), condition(x)
    for name, operands, wanted in (
        ("inv", (x,), np.linalg.inv(wide)),
        ("solve", (x, b), np.linalg.solve(wide, b.astype(np.float64))),
        ("det", (x,), np.linalg.det(wide)),
    ):
        result = attempted(name, *operands)
        assert result is not None
        found, odd = result
        assert not len(odd)
        close(found, wanted, times)


@needs_vectors
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "m", "n"), [*OBLONG, (16, 4, 7), (20, 9, 9)])
def test_triangular_factors_are_lapacks(kind: type, count: int, m: int, n: int) -> None:
    x = draw(kind, count, m, n)
    assert attempted("lu", x) is not None
    found, wanted = packed.lu(x), np.stack([packed.lu(matrix) for matrix in x])
    assert np.array_equal(found[..., -1], wanted[..., -1])  # the exchanges
    close(found, wanted, max(m, n))


@needs_vectors
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "n"), SQUARES)
def test_cholesky_reads_the_lower_triangle(kind: type, count: int, n: int) -> None:
    x = draw(kind, count, n, n)
    x = (x @ x.swapaxes(-1, -2) + n * np.eye(n)).astype(kind)
    wanted = np.linalg.cholesky(x.astype(np.float64))
    x[:, *np.triu_indices(n, 1)] = np.nan
    result = attempted("cholesky", x)
    assert result is not None
    assert not len(result[1])
    close(result[0], wanted)
    assert np.array_equal(result[0], np.tril(result[0]))


@needs_vectors
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "m", "n"), OBLONG)
def test_orthogonal_factors_have_lapacks_signs(kind: type, count: int, m: int, n: int) -> None:
    x = draw(kind, count, m, n)
    x[0] = np.eye(m, n)  # nothing to reflect
    x[1] = -np.eye(m, n)
    result = attempted("qr", x)
    assert result is not None
    assert not len(result[1])
    q, r = result[0][:, :m].astype(np.float64), result[0][:, m:].astype(np.float64)
    close((q @ r).astype(kind), x)
    close((q.swapaxes(-1, -2) @ q).astype(kind), np.broadcast_to(np.eye(n), (count, n, n)))
    wanted = np.linalg.qr(x.astype(np.float64))
    assert np.array_equal(r, np.triu(r))
    diagonals = [np.sign(np.diagonal(y, axis1=1, axis2=2)) for y in (r, wanted.R)]
    assert np.array_equal(*diagonals)


@needs_vectors
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "n"), [(16, 1), (33, 2), (40, 3), (19, 5), (64, 8), (17, 13)])
def test_eigenvalues_and_vectors(kind: type, count: int, n: int) -> None:
    x = draw(kind, count, n, n)
    x[: count // 2] = x[: count // 2] @ x[: count // 2].swapaxes(-1, -2)
    x[0], x[1], x[2] = 0, np.eye(n), 1  # all the same, and of rank one
    x[3] = np.diag(np.arange(n, 0, -1))
    whole = np.tril(x).astype(np.float64)
    whole += np.tril(whole, -1).swapaxes(-1, -2)
    result = attempted("eigh", x)
    assert result is not None
    assert not len(result[1])
    values, vectors = result[0][:, 0], result[0][:, 1:].astype(np.float64)
    close(values, np.linalg.eigvalsh(whole))
    assert (np.diff(values) >= 0).all()
    close((vectors.swapaxes(-1, -2) @ vectors).astype(kind), np.broadcast_to(np.eye(n), x.shape))
    again = (vectors * values[:, None]) @ vectors.swapaxes(-1, -2)
    close(again.astype(kind), whole)


@needs_vectors
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "m", "n"), OBLONG)
def test_singular_values_and_vectors(kind: type, count: int, m: int, n: int) -> None:
    x = draw(kind, count, m, n)
    x[:3] = x[:3, :, :1] * np.arange(1, n + 1, dtype=kind)  # of rank one, up to rounding
    x[3] *= np.logspace(0, -6, n, dtype=kind)
    x[4] = np.eye(m, n)
    result = attempted("svd", x)
    assert result is not None
    found = packed.svd(x)
    u, values, vh = (y.astype(np.float64) for y in (found[:, :m], found[:, m], found[:, m + 1 :]))
    close(found[:, m], np.linalg.svd(x.astype(np.float64), compute_uv=False))
    assert (np.diff(values) <= 0).all()
    one = np.broadcast_to(np.eye(n), (count, n, n))
    close((u.swapaxes(-1, -2) @ u).astype(kind), one)
    close((vh @ vh.swapaxes(-1, -2)).astype(kind), one)
    close(((u * values[:, None]) @ vh).astype(kind), x)


@needs_vectors
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(("count", "n"), SQUARES)
def test_triangular_systems(kind: type, lower: bool, count: int, n: int) -> None:
    x, b = moderate(kind, count, n), draw(kind, count, n, 2)
    x = (x + 4 * np.eye(n)).astype(kind)
    part = np.tril(x) if lower else np.triu(x)
    other = np.where(part == 0, np.nan, part).astype(kind)
    out = np.empty_like(b)
    assert side_by_side.triangles(other, b, lower, out)
    close(out, np.linalg.solve(part.astype(np.float64), b.astype(np.float64)), condition(part))


def odd_matrices(kind: type) -> dict[str, Array]:
    """Batches of which some members need an exception."""
    x = moderate(kind, 40, 3)
    found = {}
    for name, number in (("nan", np.nan), ("inf", np.inf), ("huge", np.finfo(kind).max / 4)):
        found[name] = x.copy()
        found[name][7, 1, 2] = found[name][39, 0, 0] = number
    found["tiny"] = x.copy()
    found["tiny"][5] *= kind(np.finfo(kind).tiny)
    found["zeros"] = x.copy()
    found["zeros"][11] = 0
    found["a row of zeros"] = x.copy()
    found["a row of zeros"][11, 1] = 0
    return found


@needs_vectors
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "lu", "qr", "svd", "eigh", "cholesky"])
def test_exceptions_are_as_before(kind: type, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function: Callable[[Array], Array | tuple[Array, Array]] = getattr(packed, name)

    def outcome(x: Array) -> list[Array] | str:
        try:
            with np.errstate(all="ignore"):
                found = function(x)
        except np.linalg.LinAlgError as error:
            return str(error)
        return list(found) if isinstance(found, tuple) else [found]

    batches = odd_matrices(kind)
    if name == "cholesky":
        with np.errstate(all="ignore"):
            batches = {key: x @ x.swapaxes(-1, -2) for key, x in batches.items()}
    ours = {key: outcome(x) for key, x in batches.items()}
    monkeypatch.setattr(side_by_side, "_run", [])
    for key, x in batches.items():
        wanted = outcome(x)
        if isinstance(wanted, str):
            assert ours[key] == wanted
            continue
        for a, b in zip(ours[key], wanted, strict=True):
            if name in ("svd", "eigh"):  # the signs of vectors are anybody's
                a, b = np.abs(a), np.abs(b)
            assert np.array_equal(np.isnan(a), np.isnan(b)), key
            assert np.array_equal(np.isinf(a), np.isinf(b)), key
            small = np.isfinite(b)
            assert np.allclose(a[small], b[small], rtol=2e-2 if kind is np.float32 else 1e-9), key


@needs_vectors
def test_what_serves_is_decided_by_the_shape_alone() -> None:
    assert attempted("inv", draw(np.float32, LEAST - 1, 3, 3)) is None
    assert attempted("inv", draw(np.float32, LEAST, 3, 3)) is not None
    assert attempted("inv", draw(np.float32, 2, LEAST // 2, 3, 3)) is not None
    assert attempted("inv", draw(np.float32, LEAST, 33, 33)) is None
    assert attempted("inv", draw(np.float64, LEAST, 3, 3).astype(np.complex128)) is None
    assert attempted("inv", draw(np.float32, LEAST, 0, 0)) is None
    assert attempted("solve", draw(np.float32, 16, 3, 3), draw(np.float64, 16, 3, 1)) is None


@needs_vectors
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["inv", "svd", "eigh", "qr", "det"])
def test_bits_depend_on_neither_threads_nor_neighbours(kind: type, name: str) -> None:
    x = moderate(kind, 5000, 4)
    before, found = tj.get_num_threads(), []
    try:
        for threads in (1, 2):
            tj.set_num_threads(threads)
            found.append(attempted(name, x))
    finally:
        tj.set_num_threads(before)
    found.append(attempted(name, x[::-1].copy()))
    arrays = [pair[0] for pair in found if pair is not None]
    assert np.array_equal(arrays[0], arrays[1])
    assert np.array_equal(arrays[0], arrays[2][::-1])


@needs_vectors
def test_any_memory_serves() -> None:
    x = moderate(np.float32, 40, 4)
    turned = np.asfortranarray(x)
    frozen = x.copy()
    frozen.flags.writeable = False
    wide = np.zeros((80, 4, 8), np.float32)
    wide[::2, :, ::2] = x
    for other in (turned, frozen, wide[::2, :, ::2], x[::-1][::-1]):
        assert np.array_equal(packed.inv(other), packed.inv(x))


@needs_vectors
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_compiled_code_and_gradients_are_those_of_eager_code(kind: str) -> None:
    x = tj.tensor(moderate(np.dtype(kind).type, 24, 3))

    def loss(x: tj.Tensor) -> tj.Tensor:
        symmetric = x @ x.mT
        total = (tj.linalg.inv(x) * x).sum() + tj.linalg.det(x).sum()
        total = total + tj.linalg.cholesky(symmetric).sum() + tj.linalg.slogdet(x)[1].sum()
        total = total + tj.linalg.eigvalsh(symmetric).sum() + tj.linalg.svdvals(x).sum()
        return total + tj.linalg.solve(x, x[:, :, :1]).sum() + tj.linalg.qr(x)[1].sum()

    compiled, gradients = tj.compile(loss), []
    assert not np.isnan(float(loss(x)))
    for function in (loss, compiled, compiled):
        leaf = x.clone().requires_grad_()
        found = function(leaf)
        found.backward()
        assert leaf.grad is not None
        gradients.append((found.detach().numpy(), leaf.grad.numpy()))
    for found, gradient in gradients[1:]:
        assert np.allclose(found, gradients[0][0], rtol=1e-5)
        assert np.allclose(gradient, gradients[0][1], rtol=1e-3, atol=1e-4)


_FAILS = [
    ("inv", "linalg.inv: {0}The diagonal element 2 is zero, the inversion could not be completed"),
    ("cholesky", "linalg.cholesky: {0}The factorization could not be completed because the input"),
]


@pytest.mark.parametrize(("name", "text"), _FAILS)
@pytest.mark.parametrize("count", [None, 2, 40])
def test_errors_name_the_matrix(name: str, text: str, count: int | None) -> None:
    singular = np.diag([1.0, 0.0, 2.0]).astype(np.float32)
    x = singular if count is None else np.stack([np.eye(3, dtype=np.float32)] * count)
    if count is not None:
        x[1] = singular
    function = getattr(tj.linalg, name)
    with pytest.raises(tj.linalg.LinAlgError) as raised:
        function(tj.tensor(x))
    which = "" if count is None else "(Batch element 1): "
    assert text.format(which) in str(raised.value)


def test_errors_of_what_is_no_number() -> None:
    x = np.stack([np.eye(3)] * 20)
    x[4, 2, 0] = np.nan
    for name in ("svd", "eigh", "cholesky"):
        with pytest.raises(tj.linalg.LinAlgError, match=r"\(Batch element 4\)"):
            getattr(tj.linalg, name)(tj.tensor(x))
    with pytest.raises(tj.linalg.LinAlgError, match=r"torch.linalg.solve: \(Batch element 3\)"):
        x[4], x[3] = x[0], 0
        tj.linalg.solve(tj.tensor(x), tj.ones(20, 3, 1, dtype=tj.float64))
