"""Einstein sums: values as NumPy's for every kind of equation, and products in an order that stays small."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj

EQUATIONS: list[tuple[str, list[tuple[int, ...]]]] = [
    ("ii->i", [(3, 3)]),
    ("ij->", [(2, 3)]),
    ("bti,bsj,ijk->btsk", [(3, 4, 5), (3, 6, 2), (5, 2, 7)]),
    ("ij,jk,kl,lm,mn,no->io", [(2, 3), (3, 4), (4, 5), (5, 2), (2, 2), (2, 3)]),
    ("...ij,...jk,k->...i", [(2, 1, 3, 4), (5, 4, 6), (6,)]),
    ("i,i,i->", [(3,), (3,), (1,)]),
    ("ii,ij,j->i", [(3, 3), (3, 4), (4,)]),
    ("ab,cd,ef->fedcba", [(2, 3), (1, 4), (3, 2)]),
    ("ab,cd,ef->", [(2, 3), (1, 4), (3, 2)]),
    ("ij,ij,ij->ij", [(2, 0), (2, 0), (2, 0)]),
]


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_as_numpy_eager_and_compiled(equation: str, shapes: list[tuple[int, ...]]) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    tensors = [tj.tensor(a, requires_grad=True) for a in arrays]
    expected = np.einsum(equation, *arrays)
    compiled = tj.compile(lambda *operands: tj.einsum(equation, *operands))
    for function in (lambda *operands: tj.einsum(equation, *operands), compiled, compiled):
        got = function(*tensors)
        assert got.shape == expected.shape
        np.testing.assert_allclose(got.detach().numpy(), expected, rtol=1e-12, atol=1e-12)


def test_operands_are_taken_in_the_order_that_stays_small() -> None:
    """From left to right the first product would hold 2**40 numbers."""
    row, column = tj.ones(1 << 20), tj.ones(1 << 20)
    assert tj.einsum("i,j,j->i", row, column, column)[0].item() == 1 << 20


def test_order_follows_lengths_found_at_run_time() -> None:
    x = tj.tensor([1.0, -2.0, 3.0, 4.0])
    w = tj.arange(12.0).reshape(4, 3)

    @tj.compile
    def weighted(x: tj.Tensor, w: tj.Tensor) -> tj.Tensor:
        kept = x > 0
        return tj.einsum("i,i,ij->j", x[kept], x[kept], w[kept])

    for signs in ([1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 1.0, 1.0], [-1.0, -1.0, -1.0, 1.0]):
        operand = x.abs() * tj.tensor(signs)
        chosen = operand.numpy() > 0
        expected = (operand.numpy()[chosen] ** 2) @ w.numpy()[chosen]
        np.testing.assert_allclose(weighted(operand, w).numpy(), expected, rtol=1e-6)
