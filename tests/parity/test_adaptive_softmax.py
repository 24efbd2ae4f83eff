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


@pytest.mark.parametrize("compiled", [False, True])
def test_clusters_without_labels_get_no_gradients(compiled: bool) -> None:
    """None, not zeros: an optimiser with momentum leaves their weights alone."""
    ours, theirs = pair("AdaptiveLogSoftmaxWithLoss", (64, 20, [5, 12]), {})
    call = tj.compile(ours) if compiled else ours
    x = normal(4, 64)
    for labels in ([0, 4, 13, 19], [0, 4, 13, 19], [6, 4, 13, 6], [1, 2, 3, 4], [0, 3, 13, 19]):
        ours.zero_grad()
        theirs.zero_grad()
        call(tj.tensor(x), tj.tensor(labels)).loss.backward()
        theirs(torch.tensor(x), torch.tensor(labels)).loss.backward()
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert (a.grad is None) == (b.grad is None)
            if a.grad is not None:
                close(a.grad, b.grad)


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
