"""What programs with sparse matrices and tables ask for, on dense tensors, as in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")


def coordinates(of: Any) -> list[Any]:
    places, values = [[1, 0, 1, 1], [2, 1, 0, 2]], of.tensor([3.0, 4.0, 5.0, 0.5]).requires_grad_()
    x = of.sparse_coo_tensor(of.tensor(places), values, (2, 3)).coalesce()
    found = x.values()
    (found * of.tensor([1.0, 10.0, 100.0])).sum().backward()
    facts = [x._nnz(), x.is_coalesced(), x.sparse_dim(), x.dense_dim()]
    tensors = [x.indices(), x._indices(), found, x._values(), values.grad]
    tensors += [of.eye(3).to_sparse().indices()]
    return [facts, *(t.detach().tolist() for t in tensors)]


@pytest.mark.filterwarnings("ignore")
def test_coordinates() -> None:
    assert coordinates(tj) == coordinates(torch)


def test_coordinates_compiled() -> None:
    @tj.compile
    def weighted(x):
        row, column = x.indices()
        return (x.values() * (row + column)).sum()

    for call in range(4):
        x = tj.eye(3) * (call + 1.0)
        x[0, call % 3] = 2.0
        expected = (x * (tj.arange(3)[:, None] + tj.arange(3))).sum()
        assert weighted(x).item() == expected.item()
    assert weighted.stats.compiled_calls == 3


def trained(of: Any, compiles: bool, **options: Any) -> list[Any]:
    start = np.cos(np.arange(12.0)).reshape(6, 2).astype(np.float32)
    table = of.nn.Embedding(6, 2, sparse=True, _weight=of.tensor(start))
    optimizer = of.optim.SparseAdam(table.parameters(), lr=0.1, **options)

    def step(rows):
        optimizer.zero_grad()
        loss = (table(rows) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    run = tj.compile(step) if compiles else step
    losses = [run(of.tensor([k % 3, (2 * k) % 5, k % 3])).item() for k in range(8)]
    if compiles:
        assert run.stats.compiled_calls >= 6
    return [*losses, *table.weight.detach().flatten().tolist()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("compiles", [False, True])
@pytest.mark.parametrize("options", [{}, {"maximize": True, "eps": 1e-3, "betas": (0.5, 0.9)}])
def test_rows_without_a_gradient_stay(options, compiles) -> None:
    expected, found = trained(torch, False, **options), trained(tj, compiles, **options)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


def test_refused_numbers() -> None:
    w = tj.ones(2, requires_grad=True)
    for options in ({"lr": 0.0}, {"eps": 0.0}, {"betas": (1.0, 0.9)}):
        with pytest.raises(ValueError, match="Invalid"):
            tj.optim.SparseAdam([w], **options)
