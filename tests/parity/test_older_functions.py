"""Functions under older names, products with sparse matrices and attention by its weights, beside PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from parity_tools import array, compare, same_error, torch

import tracejit as tj

RNG = np.random.default_rng(5)
X, Y = RNG.standard_normal((3, 4)), RNG.standard_normal((4, 3))
W, B = RNG.standard_normal((24, 8)) * 0.3, RNG.standard_normal(24)
OUT, Q, K = (
    RNG.standard_normal((8, 8)),
    RNG.standard_normal((3, 2, 8)),
    RNG.standard_normal((5, 2, 8)),
)

CALLS = [
    "t.svd(x).S",
    "(lambda s: s.U @ t.diag(s.S) @ s.V.t())(t.svd(x))",
    "t.vander(x[0].detach(), 3) + 0 * x[0, 0]",
    "t.vander(x[0].detach(), increasing=True) + 0 * x[0, 0]",
    "t.as_strided(x, (2, 2), (1, 2), 1)",
    "t.renorm(x, 2, 0, 0.5)",
    "t.renorm(x, 1, -1, 0.5)",
    "x.renorm(2, 1, 0.1)",
    "t.constant_pad_nd(x, (1, 2, 0, 1), 3.0)",
    "t.spmm(x, y)",
    "t.sparse.mm(x, y)",
    "t.exp_(x * 1)",
    "t.sqrt_(x.abs() + 1)",
    "t.detach(x) * x",
    "t.frobenius_norm(x, (0, 1))",
    "t.frobenius_norm(x, 1, True)",
    "t.nuclear_norm(x[:, :3] + t.eye(3, dtype=t.float64) * 9)",
    "t.nuclear_norm(t.stack([x[:2, :2], x[1:, 1:3]]) + t.eye(2, dtype=t.float64) * 9, keepdim=True)",
    "t.i0_(x * 1)",
    "t.addmv_(x[0] * 1, y, x[:, 0])",
    "f.upsample_nearest(x[None, None], scale_factor=2)",
    "f.upsample_bilinear(x[None, None], scale_factor=2)",
    "(x * 1).put_(t.tensor([1, 5]), y[0, :2])",
    "t.sparse_coo_tensor(t.tensor([[0, 1, 0], [1, 0, 1]]), x[0, :3], (2, 2)).to_dense()",
    "t.sparse_coo_tensor(t.tensor([[0, 1], [1, 2]]), x[:2]).coalesce().to_dense()",
]


@pytest.mark.parametrize("call", CALLS)
def test_functions(call: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compare(
            lambda t, f, x, y: eval(call, {"t": t, "f": f, "x": x, "y": y}), [X, Y], second=False
        )


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("mask", [False, True])
def test_attention_by_its_weights(need_weights: bool, mask: bool) -> None:
    def attend(t: Any, f: Any, q: Any, k: Any, w: Any, b: Any, o: Any) -> Any:
        hidden = t.tensor([[False] * 4 + [True], [False] * 5]) if mask else None
        found, weights = f.multi_head_attention_forward(
            q, k, k, 8, 2, w, b, None, None, False, 0.0, o, None,
            key_padding_mask=hidden, need_weights=need_weights,
        )  # fmt: skip
        return (found, weights) if need_weights else found

    compare(attend, [Q, K, W, B, OUT], second=False)


def test_attention_with_separate_projections() -> None:
    def attend(t: Any, f: Any, q: Any, w: Any, b: Any, o: Any) -> Any:
        return f.multi_head_attention_forward(
            q, q, q, 8, 2, None, b, None, None, False, 0.0, o, b[:8], training=True, need_weights=False,
            use_separate_proj_weight=True, q_proj_weight=w[:8], k_proj_weight=w[8:16], v_proj_weight=w[16:],
        )[0]  # fmt: skip

    compare(attend, [Q, W, B, OUT], second=False)


@pytest.mark.filterwarnings("ignore")
def test_ranges() -> None:
    for arguments in ((3,), (1, 4), (0, 3, 0.5), (3, 0, -1)):
        assert (
            tj.range(*arguments).tolist()
            == torch.range(*(arguments if len(arguments) > 1 else (0, 3))).tolist()
        )
    assert tj.empty_strided((2, 3, 4), (1, 8, 2)).stride() == (1, 8, 2)
    same_error(lambda t, f: t.range(0, 3, -1))


@pytest.mark.parametrize(
    "call",
    [
        "t.renorm(t.ones(2), 2, 0, 1.0)",
        "t.renorm(t.ones(2, 2), 0, 0, 1.0)",
        "t.vander(t.ones(2, 2))",
    ],
)
def test_errors(call: str) -> None:
    same_error(lambda t, f: eval(call, {"t": t}))


def test_counts_and_heavy_tails() -> None:
    tj.manual_seed(0)
    rates = tj.tensor([0.0, 0.5, 20.0])
    drawn = tj.poisson(rates.expand(20000, 3))
    assert np.allclose(array(drawn.mean(0)), [0.0, 0.5, 20.0], atol=0.15)
    waits = tj.empty(20000).geometric_(0.25)
    assert (waits.min().item(), round(waits.mean().item(), 0)) == (1.0, 4.0)
    assert abs(tj.empty(20001).cauchy_(2.0).median().item() - 2.0) < 0.1
