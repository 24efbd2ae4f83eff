"""``nn.grad``: gradients of convolutions as functions, against those of autograd; eager and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn
from tracejit.nn import functional as F

CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 4, 9), (6, 2, 3), {"stride": 2, "padding": 1, "groups": 2}),
    ((2, 3, 7, 8), (5, 3, 3, 2), {}),
    ((1, 4, 9, 8), (4, 1, 3, 3), {"stride": (2, 1), "padding": (1, 2), "dilation": 2, "groups": 4}),
    ((1, 2, 5, 6, 4), (3, 2, 2, 3, 1), {"padding": (1, 0, 1), "stride": 2}),
]


@pytest.mark.parametrize(("size", "kernel", "options"), CASES)
def test_gradients_are_those_of_autograd(
    size: tuple[int, ...], kernel: tuple[int, ...], options: dict[str, Any]
) -> None:
    rank = len(size) - 2
    x = tj.randn(size, dtype=tj.float64, requires_grad=True)
    w = tj.randn(kernel, dtype=tj.float64, requires_grad=True)
    y = getattr(F, f"conv{rank}d")(x, w, **options)
    g = tj.randn(y.shape, dtype=tj.float64, requires_grad=True)
    expected = tj.autograd.grad(y, (x, w), g, create_graph=True)
    again = tj.autograd.grad(sum((e * e).sum() for e in expected), (x, w, g))
    of_input = getattr(nn.grad, f"conv{rank}d_input")
    of_weight = getattr(F.grad, f"conv{rank}d_weight")

    def both(x: Any, w: Any, g: Any) -> Any:
        return of_input(x.shape, w, g, **options), of_weight(x, w.shape, g, **options)

    compiled = tj.compile(both)
    for f in (both, compiled, compiled):
        found = f(x, w, g)
        second = tj.autograd.grad(sum((e * e).sum() for e in found), (x, w, g))
        for a, b in zip((*found, *second), (*expected, *again), strict=True):
            np.testing.assert_allclose(
                a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12
            )
    assert compiled.stats.compiled_calls == 1


def test_sizes_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(RuntimeError, match="windows"):
        nn.grad.conv1d_input((1, 1, 9), tj.ones(1, 1, 2), tj.ones(1, 1, 2))
    with pytest.raises(RuntimeError, match="stride"):
        nn.grad.conv2d_weight(
            tj.ones(1, 1, 3, 3), (1, 1, 2, 2), tj.ones(1, 1, 2, 2), stride=(1, 1, 1)
        )


def test_older_name_of_a_loss() -> None:
    with pytest.warns(FutureWarning, match="use `NLLLoss` instead"):
        loss = nn.NLLLoss2d(ignore_index=1, reduction="sum")
    scores = tj.randn(2, 3, 4, 4).log_softmax(1)
    target = tj.arange(32).reshape(2, 4, 4) % 3
    assert (
        loss(scores, target).item()
        == F.nll_loss(scores, target, ignore_index=1, reduction="sum").item()
    )
    assert repr(loss) == "NLLLoss2d()"


def test_convolution_over_time_is_a_function_of_layers() -> None:
    x, w, b = tj.randn(5, 2, 3), tj.randn(2, 3, 4), tj.randn(4)
    assert tj.equal(F.conv_tbc(x, w, b, pad=1), tj.conv_tbc(x, w, b, 1))
