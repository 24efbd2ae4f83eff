"""Log-softmax in clusters beside PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from module_tools import normal, pair, run
from parity_tools import close, same_error, torch

import tracejit as tj

LABELS = np.array([0, 4, 5, 11, 12, 19])


@pytest.mark.parametrize("options", [{}, {"div_value": 2.0, "head_bias": True}])
@pytest.mark.parametrize("cutoffs", [[5], [5, 12], [1, 2, 12]])
def test_layer(cutoffs: list[int], options: dict[str, Any]) -> None:
    ours, theirs = pair("AdaptiveLogSoftmaxWithLoss", (64, 20, cutoffs), options)
    x = normal(6, 64)
    run(ours, theirs, x, LABELS)
    close(ours.log_prob(tj.tensor(x)), theirs.log_prob(torch.tensor(x)))
    close(ours.predict(tj.tensor(x)), theirs.predict(torch.tensor(x)))
    for a, b in zip(
        ours(tj.tensor(x[1]), tj.tensor(7)),
        theirs(torch.tensor(x[1]), torch.tensor(7)),
        strict=True,
    ):
        close(a, b)


def test_compiled() -> None:
    layer = tj.nn.AdaptiveLogSoftmaxWithLoss(64, 20, [5, 12])
    x, labels = tj.randn(6, 64), tj.tensor(LABELS)
    compiled = tj.compile(layer, strict=True)
    for _ in range(3):
        assert tj.allclose(compiled(x, labels).loss, layer(x, labels).loss)


@pytest.mark.parametrize(
    "call",
    [
        "t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [])",
        "t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 5])",
        "t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 20])",
        "t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5])(t.ones(2, 8), t.tensor([0, 20]))",
        "t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5])(t.ones(2, 8), t.tensor([0]))",
        "t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5])(t.ones(8), t.tensor([0]))",
    ],
)
def test_errors(call: str) -> None:
    same_error(lambda t, f: eval(call, {"t": t}))
