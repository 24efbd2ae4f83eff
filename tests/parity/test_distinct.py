"""Distinct slices, gradients by frequency, complete bases and complex sums against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import close, compare

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

RNG = np.random.default_rng(11)


def both(function: Any, *arrays: Any) -> None:
    ours, theirs = (function(t, *(t.tensor(a) for a in arrays)) for t in (tj, torch))
    ours, theirs = (x if isinstance(x, tuple) else (x,) for x in (ours, theirs))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        close(a, b)


@pytest.mark.parametrize("shape", [(6,), (0,), (1,), (5, 3), (4, 2, 2), (0, 3)])
def test_unique(shape: tuple[int, ...]) -> None:
    x = RNG.integers(0, 3, shape)
    for dim in (None, *range(len(shape))):
        if dim is not None and (len(shape) > 1 and 0 in shape):
            continue
        both(lambda t, x, d=dim: t.unique(x, return_inverse=True, return_counts=True, dim=d), x)
        both(lambda t, x, d=dim: t.unique(x, dim=d), x)
        both(lambda t, x, d=dim: t.unique_consecutive(x, True, True, dim=d), x)
        both(lambda t, x, d=dim: x.unique_consecutive(dim=d), x.astype(float))


def test_unique_slices_compile() -> None:
    def f(x):
        rows, inverse = tj.unique(x, dim=0, return_inverse=True)
        return rows.float().sum(1), inverse, tj.unique_consecutive(x[:, 0])

    compiled = tj.compile(f)
    for seed in range(3):
        x = tj.from_numpy(np.random.default_rng(seed).integers(0, 2, (6, 2)))
        for a, b in zip(f(x), compiled(x), strict=True):
            assert tj.equal(a, b)


def test_gradients_by_frequency() -> None:
    index = np.array([[0, 2, 2], [1, 2, 0]])
    table = RNG.normal(size=(4, 3))
    compare(
        lambda t, f, w: f.embedding(t.tensor(index), w, scale_grad_by_freq=True),
        [table],
        second=False,
    )
    compare(
        lambda t, f, w: f.embedding(t.tensor(index), w, padding_idx=2, scale_grad_by_freq=True),
        [table],
        second=False,
    )
    layers = [t.nn.Embedding(4, 3, max_norm=1.0, scale_grad_by_freq=True) for t in (tj, torch)]
    for t, layer in zip((tj, torch), layers, strict=True):
        layer.load_state_dict({"weight": t.tensor(table.astype(np.float32))})
        layer(t.tensor(index)).pow(2).sum().backward()
    close(layers[0].weight, layers[1].weight, 1e-6)
    close(layers[0].weight.grad, layers[1].weight.grad, 1e-5)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 5), (2, 5, 3)])
def test_complete_bases(shape: tuple[int, ...]) -> None:
    x = RNG.normal(size=shape)
    u, s, vh = tj.linalg.svd(tj.tensor(x))
    sides = torch.linalg.svd(torch.tensor(x))
    assert (tuple(u.shape), tuple(vh.shape)) == (tuple(sides.U.shape), tuple(sides.Vh.shape))
    close(s, sides.S)
    for q in (u, vh):
        assert tj.allclose(q @ q.mT, tj.eye(q.shape[-1], dtype=tj.float64).expand_as(q))
    k = s.shape[-1]
    again = u[..., :k] * s.unsqueeze(-2) @ vh[..., :k, :]
    np.testing.assert_allclose(again.numpy(), x, 1e-9, 1e-9)
    compare(lambda t, f, x: t.linalg.svd(x).S, [x], second=False)


def test_complex_sums_and_systems() -> None:
    pairs = RNG.normal(size=(3, 3, 2))
    for code in (
        "t.linalg.inv(z)",
        "t.linalg.solve(z, z.mT)",
        "t.linalg.det(z)",
        "t.vdot(z[0], z[1])",
        "t.linalg.vecdot(z, z * 2j)",
        "t.addmm(z, z, z, beta=0.5, alpha=0.25)",
        "z.var(0)",
        "z.std()",
        "t.addcdiv(z, z, z + 2)",
        "t.linspace(0, 4.5, 4, dtype=t.complex128) * z[0, 0]",
    ):

        def function(t: Any, f: Any, a: Any, code: str = code) -> Any:
            result = eval(code, {"t": t, "z": t.view_as_complex(a)})
            return t.view_as_real(result.resolve_conj()) if result.is_complex() else result

        compare(function, [pairs], second=False, tolerance=1e-8)
