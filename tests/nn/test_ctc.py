"""Connectionist temporal classification with lengths in tensors: compiled whatever they hold."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit.nn import functional as F


def _loss(x: tj.Tensor, y: tj.Tensor, inputs: tj.Tensor, lengths: tj.Tensor) -> tj.Tensor:
    return F.ctc_loss(x.log_softmax(2), y, inputs, lengths, reduction="none")


def test_lengths_in_tensors_are_compiled() -> None:
    compiled = tj.compile(_loss, strict=True)
    tj.manual_seed(0)
    for _ in range(4):
        x = tj.randn(9, 3, 6, requires_grad=True)
        y, inputs = tj.randint(1, 6, (3, 4)), tj.randint(7, 10, (3,))
        lengths = tj.randint(0, 5, (3,), dtype=tj.int32)
        results = []
        for function in (_loss, compiled):
            x.grad = None
            loss = function(x, y, inputs, lengths)
            loss.sum().backward()
            results.append((loss.detach().numpy(), x.grad.numpy()))
        for eager, fused in zip(*results, strict=True):
            np.testing.assert_allclose(fused, eager, rtol=1e-5, atol=1e-6)
    assert compiled.stats.recordings == 1


def test_targets_one_after_the_other() -> None:
    tj.manual_seed(1)
    x, y = tj.randn(9, 3, 6), tj.randint(1, 6, (3, 4))
    inputs, lengths = tj.tensor([9, 8, 9]), tj.tensor([4, 0, 2])
    flat = tj.cat([row[:n] for row, n in zip(y, lengths.tolist(), strict=True)])
    assert _loss(x, flat, inputs, lengths).tolist() == _loss(x, y, inputs, lengths).tolist()


@pytest.mark.parametrize(
    ("inputs", "lengths", "match"),
    [
        ([9, 10, 9], [4, 4, 4], "input_lengths to have value at most 9, but got value 10"),
        ([9, 9, 9], [4, 5, 4], "at least 5 at dimension 1"),
        ([9, 9], [4, 4, 4], "input_lengths must be of size batch_size"),
    ],
)
def test_lengths_that_do_not_fit(inputs: list[int], lengths: list[int], match: str) -> None:
    x, y = tj.zeros(9, 3, 6), tj.ones(3, 4, dtype=tj.int64)
    compiled = tj.compile(_loss)
    compiled(x, y, tj.tensor([9, 9, 9]), tj.tensor([4, 4, 4]))
    for function in (_loss, compiled, compiled):
        with pytest.raises(RuntimeError, match=match):
            function(x, y, tj.tensor(inputs), tj.tensor(lengths))
