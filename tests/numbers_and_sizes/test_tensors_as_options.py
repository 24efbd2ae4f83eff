"""Numbers of tensors as options of ops: sizes, lengths, windows, dimensions. A recording depends on what they were."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn

F = nn.functional
USES = {
    "narrow": lambda x, n: x.narrow(1, 0, n) @ x.transpose(1, 2),
    "narrow from": lambda x, n: x.narrow(1, n, 2) * 2,
    "unfold": lambda x, n: x.unfold(1, n, 1),
    "topk": lambda x, n: x.topk(n, 1)[0],
    "max_pool": lambda x, n: F.max_pool1d(x, n),
    "adaptive": lambda x, n: F.adaptive_avg_pool1d(x, n),
    "interpolate": lambda x, n: F.interpolate(x, size=n),
    "convolution": lambda x, n: F.conv1d(x, x.new_ones(1, 8, 2), stride=n),
    "expand": lambda x, n: x[:1, :1].expand(2, n, 4) + 1,
    "new_zeros": lambda x, n: x.new_zeros(2, n, 4) @ x.transpose(1, 2),
    "roll": lambda x, n: x.roll(n, 1),
    "softmax": lambda x, n: x.softmax(n),
    "diagonal": lambda x, n: x.diagonal(n, 1, 2),
    "pad": lambda x, n: F.pad(x, (0, n)),
    "triu": lambda x, n: x[0, :4].triu(n),
    "rfft": lambda x, n: tj.fft.rfft(x, n=n).abs(),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", USES)
def test_options_that_tensors_tell(name: str) -> None:
    def use(x, lengths):
        return USES[name](x, lengths.max())

    compiled = tj.compile(use)
    for values in ([2, 1], [2, 1], [2, 2], [1, 1], [1, 1], [2, 1]):
        x = tj.arange(64.0).reshape(2, 8, 4) * len(values)
        expected, found = use(x, tj.tensor(values)), compiled(x, tj.tensor(values))
        assert all(type(extent) is int for extent in found.shape)
        assert found.shape == expected.shape
        assert tj.allclose(found, expected)
    assert compiled.stats.compiled_calls > 0


def test_gradients_through_a_window_that_a_tensor_tells() -> None:
    def step(x, lengths):
        return F.max_pool1d(x, lengths.max()).square().sum()

    compiled = tj.compile(step)
    for values in ([2, 1], [2, 1], [4, 1], [2, 1]):
        leaves = [tj.arange(64.0).reshape(2, 8, 4).requires_grad_() for _ in range(2)]
        for function, x in zip((step, compiled), leaves, strict=True):
            function(x, tj.tensor(values)).backward()
        assert leaves[0].grad.tolist() == leaves[1].grad.tolist()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", USES)
def test_options_that_numpy_tells(name: str) -> None:
    compiled = tj.compile(USES[name])
    for value in (2, 2, 1, 1, 2):
        x = tj.arange(64.0).reshape(2, 8, 4)
        expected, found = USES[name](x, value), compiled(x, np.int64(value))
        assert all(type(extent) is int for extent in found.shape)
        assert found.shape == expected.shape
        assert tj.allclose(found, expected)
    assert compiled.stats.compiled_calls > 0
