"""What functions compute inside autocast, beside PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from parity_tools import close, torch

import tracejit as tj

CALLS = [
    "F.mse_loss(b, p)",
    "F.l1_loss(b, p)",
    "F.smooth_l1_loss(b, p)",
    "F.huber_loss(b, p)",
    "F.kl_div(b, p)",
    "F.poisson_nll_loss(b, p)",
    "F.binary_cross_entropy_with_logits(b, p)",
    "F.cross_entropy(b, p)",
    "F.binary_cross_entropy(p, p)",
    "F.cross_entropy(b, y)",
    "F.cross_entropy(b, y, label_smoothing=0.1)",
    "F.nll_loss(b, y)",
    "F.multi_margin_loss(b, y)",
    "F.soft_margin_loss(b, s)",
    "F.hinge_embedding_loss(b, s)",
    "F.margin_ranking_loss(b, p, s)",
    "F.cosine_embedding_loss(b, p, s[:, 0])",
    "F.triplet_margin_loss(b, p, p + 1)",
    "b.prod(1)",
    "b.quantile(0.5)",
    "t.cdist(b, p)",
    "b.trace()",
    "b.softmax(1)",
    "F.pad(b[None, None], (1, 1, 1, 1), mode='replicate')",
    "F.pad(b[None, None], (1, 1, 1, 1), mode='circular')",
    "F.avg_pool3d(b.reshape(1, 1, 2, 3, 4), 2)",
    "t.addmm(f[:, :1], f, f.T)",
    "t.addbmm(f[:, :1], f[None], f.T[None])",
    "t.dot(f[0], f[1])",
    "t.mv(f, f[0])",
    "F.prelu(f, t.ones(1))",
    "f @ f.T",
]


@pytest.mark.parametrize("call", CALLS)
def test_dtypes_and_values(call: str) -> None:
    rng = np.random.default_rng(0)
    x, p = rng.normal(size=(6, 4)), rng.random((6, 4)) * 0.8 + 0.1
    found: list[Any] = []
    for t in (tj, torch):
        f = t.tensor(x, dtype=t.float32)
        names = {"t": t, "F": t.nn.functional, "f": f, "b": f.to(t.bfloat16), "s": f.sign()}
        names |= {"p": t.tensor(p).to(t.bfloat16), "y": t.tensor([0, 1, 2, 3, 0, 1])}
        with warnings.catch_warnings(), t.autocast("cpu", dtype=t.bfloat16):
            warnings.simplefilter("ignore")
            found.append(eval(call, names))
    assert str(found[0].dtype).rpartition(".")[2] == str(found[1].dtype).rpartition(".")[2]
    exact = found[0].dtype is tj.float32
    close(*(x.double() for x in found), tolerance=1e-5 if exact else 2e-2)
