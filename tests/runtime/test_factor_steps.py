"""Small matrices taken apart by native steps: what LAPACK gives, in loops too, and never a wrong answer."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import host_ops, with_gradients
from tracejit.codegen.products.vector_machine import vector_machine

pytestmark = pytest.mark.skipif(vector_machine() is None, reason="no vectors on this CPU")

L = tj.linalg
FUNCTIONS = {
    "inv": lambda a, b: L.inv(a),
    "solve": lambda a, b: L.solve(a, b),
    "triangle": lambda a, b: L.solve_triangular(a.tril(), b, upper=False),
    "other_triangle": lambda a, b: L.solve_triangular(a.triu(), b, upper=True),
    "det": lambda a, b: L.det(a),
    "cholesky": lambda a, b: L.cholesky(a @ a.mT + tj.eye(a.shape[-1], dtype=a.dtype)),
    "qr": lambda a, b: tj.cat([*L.qr(b), L.qr(a)[1][..., : b.shape[-1]]], -2),
    "lu_factor": lambda a, b: L.lu_factor(a)[0],
    "of_a_view": lambda a, b: L.inv(a.mT) @ L.solve(a, b.flip(-1)),
}


def operands(batch, n, right, dtype):
    rng = np.random.default_rng(n)
    a = rng.standard_normal((*batch, n, n)) + 3 * np.eye(n)
    b = (
        rng.standard_normal((*batch, max(n, right), right))
        if right < n
        else rng.standard_normal((*batch, n, n))
    )
    return [tj.tensor(x, dtype=dtype) for x in (a, b)]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64], ids=str)
@pytest.mark.parametrize("batch", [(), (3,), (2, 9), (40,)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_lapack(name, batch, dtype):
    function = FUNCTIONS[name]
    compiled = tj.compile(function)
    close = {"rtol": 2e-4, "atol": 2e-4} if dtype is tj.float32 else {"rtol": 1e-10, "atol": 1e-10}
    for n, right in ((4, 2), (7, 3), (1, 1), (16, 5), (4, 2)):
        a, b = operands(batch, n, right, dtype)
        for _ in range(2):
            np.testing.assert_allclose(compiled(a, b).numpy(), function(a, b).numpy(), **close)
    assert not host_ops(compiled)
    assert compiled.stats.compiled_calls >= 5


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64], ids=str)
@pytest.mark.parametrize("batch", [(), (3,), (2, 9), (40,)], ids=str)
def test_columns_on_the_right_have_a_lane_each(batch, dtype):
    compiled = tj.compile(lambda a, b: L.solve(a, b))
    rng = np.random.default_rng(len(batch))
    close = {"rtol": 2e-4, "atol": 2e-4} if dtype is tj.float32 else {"rtol": 1e-10, "atol": 1e-10}
    for n, right in ((8, 200), (3, 8), (16, 17), (1, 33), (5, 16)):
        a = tj.tensor(rng.standard_normal((*batch, n, n)) + 4 * np.eye(n), dtype=dtype)
        b = tj.tensor(rng.standard_normal((*batch, n, right)), dtype=dtype)
        for _ in range(2):
            np.testing.assert_allclose(compiled(a, b).numpy(), L.solve(a, b).numpy(), **close)
    assert not host_ops(compiled)
    with pytest.raises(tj.linalg.LinAlgError, match="singular"):
        compiled(a * 0, b)
    odd = b.clone()
    odd[..., 0, 0] = float("inf")
    np.testing.assert_array_equal(compiled(a, odd).numpy(), L.solve(a, odd).numpy())


def test_large_matrices_are_left_to_lapack():
    compiled = tj.compile(lambda x: L.inv(x))
    x = tj.eye(40) * 2
    for _ in range(3):
        assert compiled(x).tolist() == (tj.eye(40) / 2).tolist()
    assert host_ops(compiled) == {"inverse"}


def test_few_matrices_have_the_vectors_that_lapack_gives():
    compiled = tj.compile(lambda x: L.eigh(x)[1])
    x = tj.tensor([[2.0, 1.0], [1.0, 3.0]])
    for _ in range(3):
        assert compiled(x).tolist() == L.eigh(x)[1].tolist()


@pytest.mark.parametrize("name", ["inv", "solve", "cholesky"])
def test_errors_are_those_of_eager_code_and_the_next_call_is_served(name):
    function = (
        L.cholesky
        if name == "cholesky"
        else (lambda a: L.inv(a) if name == "inv" else L.solve(a, a))
    )
    compiled = tj.compile(function)
    good, bad = tj.eye(3) * 4, -tj.eye(3) if name == "cholesky" else tj.zeros(3, 3)
    for _ in range(3):
        compiled(good)
    with pytest.raises(tj.linalg.LinAlgError) as eager:
        function(bad)
    with pytest.raises(tj.linalg.LinAlgError) as found:
        compiled(bad)
    assert str(found.value).splitlines()[0] == str(eager.value).splitlines()[0]
    before = compiled.stats.compiled_calls
    assert compiled(good).tolist() == function(good).tolist()
    assert compiled.stats.compiled_calls == before + 1


def test_what_is_no_number_is_what_eager_code_makes_of_it():
    compiled = tj.compile(lambda x: L.det(x) * 2)
    for x in (
        tj.eye(3),
        tj.full((3, 3), float("nan")),
        tj.eye(3) * float("inf"),
        tj.zeros(3, 3),
        tj.eye(3) * 1e30,
    ):
        for _ in range(3):
            np.testing.assert_array_equal(compiled(x).numpy(), (L.det(x) * 2).numpy())


def test_functions_whose_matrices_are_refused_again_and_again_ask_lapack():
    compiled = tj.compile(lambda x: L.inv(x) * 1.0)
    odd = tj.eye(3) * 1e38  # whose pivots are too large to be trusted
    for _ in range(5):
        np.testing.assert_allclose(compiled(odd).numpy(), L.inv(odd).numpy(), rtol=1e-6)
    assert compiled.stats.compiled_calls > 0
    assert host_ops(compiled) == {"inverse"}


def filtered(zs, f, h):
    x, p = tj.zeros(3, 1), tj.eye(3)
    out = []
    for z in zs:
        x, p = f @ x, f @ p @ f.T + 0.1 * tj.eye(3)
        gain = p @ h.T @ L.inv(h @ p @ h.T + tj.eye(2))
        x = x + gain @ (z[:, None] - h @ x)
        p = (tj.eye(3) - gain @ h) @ p
        out.append(x[:, 0])
    return tj.stack(out)


def test_loops_hold_them():
    rng = np.random.default_rng(0)
    given = [
        rng.standard_normal((30, 2)),
        np.eye(3) * 0.9 + 0.05 * rng.standard_normal((3, 3)),
        rng.standard_normal((2, 3)),
    ]
    args = [tj.tensor(x.astype("f4")) for x in given]
    compiled = tj.compile(filtered)
    for _ in range(3):
        np.testing.assert_allclose(
            compiled(*args).numpy(), filtered(*args).numpy(), rtol=1e-4, atol=1e-5
        )
    assert "loop of" in str(compiled.explain())
    assert not host_ops(compiled)


def test_gradients_flow_through_them():
    def loss(a, b):
        return (L.solve(a, b) * L.det(a)).sum() + L.inv(a).square().sum()

    rng = np.random.default_rng(3)
    values = [
        tj.tensor(rng.standard_normal((4, 4)) + 3 * np.eye(4)),
        tj.tensor(rng.standard_normal((4, 2))),
    ]
    compiled = tj.compile(loss)
    expected = with_gradients(loss, values)
    for _ in range(3):
        for found, wanted in zip(with_gradients(compiled, values), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_gradients_of_matrices_that_need_an_exception_are_found():
    x = tj.tensor([[1.0, 2.0], [2.0, 4.0]])
    compiled = tj.compile(lambda a: L.det(a))
    expected = with_gradients(lambda a: L.det(a + 0.0), [x + tj.eye(2)])
    for _ in range(3):
        for found, wanted in zip(with_gradients(compiled, [x + tj.eye(2)]), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
