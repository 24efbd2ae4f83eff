"""Writing through views that repeat nothing: expand to the same sizes, pooled and flattened results."""

from __future__ import annotations

import pytest

import tracejit as tj
from tracejit.nn import functional as F


def scaled(x):
    y = x * 1
    y.expand(1, *y.shape).mul_(2)
    return y + x


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: tj.compile(f, strict=True)])
def test_an_expanded_view_without_repeats_can_be_written(wrap):
    call = wrap(scaled)
    for _ in range(3):
        x = tj.tensor([1.0, 2.0], requires_grad=True)
        y = call(x)
        y.sum().backward()
        assert y.tolist() == [3.0, 6.0]
        assert x.grad.tolist() == [3.0, 3.0]


def test_one_that_repeats_cannot():
    with pytest.raises(RuntimeError, match="single memory location"):
        tj.ones(2, 1).expand(2, 3).add_(1)


def head(x):
    y = tj.flatten(F.adaptive_avg_pool2d(x, 1), 1)
    return F.dropout(F.relu_(y), 0.0, True).sin()


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: tj.compile(f, strict=True)])
def test_pooled_and_flattened_results_can_be_overwritten(wrap):
    call = wrap(head)
    for _ in range(3):
        x = tj.linspace(-1, 2, 24).reshape(2, 3, 2, 2).requires_grad_()
        y = call(x)
        y.sum().backward()
        mean = x.detach().mean((2, 3))
        assert tj.allclose(y, mean.relu().sin())
        expected = (mean.cos() * (mean > 0) / 4)[..., None, None].expand(2, 3, 2, 2)
        assert tj.allclose(x.grad, expected)


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: tj.compile(f, strict=True)])
@pytest.mark.parametrize("index", [..., (), None])
def test_the_whole_of_a_number_is_a_view(wrap, index):
    def function(x):
        y = x * 2
        y[index].add_(1)
        x[1][index] = 5.0
        return y, x[0][index]

    call = wrap(function)
    for _ in range(3):
        x = tj.tensor([1.0, 2.0])
        y, z = call(x)
        assert y.tolist() == [3.0, 5.0]
        z.zero_()
        assert x.tolist() == [0.0, 5.0]
        one = tj.tensor(3.0)
        one[index].mul_(2)
        assert one.item() == 6.0
