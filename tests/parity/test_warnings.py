"""What PyTorch warns of is warned of, with the same class and words."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from parity_tools import torch

import tracejit as tj

CALLS = [
    "f.mse_loss(x, x[:, :1])",
    "f.l1_loss(x, x[:, :1])",
    "f.smooth_l1_loss(x, x[:, :1])",
    "f.huber_loss(x, x[:, :1])",
    "f.mse_loss(x, x, size_average=False)",
    "f.cross_entropy(x, t.tensor([0, 1]), None, False)",
    "t.nn.L1Loss(reduce=False)",
    "f.kl_div(x, x)",
    "t.nn.KLDivLoss()(x, x)",
    "f.softmax(x)",
    "f.log_softmax(x)",
    "f.softmin(x)",
    "t.nn.Softmax()(x)",
    "t.nn.LogSoftmax()(x)",
    "t.nn.Softmin()(x)",
    "f.upsample(x[None], size=4)",
    "t.std(x[:1, :1])",
    "t.var(x, 0, correction=3)",
    "t.var_mean(x[:, :0], 1)",
    "f.grid_sample(x[None, None], t.zeros(1, 2, 2, 2))",
    "f.affine_grid(x[None], (1, 1, 2, 2))",
    "f.dropout3d(x)",
    "f.dropout2d(x[None])",
    "t.var(x[:0], 1)",
    "t.nn.Hardtanh(min_value=0.0, max_value=2.0)",
]
SILENT = [
    "f.softmax(x, 1)",
    "f.softmax(x, dim=1)",
    "t.kl_div(x, x, 1)",
    "f.kl_div(x, x, reduction='batchmean')",
    "t.std(x, 1)",
    "t.var(x[:1], 0, correction=0)",
    "f.mse_loss(x, x)",
    "f.dropout2d(x[None, None])",
]


def _warned(t: Any, call: str, compiled: bool = False) -> list[tuple[type, str]]:
    def run(x: Any) -> Any:
        return eval(call, {"t": t, "f": t.nn.functional, "x": x})

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        (tj.compile(run) if compiled else run)(t.ones(2, 3))
    return [(w.category, str(w.message).replace("torch.", "tracejit.")[:60]) for w in found]


@pytest.mark.parametrize("call", CALLS + SILENT)
def test_warnings(call: str) -> None:
    expected = _warned(torch, call)
    assert bool(expected) is (call in CALLS)
    assert _warned(tj, call) == expected
    assert _warned(tj, call, compiled=True) == expected
