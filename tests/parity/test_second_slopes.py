"""First and second derivatives where the pieces of a function meet, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

FUNCTIONS = [
    "f.logsigmoid(x)",
    "f.softplus(x)",
    "f.binary_cross_entropy_with_logits(x, ones * 0.3)",
    "f.binary_cross_entropy_with_logits(x, ones * 0.3, pos_weight=ones * 2)",
    "f.soft_margin_loss(x, ones)",
    "f.multilabel_soft_margin_loss(x[None], ones[None])",
    "t.distributions.Bernoulli(logits=x).entropy()",
    "t.distributions.NegativeBinomial(5.0, logits=x).log_prob(ones)",
    "f.huber_loss(x, ones * 0, reduction='none')",
    "f.huber_loss(x, ones * 0, delta=2.0)",
    "f.smooth_l1_loss(x, ones * 0, reduction='none')",
    "f.smooth_l1_loss(x, ones * 0, beta=2.0)",
    "f.elu(x)",
    "f.elu(x, 2.0)",
    "f.elu(x * 1, inplace=True)",
    "f.selu(x)",
    "f.celu(x, 2.0)",
    "f.hardswish(x)",
    "t.special.i1(x * 1e-17)",
    "t.special.i1e(x * 1e-9)",
]


def _derivatives(t: Any, code: str, x: Any) -> list[Any]:
    found = eval(code, {"t": t, "f": t.nn.functional, "x": x, "ones": t.ones_like(x)})
    (slope,) = t.autograd.grad(found.sum(), x, create_graph=True)
    (curvature,) = t.autograd.grad((slope * slope).sum() + slope.sum(), x)
    return [found.detach(), slope.detach(), curvature]


@pytest.mark.parametrize("code", FUNCTIONS)
def test_pieces_meet_as_in_pytorch(code: str) -> None:
    places = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5])
    theirs = _derivatives(torch, code, torch.tensor(places, requires_grad=True))
    compiled = tj.compile(lambda x: _derivatives(tj, code, x))
    ours = tj.tensor(places, requires_grad=True)
    for found in (_derivatives(tj, code, ours), *(compiled(ours) for _ in range(3))):
        for a, b in zip(found, theirs, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12)
